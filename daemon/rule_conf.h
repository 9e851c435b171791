/* SPDX-License-Identifier: MIT */
#pragma once

#include <libconfig.h>
#include <stdio.h>

#include "rule.h"
#include "fabric/conf_section.h"

/*
 * Rules as settings: the section
 *
 *	rules = (
 *		{ program = "pg_basebackup"; action = "tcp"; },
 *		{ unit = "redis*"; to = "10.0.0.0/8"; action = "accelerate"; },
 *		{ port = "8000-8999"; direction = "in"; action = "tcp"; }
 *	);
 *
 * and, one key at a time, as the texts in which a daemon tells them.
 */

/*
 * Read the value of "rules" from a file. Names of users are looked up. @ret_list: changed only if
 * all of it is good. @ret_error: set if the result is not 0. Returns 0 or SECTION_BAD.
 */
int rule_conf_read(const config_setting_t *setting, struct rule_list *ret_list,
		   struct section_error *ret_error);

/*
 * Give @rule the key @name with the value @text. @ret_error: its text is set if the result is not
 * 0. Returns 0 or SECTION_BAD.
 */
int rule_conf_set(struct rule *rule, const char *name, const char *text,
		  struct section_error *ret_error);

/* Longest value as text, terminator included. */
#define RULE_VALUE_BYTES RULE_PATTERN_BYTES

/* The name of a key; static storage. */
const char *rule_key_name(enum rule_key key);

/*
 * The value of @key as rule_conf_set() takes it; @rule has it. A user is shown as written, a
 * network with its prefix. Returns @text.
 */
const char *rule_value_text(const struct rule *rule, enum rule_key key,
			    char text[RULE_VALUE_BYTES]);

/* The whole of a rule as it is in a file. Longer ones are cut. Returns @text. */
#define RULE_TEXT_BYTES 768u
const char *rule_text(const struct rule *rule, char text[RULE_TEXT_BYTES]);

/* Print the section as a commented sample. */
void rule_conf_print_sample(FILE *out);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "rule_conf.h"

/*
 * Where `shunt explain` gets its rules, and what it is asked about.
 */

struct explain_source {
	bool is_daemon;
	char where[PATH_MAX]; /* its directory, or the file; the latter need not exist */
	struct rule_list list;
};

/*
 * The rules of @file; NULL: of the daemon that answers first, without one of the file that a daemon
 * would read. Returns TOOL_OK, or an exit status after telling the user.
 */
int explain_rules(const char *file, struct explain_source *ret_source);

/* A connection that may never be made. */
struct explain_question {
	const char *asked; /* the program, as asked for */
	bool is_found, is_script;
	char program[PATH_MAX];
	char user[RULE_USER_BYTES];
	char unit[PATH_MAX];	     /* empty: none */
	struct rule_subject subject; /* of these; its texts lie in them */
};

/*
 * Find out what the kernel would call program @name: where it is found, behind its links. As it is,
 * where there is nothing of that name. Of a script the kernel would name the interpreter: that it
 * is one is told.
 */
void explain_set_program(struct explain_question *question, const char *name);

/* The user @text, a name or a number; NULL: who asks. False: there is none. */
bool explain_set_user(struct explain_question *question, const char *text);

/* The control group that systemd would give to @unit. False: too long. */
bool explain_set_unit(struct explain_question *question, const char *unit);

/* ADDRESS:PORT, with an IPv6 address in brackets. False: it is none. */
bool explain_set_to(struct explain_question *question, const char *text);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "config.h"

/*
 * Changing the settings of a daemon that runs.
 */

/* Longest text of a value, terminator included: a path is the longest. */
#define CONF_VALUE_BYTES CONF_PATH_BYTES

/* One key, or section, whose value differs. */
struct conf_change {
	const char *name;
	const char *unit;	       /* empty: none */
	char before[CONF_VALUE_BYTES]; /* as in the file; empty for a section */
	char after[CONF_VALUE_BYTES];
	uint8_t applies; /* enum key_applies */
};

/* What is told of each change; must not keep it. */
typedef void conf_told_fn(void *ctx, const struct conf_change *change);

/*
 * Take over from @next what may change while the daemon runs; the rest of @config stays as it is.
 * @told: is told of every difference, of those too that are not taken over. Never fails. Returns
 * how many differences there are.
 */
size_t conf_change(struct conf *config, const struct conf *next, conf_told_fn *told, void *ctx);

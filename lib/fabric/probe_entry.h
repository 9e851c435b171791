/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "fabric/probe.h"

/*
 * The file of kept probe results as text: {"version": 1, "entries": {KEY: {…}, …}}. What it says is
 * not trusted. Pure but for probe_entry_key(), which asks for the kernel's release.
 */

#define PROBE_KEY_BYTES 768u
#define PROBE_PARSE_BYTES 256u

/* What an entry is found by: everything that a result depends on, as printable text. */
void probe_entry_key(const struct device_info *info, const struct probe_order *order,
		     char key[PROBE_KEY_BYTES]);

/*
 * The entries in @text of @len bytes: an object for the caller to release, or NULL with the reason
 * in @why. The entries themselves are not looked at.
 */
json_t *probe_entries_parse(const char *text, size_t len, char why[PROBE_PARSE_BYTES]);

/* The file with @entries: text for the caller to free, or NULL without memory. */
char *probe_entries_text(json_t *entries);

/*
 * Whether @entry is a report that a probe of @order can have come to and that is worth keeping.
 * @ret_report: set if so, with is_cached.
 */
bool probe_entry_decode(const json_t *entry, const struct probe_order *order,
			struct probe_report *ret_report);

/* @report as an entry, for the caller to release, or NULL without memory. */
json_t *probe_entry_encode(const struct probe_report *report);

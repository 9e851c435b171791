/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdint.h>

/*
 * Reading the daemon's JSON, which may be of a newer version: keys that are not there read as 0 or
 * "?", keys that we don't know are passed over.
 */

/* Parse @text. An object for the caller to release, or NULL after telling the user. */
json_t *answer_parse(const char *text);

/* Print @json to stdout as it is: laid out for a terminal, else in one line. */
void answer_print(const json_t *json);

/* Values of @object. */
uint64_t answer_count(const json_t *object, const char *key);
const char *answer_text(const json_t *object, const char *key);

/* @object[@key][@way], as in "tcp_bytes": {"tx": 1, "rx": 2}. */
uint64_t answer_way(const json_t *object, const char *key, const char *way);

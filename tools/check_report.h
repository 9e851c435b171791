/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stddef.h>

/*
 * What `shunt check` says: lines, each a verdict on one point, with what was found and what to do
 * about it. Without memory the program ends: it has only this to do.
 */

enum check_verdict {
	CHECK_PASS,
	CHECK_WARN, /* it works, but less than it could: mostly that connections stay on TCP */
	CHECK_FAIL, /* it does not work as it was set up to */
	CHECK_VERDICTS,
};

/* Longest text, terminator included; the rest is cut off. Chosen. */
#define CHECK_TEXT_BYTES 640u

struct check_line {
	const char *check; /* name of the check that says it; static */
	char subject[96];  /* what it is about: a device, a file, a peer; may be empty */
	enum check_verdict verdict;
	char found[CHECK_TEXT_BYTES];
	char remedy[CHECK_TEXT_BYTES]; /* a command or setting; empty: nothing to do */
};

struct check_report {
	const char *check; /* whose lines come now */
	struct check_line *lines;
	size_t n, room;
};

/* All zeros is an empty report. */
void check_report_deinit(struct check_report *report);

/* Append a line about @subject ("" for none). */
__attribute__((format(printf, 4, 5))) void check_say(struct check_report *report,
						     enum check_verdict verdict,
						     const char *subject, const char *format, ...);

/* Say of the last line (there is one) what to do. */
__attribute__((format(printf, 2, 3))) void check_remedy(struct check_report *report,
							const char *format, ...);

/* The worst verdict of all lines. */
enum check_verdict check_worst(const struct check_report *report);

/* Print to stdout as text; in colour on a terminal, unless NO_COLOR is set. */
void check_print(const struct check_report *report);

/* The same as JSON, for the caller to release. */
json_t *check_json(const struct check_report *report);

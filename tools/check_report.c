/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check_report.h"
#include "tool.h"

static const char *const verdict_names[CHECK_VERDICTS] = {"pass", "warn", "fail"};

void check_report_deinit(struct check_report *report)
{
	free(report->lines);
	*report = (struct check_report){0};
}

/* Texts come from files and from others: nothing that a terminal would obey. */
static void tame(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
	}
}

void check_say(struct check_report *report, enum check_verdict verdict, const char *subject,
	       const char *format, ...)
{
	struct check_line *line;
	va_list args;

	if (report->n == report->room) {
		report->room = report->room ? report->room * 2 : 32;
		report->lines = realloc(report->lines, report->room * sizeof(*report->lines));
		if (!report->lines) {
			tool_say("out of memory");
			exit(TOOL_FAILED);
		}
	}
	line = &report->lines[report->n++];
	*line = (struct check_line){.check = report->check, .verdict = verdict};
	snprintf(line->subject, sizeof(line->subject), "%s", subject);
	va_start(args, format);
	vsnprintf(line->found, sizeof(line->found), format, args);
	va_end(args);
	tame(line->subject);
	tame(line->found);
}

void check_remedy(struct check_report *report, const char *format, ...)
{
	struct check_line *line = &report->lines[report->n - 1];
	va_list args;

	va_start(args, format);
	vsnprintf(line->remedy, sizeof(line->remedy), format, args);
	va_end(args);
	tame(line->remedy);
}

static size_t count(const struct check_report *report, enum check_verdict verdict)
{
	size_t n = 0;

	for (size_t i = 0; i < report->n; i++)
		n += report->lines[i].verdict == verdict;
	return n;
}

enum check_verdict check_worst(const struct check_report *report)
{
	if (count(report, CHECK_FAIL))
		return CHECK_FAIL;
	return count(report, CHECK_WARN) ? CHECK_WARN : CHECK_PASS;
}

void check_print(const struct check_report *report)
{
	static const char *const colours[CHECK_VERDICTS] = {"\033[32m", "\033[33m", "\033[1;31m"};
	const bool colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	size_t width = 0;

	for (size_t i = 0; i < report->n; i++) {
		if (strlen(report->lines[i].check) > width)
			width = strlen(report->lines[i].check);
	}
	for (size_t i = 0; i < report->n; i++) {
		const struct check_line *line = &report->lines[i];

		printf("%s%s%s  %-*s  %s%s%s\n", colour ? colours[line->verdict] : "",
		       verdict_names[line->verdict], colour ? "\033[0m" : "", (int)width,
		       line->check, line->subject, line->subject[0] ? ": " : "", line->found);
		if (line->remedy[0])
			printf("%*sdo: %s\n", (int)width + 8, "", line->remedy);
	}
	printf("%zu passed, %zu warnings, %zu failed\n", count(report, CHECK_PASS),
	       count(report, CHECK_WARN), count(report, CHECK_FAIL));
}

/* JSON takes UTF-8 only. */
static json_t *text_json(const char *text)
{
	char plain[CHECK_TEXT_BYTES];
	json_t *json = json_string(text);

	if (json)
		return json;
	snprintf(plain, sizeof(plain), "%s", text);
	for (char *at = plain; *at; at++) {
		if (*at & 0x80)
			*at = '?';
	}
	return json_string(plain);
}

json_t *check_json(const struct check_report *report)
{
	json_t *lines = json_array();

	for (size_t i = 0; i < report->n; i++) {
		const struct check_line *line = &report->lines[i];

		json_array_append_new(lines,
				      json_pack("{s:s, s:o, s:s, s:o, s:o}", "check", line->check,
						"subject", text_json(line->subject), "verdict",
						verdict_names[line->verdict], "found",
						text_json(line->found), "remedy",
						text_json(line->remedy)));
	}
	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "version", SHUNT_VERSION, "verdict",
			 verdict_names[check_worst(report)], "passed",
			 (json_int_t)count(report, CHECK_PASS), "warnings",
			 (json_int_t)count(report, CHECK_WARN), "failed",
			 (json_int_t)count(report, CHECK_FAIL), "checks", lines);
}

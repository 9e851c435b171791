/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "metrics_text.h"

/* The suffix that samples of the family have in both formats. */
static const char *suffix_of(const char *type)
{
	if (strcmp(type, "counter") == 0)
		return "_total";
	return strcmp(type, "info") == 0 ? "_info" : "";
}

void metrics_begin(struct metrics_text *text, const struct metrics_family *family)
{
	bool is_info = strcmp(family->type, "info") == 0;
	/* There a family is called as its samples are. */
	const char *suffix = text->is_prometheus ? suffix_of(family->type) : "";
	const char *type = text->is_prometheus && is_info ? "gauge" : family->type;

	text->name = family->name;
	text->type = family->type;
	fprintf(text->out, "# HELP %s%s %s\n", family->name, suffix, family->help);
	fprintf(text->out, "# TYPE %s%s %s\n", family->name, suffix, type);
	if (family->unit[0] && !text->is_prometheus)
		fprintf(text->out, "# UNIT %s %s\n", family->name, family->unit);
}

static void put_escaped(FILE *out, const char *value)
{
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '"' || *value == '\\')
			fprintf(out, "\\%c", *value);
		else
			fputc(*value, out);
	}
}

/* @le: one more label of that name; NULL: none. */
static void put_name(struct metrics_text *text, const char *suffix, const char *const *labels,
		     const char *le)
{
	const char *gap = "";

	fprintf(text->out, "%s%s", text->name, suffix);
	if ((!labels || !labels[0]) && !le) {
		fputc(' ', text->out);
		return;
	}
	fputc('{', text->out);
	for (; labels && labels[0]; labels += 2) {
		fprintf(text->out, "%s%s=\"", gap, labels[0]);
		put_escaped(text->out, labels[1]);
		fputc('"', text->out);
		gap = ",";
	}
	if (le)
		fprintf(text->out, "%sle=\"%s\"", gap, le);
	fputs("} ", text->out);
}

void metrics_count(struct metrics_text *text, const char *const *labels, uint64_t value)
{
	put_name(text, suffix_of(text->type), labels, NULL);
	fprintf(text->out, "%" PRIu64 "\n", value);
}

void metrics_number(struct metrics_text *text, const char *const *labels, double value)
{
	put_name(text, suffix_of(text->type), labels, NULL);
	fprintf(text->out, "%.9g\n", value);
}

void metrics_buckets(struct metrics_text *text, const char *const *labels,
		     const struct metrics_histogram *histogram)
{
	uint64_t sum = 0;
	char le[32];

	for (size_t i = 0; i < histogram->n; i++) {
		/* Claims of programs: they may be anything, but the buckets are to grow. */
		if (__builtin_add_overflow(sum, histogram->counts[i], &sum))
			sum = UINT64_MAX;
		if (i + 1 < histogram->n)
			snprintf(le, sizeof(le), "%" PRIu64 ".0", histogram->limits[i]);
		else
			strcpy(le, "+Inf");
		put_name(text, "_bucket", labels, le);
		fprintf(text->out, "%" PRIu64 "\n", sum);
	}
	put_name(text, "_sum", labels, NULL);
	fprintf(text->out, "%" PRIu64 "\n", histogram->sum);
	put_name(text, "_count", labels, NULL);
	fprintf(text->out, "%" PRIu64 "\n", sum);
}

void metrics_end(struct metrics_text *text)
{
	if (!text->is_prometheus)
		fputs("# EOF\n", text->out);
}

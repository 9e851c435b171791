/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Text of metrics, in the OpenMetrics 1.0 format or in the older one of Prometheus, which differ in
 * the names of counters' families, in units, in the type "info" and in the last line.
 */
struct metrics_text {
	FILE *out;
	bool is_prometheus;
	/* The family that samples belong to now. */
	const char *name, *type;
};

struct metrics_family {
	const char *name; /* with its unit at the end; without _total, _info */
	const char *type; /* "counter", "gauge", "histogram" or "info" */
	const char *unit; /* "": none */
	const char *help;
};

/* Head lines of a family; its samples follow. */
void metrics_begin(struct metrics_text *text, const struct metrics_family *family);

/*
 * A sample: its labels, as pairs of name and value, NULL behind the last; values may be anything
 * that is UTF-8. Of counters and infos the suffix is added.
 */
void metrics_count(struct metrics_text *text, const char *const *labels, uint64_t value);
void metrics_number(struct metrics_text *text, const char *const *labels, double value);

/* A histogram: @counts of @n buckets, whose upper limits are @limits, one less: the last bucket has
 * none. @sum: of all values. */
struct metrics_histogram {
	const uint64_t *limits, *counts;
	size_t n;
	uint64_t sum;
};
void metrics_buckets(struct metrics_text *text, const char *const *labels,
		     const struct metrics_histogram *histogram);

/* The last line. */
void metrics_end(struct metrics_text *text);

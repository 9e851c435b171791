/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Columns of text, each as wide as its widest cell. Without memory the program ends: it has only
 * this to do.
 */

#define TABLE_COLUMNS_MAX 13u

struct table {
	size_t columns;
	const char *const *heads; /* NULL: no head line */
	const bool *right;	  /* aligned to the right */
	char **cells;		  /* line by line */
	size_t count, room;
};

/* @columns at most TABLE_COLUMNS_MAX; the arrays have so many elements and stay the caller's. */
void table_init(struct table *table, size_t columns, const char *const *heads, const bool *right);
void table_deinit(struct table *table);

/* Append a cell; a line is full after as many as there are columns. */
__attribute__((format(printf, 2, 3))) void table_add(struct table *table, const char *format, ...);

/* Print all lines to stdout, each after @indent spaces. */
void table_print(const struct table *table, int indent);

#define BYTES_TEXT 16

/* @bytes for people, in at most 5 characters: 999, 1.5K, 12M, 3.2G. Returns @text. */
const char *bytes_text(uint64_t bytes, char text[BYTES_TEXT]);

#define SPAN_TEXT 32

/* @ms for people: "512 ms", "35 s", "3 min", "20 h". Returns @text. */
const char *span_text(uint64_t ms, char text[SPAN_TEXT]);

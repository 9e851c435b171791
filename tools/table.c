/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

#define GAP 2 /* spaces between columns */

static void no_memory(void)
{
	fputs("shunt: out of memory\n", stderr);
	exit(4);
}

void table_init(struct table *table, size_t columns, const char *const *heads, const bool *right)
{
	*table = (struct table){.columns = columns, .heads = heads, .right = right};
}

void table_deinit(struct table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	*table = (struct table){0};
}

void table_add(struct table *table, const char *format, ...)
{
	va_list args;
	int len;

	if (table->count == table->room) {
		table->room = table->room ? table->room * 2 : 64;
		table->cells = realloc(table->cells, table->room * sizeof(*table->cells));
		if (!table->cells)
			no_memory();
	}
	va_start(args, format);
	len = vasprintf(&table->cells[table->count], format, args);
	va_end(args);
	if (len < 0)
		no_memory();
	table->count++;
}

static size_t column_width(const struct table *table, size_t column)
{
	size_t width = table->heads ? strlen(table->heads[column]) : 0;

	for (size_t i = column; i < table->count; i += table->columns) {
		if (strlen(table->cells[i]) > width)
			width = strlen(table->cells[i]);
	}
	return width;
}

static void print_line(const struct table *table, const char *const *cells, const size_t *widths,
		       int indent)
{
	printf("%*s", indent, "");
	for (size_t c = 0; c < table->columns; c++) {
		bool last = c + 1 == table->columns;
		int width = (int)widths[c];

		if (table->right[c])
			printf("%*s", width, cells[c]);
		else
			printf("%-*s", last ? 0 : width, cells[c]);
		printf("%*s", last ? 0 : GAP, "");
	}
	putchar('\n');
}

void table_print(const struct table *table, int indent)
{
	size_t widths[TABLE_COLUMNS_MAX];

	for (size_t c = 0; c < table->columns; c++)
		widths[c] = column_width(table, c);
	if (table->heads)
		print_line(table, table->heads, widths, indent);
	for (size_t i = 0; i + table->columns <= table->count; i += table->columns)
		print_line(table, (const char *const *)&table->cells[i], widths, indent);
}

const char *bytes_text(uint64_t bytes, char text[BYTES_TEXT])
{
	static const char units[] = "KMGTPE";
	double value = (double)bytes;
	const char *unit = units;

	if (bytes < 1000) {
		snprintf(text, BYTES_TEXT, "%u", (unsigned int)bytes);
		return text;
	}
	for (value /= 1024; value >= 999.5 && unit[1]; value /= 1024)
		unit++;
	snprintf(text, BYTES_TEXT, value < 9.95 ? "%.1f%c" : "%.0f%c", value, *unit);
	return text;
}

const char *span_text(uint64_t ms, char text[SPAN_TEXT])
{
	if (ms < 10000)
		snprintf(text, SPAN_TEXT, "%" PRIu64 " ms", ms);
	else if (ms < 600000)
		snprintf(text, SPAN_TEXT, "%" PRIu64 " s", ms / 1000);
	else if (ms < 36000000)
		snprintf(text, SPAN_TEXT, "%" PRIu64 " min", ms / 60000);
	else
		snprintf(text, SPAN_TEXT, "%" PRIu64 " h", ms / 3600000);
	return text;
}

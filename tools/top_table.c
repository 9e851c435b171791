/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"
#include "tool.h"
#include "top.h"

void top_table_deinit(struct top_table *table)
{
	free(table->rows);
	*table = (struct top_table){0};
}

struct top_row *top_table_add(struct top_table *table)
{
	struct top_row *row;

	if (table->n == table->room) {
		table->room = table->room ? 2 * table->room : 64;
		table->rows = realloc(table->rows, table->room * sizeof(*table->rows));
		if (!table->rows) {
			tool_say("out of memory");
			exit(TOOL_FAILED);
		}
	}
	row = &table->rows[table->n++];
	memset(row, 0, sizeof(*row));
	return row;
}

struct sorting {
	const struct top_table *table;
	const struct top_order *order;
};

static int compare(const void *a, const void *b, void *arg)
{
	const struct sorting *sorting = arg;
	const struct top_row *left = a, *right = b;
	size_t column = sorting->order->column;
	int sign = sorting->order->is_reverse ? -1 : 1;

	if (!sorting->table->columns[column].is_number)
		return sign * strcmp(left->text[column], right->text[column]);
	if (left->number[column] != right->number[column])
		return left->number[column] > right->number[column] ? -sign : sign;
	return strcmp(left->text[0], right->text[0]); /* so that equals keep their places */
}

void top_table_sort(struct top_table *table, const struct top_order *order)
{
	struct sorting sorting = {table, order};

	if (order->column < table->n_columns && table->n > 1)
		qsort_r(table->rows, table->n, sizeof(*table->rows), compare, &sorting);
}

static bool has_word(const struct top_table *table, const struct top_row *row, const char *word)
{
	for (size_t c = 0; c < table->n_columns; c++) {
		if (strcasestr(row->text[c], word))
			return true;
	}
	return false;
}

void top_table_filter(struct top_table *table, const char *filter)
{
	char words[80], *rest, *word;

	snprintf(words, sizeof(words), "%s", filter);
	for (word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		size_t kept = 0;

		for (size_t i = 0; i < table->n; i++) {
			if (has_word(table, &table->rows[i], word))
				table->rows[kept++] = table->rows[i];
		}
		table->n = kept;
	}
}

size_t top_table_find(const struct top_table *table, const char *head)
{
	size_t c = 0;

	while (c < table->n_columns && strcasecmp(table->columns[c].head, head) != 0)
		c++;
	return c;
}

/* Which columns fit, as bits: the highest ranks go until the rest does. */
static unsigned int shown(const struct top_table *table, int width)
{
	unsigned int bits = (1u << table->n_columns) - 1;

	for (;;) {
		size_t worst = table->n_columns;
		int need = -1;

		for (size_t c = 0; c < table->n_columns; c++) {
			if (!(bits & 1u << c))
				continue;
			need += table->columns[c].width + 1;
			if (worst == table->n_columns ||
			    table->columns[c].rank > table->columns[worst].rank)
				worst = c;
		}
		if (need <= width || !(bits & (bits - 1)))
			return bits;
		bits &= ~(1u << worst);
	}
}

/* Append @text to @line as a cell of @column. Width is counted in characters of UTF-8. */
static void append(char line[TOP_LINE_BYTES], const struct top_column *column, const char *text)
{
	int chars = 0, bytes = 0, len = (int)strlen(line);

	while (text[bytes] && chars < column->width) {
		bytes++;
		while ((text[bytes] & 0xc0) == 0x80)
			bytes++;
		chars++;
	}
	snprintf(line + len, TOP_LINE_BYTES - (size_t)len, "%s%*s%.*s%*s", len ? " " : "",
		 column->is_number ? column->width - chars : 0, "", bytes, text,
		 column->is_number ? 0 : column->width - chars, "");
}

char *top_table_heads(const struct top_table *table, const struct top_order *order, int width,
		      char line[TOP_LINE_BYTES])
{
	unsigned int bits = shown(table, width);
	char head[32];

	line[0] = '\0';
	for (size_t c = 0; c < table->n_columns; c++) {
		snprintf(head, sizeof(head), "%s%s", table->columns[c].head,
			 c != order->column  ? ""
			 : order->is_reverse ? "^"
					     : "v");
		if (bits & 1u << c)
			append(line, &table->columns[c], head);
	}
	return line;
}

char *top_table_line(const struct top_table *table, size_t row, int width,
		     char line[TOP_LINE_BYTES])
{
	unsigned int bits = shown(table, width);

	line[0] = '\0';
	for (size_t c = 0; c < table->n_columns; c++) {
		if (bits & 1u << c)
			append(line, &table->columns[c], table->rows[row].text[c]);
	}
	return line;
}

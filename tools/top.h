/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ask.h"
#include "gather.h"

/*
 * `shunt top`: what the daemon says, again and again, as one of three tables.
 *
 *	top_feed.c    asks the daemon, and asks for it again when it has gone
 *	top_views.c   makes a table of an answer and the one before it
 *	top_table.c   sorts, filters and lays out a table: lines of text, for a screen or a file
 *	top_screen.c  draws them with ncurses, and takes keys
 *	cmd_top.c     the command line, and output without a screen
 */

#define TOP_COLUMNS_MAX 13u
#define TOP_CELL_BYTES 64u
#define TOP_LINE_BYTES 512u

/* --- tables (top_table.c) --------------------------------------------------------------------- */

struct top_column {
	const char *head;
	int width;	/* at least; cells are cut off at it, but the last column's */
	bool is_number; /* to the right, and sorted downwards at first */
	int rank;	/* where it is too narrow for all, columns with high ranks go first */
};

struct top_row {
	char text[TOP_COLUMNS_MAX][TOP_CELL_BYTES];
	double number[TOP_COLUMNS_MAX]; /* of those that are numbers; below 0: not known */
};

struct top_table {
	const struct top_column *columns;
	size_t n_columns;
	struct top_row *rows;
	size_t n, room;
};

struct top_order {
	size_t column;
	bool is_reverse; /* numbers upwards, texts downwards */
};

void top_table_deinit(struct top_table *table);

/* A new row, all zeros, until the next is added. Without memory the program ends. */
struct top_row *top_table_add(struct top_table *table);

void top_table_sort(struct top_table *table, const struct top_order *order);

/* Keep the rows that have each word of @filter in one of their cells, in whatever case. */
void top_table_filter(struct top_table *table, const char *filter);

/* The column called @head, in whatever case; or table->n_columns. */
size_t top_table_find(const struct top_table *table, const char *head);

/* The line of heads, or of row @row, that fits into @width characters. The column of @order is
 * marked in the heads. Returns @line. */
char *top_table_heads(const struct top_table *table, const struct top_order *order, int width,
		      char line[TOP_LINE_BYTES]);
char *top_table_line(const struct top_table *table, size_t row, int width,
		     char line[TOP_LINE_BYTES]);

/* --- the daemon (top_feed.c) ------------------------------------------------------------------ */

struct top_feed {
	struct asker asker; /* fd -1: none answers */
	struct gathered now, before;
	uint64_t now_ns, before_ns; /* when; 0: not yet */
	char why[420];		    /* nobody answers */
};

void top_feed_init(struct top_feed *feed);
void top_feed_deinit(struct top_feed *feed);

/* Ask once. False: nobody answers, and @feed->why says why; what was known stays. */
bool top_feed_ask(struct top_feed *feed);

/* --- views (top_views.c) ---------------------------------------------------------------------- */

enum top_view {
	TOP_CONNECTIONS,
	TOP_LINKS,
	TOP_HOSTS,
	TOP_VIEWS,
};

const char *top_view_name(enum top_view view);

/* The table of what @feed knows, unsorted; to be deinitialized. */
void top_view_make(enum top_view view, const struct top_feed *feed, struct top_table *ret_table);

/* Its first order: by the bytes of a second. */
struct top_order top_view_order(enum top_view view);

/* A line about the daemon, and one about its totals; of @TOP_LINE_BYTES each. */
void top_summary(const struct top_feed *feed, char daemon[TOP_LINE_BYTES],
		 char totals[TOP_LINE_BYTES]);

/* --- the screen (top_screen.c) ---------------------------------------------------------------- */

struct top_options {
	enum top_view view;
	char sort[24];	 /* head of a column; "": as the view has it */
	char filter[80]; /* "": all */
	double delay_s;
	unsigned long count; /* of screens, then the end; 0: for ever */
	bool is_batch, is_json;
};

/* Until it is told to end. Returns the exit status. */
int top_screen(struct top_feed *feed, struct top_options *options);

/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"
#include "top.h"

/* Of output that goes to no terminal, if COLUMNS does not say. Chosen: all columns fit. */
#define BATCH_WIDTH 200

static int take_view(const char *name, struct top_options *options)
{
	for (enum top_view view = 0; view < TOP_VIEWS; view++) {
		if (strcmp(name, top_view_name(view)) == 0) {
			options->view = view;
			return TOOL_GO_ON;
		}
	}
	return tool_usage("top", "--view is connections, links or hosts, not \"%s\"", name);
}

/* Seconds, or a number of screens, within limits; false: it is none. */
static bool take_number(const char *text, double min, double max, double *ret_value)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= min && value <= max))
		return false;
	*ret_value = value;
	return true;
}

static int take_option(int opt, struct top_options *options)
{
	double number;

	switch (opt) {
	case 'd':
		if (!take_number(optarg, 0.1, 600, &options->delay_s))
			return tool_usage("top", "-d takes 0.1 to 600 seconds, not \"%s\"", optarg);
		break;
	case 'n':
		if (!take_number(optarg, 1, 1e9, &number))
			return tool_usage("top", "-n takes a number from 1 on, not \"%s\"", optarg);
		options->count = (unsigned long)number;
		break;
	case 'v':
		return take_view(optarg, options);
	case 's':
		snprintf(options->sort, sizeof(options->sort), "%s", optarg);
		break;
	case 'f':
		snprintf(options->filter, sizeof(options->filter), "%s", optarg);
		break;
	case 'o':
		options->count = 1;
		options->is_batch = true;
		break;
	case 'j':
		options->is_json = true;
		options->is_batch = true;
		break;
	default:
		options->is_batch = true;
		break;
	}
	return TOOL_GO_ON;
}

static int parse(int argc, char **argv, struct top_options *options)
{
	static const struct option longs[] = {
		{"delay", required_argument, NULL, 'd'},  {"count", required_argument, NULL, 'n'},
		{"view", required_argument, NULL, 'v'},	  {"sort", required_argument, NULL, 's'},
		{"filter", required_argument, NULL, 'f'}, {"once", no_argument, NULL, 'o'},
		{"batch", no_argument, NULL, 'b'},	  {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},	  {NULL, 0, NULL, 0},
	};
	struct top_table table;
	size_t column;
	int opt, rc;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":d:n:", longs, NULL)) != -1) {
		if (opt == 'h' || opt == ':' || opt == '?')
			return tool_other_option("top", opt, argv);
		rc = take_option(opt, options);
		if (rc != TOOL_GO_ON)
			return rc;
	}
	if (optind < argc)
		return tool_usage("top", "it takes no arguments, but got \"%s\"", argv[optind]);
	if (!options->sort[0])
		return TOOL_GO_ON;
	top_view_make(options->view, &(struct top_feed){.asker.fd = -1}, &table);
	column = top_table_find(&table, options->sort);
	if (column < table.n_columns)
		return TOOL_GO_ON;
	return tool_usage("top", "%s have no column \"%s\"", top_view_name(options->view),
			  options->sort);
}

static int width_of_output(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	double number;

	if (columns && take_number(columns, 20, TOP_LINE_BYTES - 1, &number))
		return (int)number;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
		return size.ws_col;
	return BATCH_WIDTH;
}

static void print_text(const struct top_feed *feed, const struct top_table *table,
		       const struct top_order *order)
{
	char line[TOP_LINE_BYTES], totals[TOP_LINE_BYTES];
	int width = width_of_output();

	top_summary(feed, line, totals);
	printf("%s\n%s\n", line, totals);
	puts(top_table_heads(table, order, width, line));
	for (size_t i = 0; i < table->n; i++)
		puts(top_table_line(table, i, width, line));
	putchar('\n');
}

static void print_json(const struct top_feed *feed, const struct top_table *table,
		       enum top_view view)
{
	json_t *rows = json_array(), *all;

	for (size_t i = 0; i < table->n; i++) {
		const struct top_row *row = &table->rows[i];
		json_t *object = json_object();

		for (size_t c = 0; c < table->n_columns; c++)
			json_object_set_new(object, table->columns[c].head,
					    !table->columns[c].is_number ? json_string(row->text[c])
					    : row->number[c] < 0	 ? json_null()
								 : json_real(row->number[c]));
		json_array_append_new(rows, object);
	}
	all = json_pack("{s:I, s:b, s:s, s:o}", "time_ms", (json_int_t)time(NULL) * 1000, "daemon",
			feed->asker.fd >= 0, "view", top_view_name(view), "rows", rows);
	json_dumpf(all, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
	putchar('\n');
	json_decref(all);
}

static void pause_for(double seconds)
{
	struct timespec span = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	nanosleep(&span, NULL);
}

/* Each screen comes after a pause, so that it has rates. */
static int batch(struct top_feed *feed, const struct top_options *options)
{
	struct top_order order = top_view_order(options->view);
	struct top_table table;
	unsigned long left = options->count;

	if (!top_feed_ask(feed) && options->count == 1) {
		tool_say("no shuntd answers; %s", feed->why);
		return TOOL_NO_DAEMON;
	}
	do {
		pause_for(options->delay_s);
		top_feed_ask(feed);
		top_view_make(options->view, feed, &table);
		if (options->sort[0])
			order.column = top_table_find(&table, options->sort);
		top_table_filter(&table, options->filter);
		top_table_sort(&table, &order);
		if (options->is_json)
			print_json(feed, &table, options->view);
		else
			print_text(feed, &table, &order);
		top_table_deinit(&table);
		if (fflush(stdout))
			return TOOL_OK; /* main() tells */
	} while (!options->count || --left > 0);
	return TOOL_OK;
}

int cmd_top(int argc, char **argv)
{
	struct top_options options = {.delay_s = 2};
	struct top_feed feed;
	int rc = parse(argc, argv, &options);

	if (rc != TOOL_GO_ON)
		return rc;
	top_feed_init(&feed);
	if (options.is_batch) {
		rc = batch(&feed, &options);
	} else if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		tool_say("shunt top needs a terminal; --once and --batch need none");
		rc = TOOL_FAILED;
	} else {
		setlocale(LC_CTYPE, "");
		rc = top_screen(&feed, &options);
	}
	top_feed_deinit(&feed);
	return rc;
}

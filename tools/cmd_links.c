/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "ask.h"
#include "base/util.h"
#include "table.h"
#include "tool.h"

#define COUNT_TEXT 24

static uint64_t inner(const json_t *object, const char *key, const char *part)
{
	return answer_count(json_object_get(object, key), part);
}

/* "1.00", or "-" where there is nothing to share. */
static const char *per_text(const json_t *object, const char *key, char text[COUNT_TEXT])
{
	const json_t *value = json_object_get(object, key);

	if (json_is_real(value))
		snprintf(text, COUNT_TEXT, "%.2f", json_real_value(value));
	else
		snprintf(text, COUNT_TEXT, "-");
	return text;
}

/* --- one line each ---------------------------------------------------------------------------- */

static void add_line(struct table *table, const json_t *link)
{
	const json_t *sent = json_object_get(link, "sent");
	const json_t *round_trip = json_object_get(json_object_get(link, "tests"), "round_trip_ns");
	char span[SPAN_TEXT], wrs[COUNT_TEXT], posts[COUNT_TEXT], trip[COUNT_TEXT] = "-";

	if (json_is_integer(round_trip))
		snprintf(trip, sizeof(trip), "%.1f us",
			 (double)json_integer_value(round_trip) / 1000);
	table_add(table, "%" PRIu64, answer_count(link, "link"));
	table_add(table, "%s", answer_text(link, "peer"));
	table_add(table, "%s/%" PRIu64, answer_text(link, "device"), answer_count(link, "port"));
	table_add(table, "%s", answer_text(link, "state"));
	table_add(table, "%s",
		  json_object_get(link, "up_ms") ? span_text(answer_count(link, "up_ms"), span)
						 : "-");
	table_add(table, "%" PRIu64, answer_count(link, "lanes"));
	table_add(table, "%" PRIu64, answer_count(link, "inline_bytes"));
	table_add(table, "%" PRIu64 "/%" PRIu64, inner(link, "credits", "left"),
		  inner(link, "credits", "granted"));
	table_add(table, "%" PRIu64 "/%" PRIu64 "/%" PRIu64, inner(link, "messages", "eager"),
		  inner(link, "messages", "write_inline"), inner(link, "messages", "by_reference"));
	table_add(table, "%" PRIu64 "/%" PRIu64, inner(link, "window_updates", "alone"),
		  inner(link, "window_updates", "along"));
	table_add(table, "%s", per_text(sent, "wrs_per_message", wrs));
	table_add(table, "%s", per_text(sent, "posts_per_message", posts));
	table_add(table, "%s", trip);
}

static void print_table(const json_t *links)
{
	static const char *const heads[] = {
		"LINK",	   "PEER",  "PORT",    "STATE",	 "UP",	     "LANES",	   "INLINE",
		"CREDITS", "E/W/R", "UPDATES", "WR/MSG", "POST/MSG", "ROUND TRIP",
	};
	static const bool right[] = {true, false, false, false, true, true, true,
				     true, true,  true,	 true,	true, true};
	const json_t *link;
	struct table table;
	size_t i;

	_Static_assert(ARRAY_SIZE(heads) == ARRAY_SIZE(right), "one for each column");
	_Static_assert(ARRAY_SIZE(heads) <= TABLE_COLUMNS_MAX, "as many as there can be");
	table_init(&table, ARRAY_SIZE(heads), heads, right);
	json_array_foreach(links, i, link) add_line(&table, link);
	table_print(&table, 0);
	table_deinit(&table);
}

/* --- why there is none ------------------------------------------------------------------------ */

static void print_loss(const json_t *lost)
{
	char span[SPAN_TEXT];

	printf("  last lost    link %" PRIu64 " over %s, which was up for %s: %s\n",
	       answer_count(lost, "link"), answer_text(lost, "device"),
	       span_text(answer_count(lost, "was_up_ms"), span), answer_text(lost, "why"));
}

static void print_peer(const json_t *peer)
{
	const json_t *lost = json_object_get(peer, "last_lost");
	bool is_up = strcmp(answer_text(peer, "state"), "up") == 0;
	uint64_t left = answer_count(peer, "retry_in_ms");
	char span[SPAN_TEXT];

	if (is_up && !json_is_object(lost))
		return;
	printf("\n%s: %s", answer_text(peer, "peer"), is_up ? "up" : "no link, ");
	if (!is_up)
		printf("%s", answer_text(peer, "state"));
	putchar('\n');
	if (!is_up && answer_text(peer, "why")[0])
		printf("  why          %s, %" PRIu64 " in a row\n", answer_text(peer, "why"),
		       answer_count(peer, "failures"));
	if (left)
		printf("  tried again  in %s\n", span_text(left, span));
	if (json_is_object(lost))
		print_loss(lost);
}

static void print_links(const json_t *json)
{
	const json_t *links = json_object_get(json, "links"), *peer;
	const char *state = answer_text(json, "state");
	size_t i;

	if (strcmp(state, "off") == 0) {
		puts("Lanes between hosts are off: see remote_lanes in shunt.conf, or the daemon's "
		     "log");
		return;
	}
	if (strcmp(state, "not built") == 0) {
		puts("The daemon was built without RDMA or GnuTLS");
		return;
	}
	if (json_array_size(links))
		print_table(links);
	else
		puts("No links: they are made when a connection to a host with a daemon waits for "
		     "one");
	json_array_foreach(json_object_get(json, "peers"), i, peer) print_peer(peer);
}

int cmd_links(int argc, char **argv)
{
	return ask_and_show(argc, argv, CTL_QUERY_LINKS, print_links);
}

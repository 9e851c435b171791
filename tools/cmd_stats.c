/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "answer.h"
#include "ask.h"
#include "base/util.h"
#include "table.h"
#include "tool.h"

static const bool right[] = {false, true, false};

static void add(struct table *table, const json_t *json, const char *key, const char *label,
		const char *what)
{
	table_add(table, "%s", label);
	table_add(table, "%" PRIu64, answer_count(json, key));
	table_add(table, "%s", what);
}

static void add_bytes(struct table *table, const json_t *json, const char *key, const char *label)
{
	uint64_t tx = answer_way(json, key, "tx"), rx = answer_way(json, key, "rx");
	char text[2][BYTES_TEXT];

	table_add(table, "%s", label);
	table_add(table, "%s", bytes_text(tx, text[0]));
	table_add(table, "sent, and %s received", bytes_text(rx, text[1]));
}

static void print_reasons(const json_t *json, const char *key, const char *title)
{
	const json_t *value, *reasons = json_object_get(json, key);
	struct table table;
	const char *name;

	if (json_object_size(reasons) == 0)
		return;
	printf("\n%s\n", title);
	table_init(&table, 3, NULL, right);
	json_object_foreach((json_t *)(uintptr_t)reasons, name, value)
	{
		enum reason code = REASON_NONE;

		table_add(&table, "%s", name);
		table_add(&table, "%" PRIu64, (uint64_t)json_integer_value(value));
		while (code < REASON_COUNT && strcmp(reason_name(code), name) != 0)
			code++;
		table_add(&table, "%s", code < REASON_COUNT ? reason_text(code) : "");
	}
	table_print(&table, 2);
	table_deinit(&table);
}

/* Links to other hosts, if there are any. */
static void print_links(const json_t *json)
{
	const json_t *lanes = json_object_get(json, "lanes_between_hosts");
	const json_t *links = json_object_get(json, "links");
	const json_t *messages = json_object_get(links, "messages");
	const json_t *sent = json_object_get(links, "sent");
	struct table table;

	if (!links)
		return;
	puts("\nLanes to other hosts, and messages with bytes sent over their links");
	table_init(&table, 3, NULL, right);
	add(&table, lanes, "made", "made", "of the lanes above");
	add(&table, lanes, "lost", "lost", "of these: TCP went on from the exact byte");
	add(&table, messages, "eager", "eager", "in one inline send");
	add(&table, messages, "write_inline", "write inline", "by an inline write, and a send");
	add(&table, messages, "by_reference", "by reference", "by a write from memory, and a send");
	add(&table, sent, "wrs", "work requests", "for all that was sent");
	add(&table, sent, "posts", "posts", "of these");
	table_print(&table, 2);
	table_deinit(&table);
}

/* "up to 64", "64 to 256" … "over 256K". */
static void add_range(struct table *table, const json_t *limits, size_t i)
{
	uint64_t from = (uint64_t)json_integer_value(json_array_get(limits, i - 1));
	uint64_t to = (uint64_t)json_integer_value(json_array_get(limits, i));
	char text[2][BYTES_TEXT];

	if (i >= json_array_size(limits))
		table_add(table, "over %s", bytes_text(from, text[0]));
	else
		table_add(table, "up to %s", bytes_text(to, text[1]));
}

/* How large messages on lanes of @kind were; nothing if there were none. */
static void print_sizes(const json_t *json, const char *kind, const char *title)
{
	static const char *const heads[] = {"size", "sent", "", "received", ""};
	static const bool rights[] = {false, true, true, true, true};
	const json_t *lane = json_object_get(json_object_get(json, "by_lane"), kind);
	const json_t *limits = json_object_get(json, "size_limits");
	const json_t *sizes = json_object_get(lane, "sizes");
	static const char *const ways[] = {"tx", "rx"};
	struct table table;

	if (!answer_way(lane, "messages", "tx") && !answer_way(lane, "messages", "rx"))
		return;
	printf("\n%s\n", title);
	table_init(&table, ARRAY_SIZE(heads), heads, rights);
	for (size_t i = 0; i < json_array_size(json_object_get(sizes, "tx")); i++) {
		add_range(&table, limits, i);
		for (int way = 0; way < 2; way++) {
			const json_t *counts = json_object_get(sizes, ways[way]);
			json_int_t count = json_integer_value(json_array_get(counts, i));
			uint64_t all = answer_way(lane, "messages", ways[way]);

			table_add(&table, "%" JSON_INTEGER_FORMAT, count);
			table_add(&table, "%.0f%%", all ? 100 * (double)count / (double)all : 0);
		}
	}
	table_print(&table, 2);
	table_deinit(&table);
}

static void print_stats(const json_t *json)
{
	struct table table;

	puts("Ends of connections since the daemon started");
	table_init(&table, 3, NULL, right);
	add(&table, json, "seen", "seen", "asked for a lane");
	add(&table, json, "open", "open", "of these still there");
	add(&table, json, "promoted", "promoted", "had a lane at least once");
	add(&table, json, "lanes", "lanes", "in all");
	add(&table, json, "lane_changes", "lane changes", "of one direction, complete");
	add_bytes(&table, json, "tcp_bytes", "over TCP");
	add_bytes(&table, json, "lane_bytes", "over lanes");
	add(&table, json, "clients_cut_off", "cut off", "clients that broke the protocol");
	table_print(&table, 2);
	table_deinit(&table);
	print_links(json);
	print_sizes(json, "ring", "Messages on lanes of this host, by size in bytes");
	print_sizes(json, "rdma", "Messages on lanes to other hosts, by size in bytes");
	print_reasons(json, "demotions", "Lanes that ended, by reason");
	print_reasons(json, "refusals", "Lanes refused, by reason");
	print_reasons(json, "resets", "Connections reset, by reason");
}

int cmd_stats(int argc, char **argv)
{
	return ask_and_show(argc, argv, CTL_QUERY_STATS, print_stats);
}

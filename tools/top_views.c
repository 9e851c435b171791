/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "base/util.h"
#include "table.h"
#include "top.h"

/* --- cells ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void put(struct top_row *row, size_t column,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(row->text[column], TOP_CELL_BYTES, format, args);
	va_end(args);
	/* Names of programs may hold anything: nothing of it is to reach the terminal. */
	for (char *at = row->text[column]; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	}
}

static void put_number(struct top_row *row, size_t column, uint64_t value)
{
	row->number[column] = (double)value;
	put(row, column, "%" PRIu64, value);
}

static void put_bytes(struct top_row *row, size_t column, uint64_t value)
{
	char text[BYTES_TEXT];

	row->number[column] = (double)value;
	put(row, column, "%s", bytes_text(value, text));
}

/* Of a second; "-" while there is nothing to compare with. */
static void put_rate(struct top_row *row, size_t column, double rate)
{
	char text[BYTES_TEXT];

	row->number[column] = rate;
	if (rate < 0)
		put(row, column, "-");
	else
		put(row, column, "%s", bytes_text((uint64_t)(rate + 0.5), text));
}

static void put_share(struct top_row *row, size_t column, uint64_t part, uint64_t whole)
{
	row->number[column] = whole ? 100 * (double)part / (double)whole : -1;
	if (whole)
		put(row, column, "%.0f%%", row->number[column]);
	else
		put(row, column, "-");
}

/* @now - @then of a second; -1 without a second. A count that fell began anew. */
static double rate_of(const struct top_feed *feed, uint64_t now, uint64_t then)
{
	double seconds = (double)(feed->now_ns - feed->before_ns) / 1e9;

	if (!feed->before_ns || seconds <= 0)
		return -1;
	return (double)(now < then ? now : now - then) / seconds;
}

static const char *reason_of(const json_t *json)
{
	const char *reason = answer_text(json, "reason");

	return strcmp(reason, "none") == 0 ? "" : reason;
}

/* Messages with bytes of a lane or link, and of those the inline ones. */
static uint64_t sent_messages(const json_t *json, uint64_t *ret_inline)
{
	*ret_inline = answer_way(json, "messages", "eager") +
		      answer_way(json, "messages", "write_inline");
	return *ret_inline + answer_way(json, "messages", "by_reference");
}

/* --- connections ------------------------------------------------------------------------------ */

enum {
	C_PID,
	C_FD,
	C_COMMAND,
	C_LANE,
	C_LOCAL,
	C_PEER,
	C_TX,
	C_RX,
	C_MSG,
	C_INLINE,
	C_SENT,
	C_RCVD,
	C_REASON
};

static const struct top_column connection_columns[] = {
	[C_PID] = {"PID", 7, true, 0},		 [C_FD] = {"FD", 5, true, 10},
	[C_COMMAND] = {"COMMAND", 12, false, 1}, [C_LANE] = {"LANE", 10, false, 2},
	[C_LOCAL] = {"LOCAL", 22, false, 8},	 [C_PEER] = {"PEER", 22, false, 7},
	[C_TX] = {"TX/s", 6, true, 3},		 [C_RX] = {"RX/s", 6, true, 3},
	[C_MSG] = {"MSG/s", 6, true, 4},	 [C_INLINE] = {"INLINE", 7, true, 6},
	[C_SENT] = {"SENT", 6, true, 9},	 [C_RCVD] = {"RCVD", 6, true, 9},
	[C_REASON] = {"REASON", 14, false, 5},
};

static bool is_same(const json_t *a, const json_t *b)
{
	return answer_count(a, "pid") == answer_count(b, "pid") &&
	       answer_count(a, "fd") == answer_count(b, "fd") &&
	       strcmp(answer_text(a, "local"), answer_text(b, "local")) == 0 &&
	       strcmp(answer_text(a, "peer"), answer_text(b, "peer")) == 0;
}

/* The connection as it was, mostly at nearly the same place of the list; NULL: it is new. */
static const json_t *earlier(const json_t *list, size_t at, const json_t *connection)
{
	size_t n = json_array_size(list);

	for (size_t i = 0; i < n; i++) {
		const json_t *found = json_array_get(list, (at + i) % n);

		if (is_same(found, connection))
			return found;
	}
	return NULL;
}

static uint64_t moved(const json_t *connection, const char *way)
{
	return answer_way(connection, "tcp_bytes", way) + answer_way(connection, "lane_bytes", way);
}

static void add_rates(struct top_row *row, const struct top_feed *feed, const json_t *now,
		      const json_t *then)
{
	bool is_same_lane = then && answer_count(now, "epoch") == answer_count(then, "epoch");
	uint64_t messages =
		answer_way(now, "lane_messages", "tx") + answer_way(now, "lane_messages", "rx");
	uint64_t old = is_same_lane ? answer_way(then, "lane_messages", "tx") +
					      answer_way(then, "lane_messages", "rx")
				    : 0;

	put_rate(row, C_TX, rate_of(feed, moved(now, "tx"), then ? moved(then, "tx") : 0));
	put_rate(row, C_RX, rate_of(feed, moved(now, "rx"), then ? moved(then, "rx") : 0));
	put_rate(row, C_MSG,
		 json_object_get(now, "lane_messages") ? rate_of(feed, messages, old) : -1);
}

static void add_connection(struct top_table *table, const struct top_feed *feed, size_t at,
			   const json_t *now)
{
	const json_t *list = json_object_get(feed->before.connections, "connections");
	const json_t *remote = json_object_get(now, "remote");
	struct top_row *row = top_table_add(table);
	uint64_t inlined, messages = sent_messages(remote, &inlined);

	put_number(row, C_PID, answer_count(now, "pid"));
	put_number(row, C_FD, answer_count(now, "fd"));
	put(row, C_COMMAND, "%s", answer_text(now, "comm"));
	put(row, C_LANE, "%s%s%s", answer_text(now, "lane"), remote ? ":" : "",
	    remote ? answer_text(remote, "device") : "");
	put(row, C_LOCAL, "%s", answer_text(now, "local"));
	put(row, C_PEER, "%s", answer_text(now, "peer"));
	add_rates(row, feed, now, earlier(list, at, now));
	put_share(row, C_INLINE, inlined, messages);
	put_bytes(row, C_SENT, moved(now, "tx"));
	put_bytes(row, C_RCVD, moved(now, "rx"));
	put(row, C_REASON, "%s", reason_of(now));
}

/* --- links ------------------------------------------------------------------------------------ */

enum { L_LINK, L_PEER, L_DEVICE, L_STATE, L_LANES, L_TX, L_RX, L_MSG, L_INLINE, L_RTT, L_REASON };

static const struct top_column link_columns[] = {
	[L_LINK] = {"LINK", 6, true, 0},       [L_PEER] = {"PEER", 22, false, 1},
	[L_DEVICE] = {"DEVICE", 10, false, 2}, [L_STATE] = {"STATE", 8, false, 2},
	[L_LANES] = {"LANES", 6, true, 3},     [L_TX] = {"TX/s", 6, true, 3},
	[L_RX] = {"RX/s", 6, true, 3},	       [L_MSG] = {"MSG/s", 6, true, 4},
	[L_INLINE] = {"INLINE", 7, true, 5},   [L_RTT] = {"RTT us", 7, true, 6},
	[L_REASON] = {"REASON", 14, false, 7},
};

static const json_t *earlier_link(const json_t *list, const json_t *link)
{
	const json_t *found;
	size_t i;

	json_array_foreach(list, i, found)
	{
		if (answer_count(found, "link") == answer_count(link, "link"))
			return found;
	}
	return NULL;
}

static uint64_t sent_bytes(const json_t *link)
{
	return answer_way(link, "bytes", "eager") + answer_way(link, "bytes", "write_inline") +
	       answer_way(link, "bytes", "by_reference");
}

static void add_link(struct top_table *table, const struct top_feed *feed, const json_t *now)
{
	const json_t *then = earlier_link(json_object_get(feed->before.links, "links"), now);
	struct top_row *row = top_table_add(table);
	uint64_t inlined, old, messages;

	old = sent_messages(then, &inlined);
	messages = sent_messages(now, &inlined);
	put_number(row, L_LINK, answer_count(now, "link"));
	put(row, L_PEER, "%s", answer_text(now, "peer"));
	put(row, L_DEVICE, "%s", answer_text(now, "device"));
	put(row, L_STATE, "%s", answer_text(now, "state"));
	put_number(row, L_LANES, answer_count(now, "lanes"));
	put_rate(row, L_TX, rate_of(feed, sent_bytes(now), sent_bytes(then)));
	put_rate(row, L_RX,
		 rate_of(feed, answer_way(now, "received", "bytes"),
			 answer_way(then, "received", "bytes")));
	put_rate(row, L_MSG, rate_of(feed, messages, old));
	put_share(row, L_INLINE, inlined, messages);
	if (answer_way(now, "tests", "answers")) {
		put_number(row, L_RTT, answer_way(now, "tests", "round_trip_ns") / 1000);
	} else {
		row->number[L_RTT] = -1;
		put(row, L_RTT, "-");
	}
	put(row, L_REASON, "%s", reason_of(now));
}

/* --- hosts ------------------------------------------------------------------------------------ */

enum { H_ADDRESS, H_NAME, H_STATE, H_SECURED, H_DEVICES, H_MATCHES, H_OFFERS, H_WHY };

static const struct top_column host_columns[] = {
	[H_ADDRESS] = {"ADDRESS", 22, false, 0}, [H_NAME] = {"NAME", 12, false, 5},
	[H_STATE] = {"STATE", 11, false, 1},	 [H_SECURED] = {"SECURED", 11, false, 6},
	[H_DEVICES] = {"DEVICES", 8, true, 4},	 [H_MATCHES] = {"MATCHES", 8, true, 2},
	[H_OFFERS] = {"OFFERS", 7, true, 3},	 [H_WHY] = {"WHY", 40, false, 7},
};

static void add_host(struct top_table *table, const json_t *host, bool is_reached)
{
	struct top_row *row = top_table_add(table);

	put(row, H_ADDRESS, "%s", answer_text(host, "address"));
	put(row, H_NAME, "%s", answer_text(host, "name"));
	put(row, H_STATE, "%s", is_reached ? answer_text(host, "state") : "unreachable");
	put(row, H_SECURED, "%s", is_reached ? answer_text(host, "secured_by") : "");
	put_number(row, H_DEVICES, json_array_size(json_object_get(host, "rdma")));
	put_number(row, H_MATCHES, answer_way(host, "counts", "matches"));
	put_number(row, H_OFFERS, answer_way(host, "counts", "offers_sent"));
	put(row, H_WHY, "%s", is_reached ? "" : answer_text(host, "why"));
}

/* --- all -------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	const struct top_column *columns;
	size_t n_columns, order;
} views[TOP_VIEWS] = {
	[TOP_CONNECTIONS] = {"connections", connection_columns, ARRAY_SIZE(connection_columns),
			     C_TX},
	[TOP_LINKS] = {"links", link_columns, ARRAY_SIZE(link_columns), L_TX},
	[TOP_HOSTS] = {"hosts", host_columns, ARRAY_SIZE(host_columns), H_ADDRESS},
};

const char *top_view_name(enum top_view view)
{
	return views[view].name;
}

struct top_order top_view_order(enum top_view view)
{
	return (struct top_order){.column = views[view].order};
}

void top_view_make(enum top_view view, const struct top_feed *feed, struct top_table *ret_table)
{
	struct top_table table = {views[view].columns, views[view].n_columns, NULL, 0, 0};
	const json_t *item;
	size_t i;

	switch (view) {
	case TOP_LINKS:
		json_array_foreach(json_object_get(feed->now.links, "links"), i, item)
			add_link(&table, feed, item);
		break;
	case TOP_HOSTS:
		json_array_foreach(json_object_get(feed->now.peers, "peers"), i, item)
			add_host(&table, item, true);
		json_array_foreach(json_object_get(feed->now.peers, "unreachable"), i, item)
			add_host(&table, item, false);
		break;
	default:
		json_array_foreach(json_object_get(feed->now.connections, "connections"), i, item)
			add_connection(&table, feed, i, item);
		break;
	}
	*ret_table = table;
}

static uint64_t sum_of(const json_t *counts)
{
	const json_t *value;
	const char *name;
	uint64_t sum = 0;

	json_object_foreach((json_t *)(uintptr_t)counts, name, value) sum +=
		(uint64_t)json_integer_value(value);
	return sum;
}

void top_summary(const struct top_feed *feed, char daemon[TOP_LINE_BYTES],
		 char totals[TOP_LINE_BYTES])
{
	const json_t *status = feed->now.status, *stats = feed->now.stats;
	char text[2][BYTES_TEXT], span[SPAN_TEXT];

	if (feed->asker.fd < 0)
		snprintf(daemon, TOP_LINE_BYTES, "shunt top: no daemon answers. %s", feed->why);
	else
		snprintf(daemon, TOP_LINE_BYTES, "shunt top: daemon %d, version %s, up %s, %s",
			 (int)answer_count(status, "pid"), answer_text(status, "version"),
			 span_text(answer_count(status, "uptime_s") * 1000, span),
			 feed->asker.dir.path);
	snprintf(totals, TOP_LINE_BYTES,
		 "ends %" PRIu64 ", lanes made %" PRIu64 ", ended %" PRIu64 ", refused %" PRIu64
		 "; sent %s over lanes, %s over TCP",
		 answer_count(stats, "open"), answer_count(stats, "lanes"),
		 sum_of(json_object_get(stats, "demotions")),
		 sum_of(json_object_get(stats, "refusals")),
		 bytes_text(answer_way(stats, "lane_bytes", "tx"), text[0]),
		 bytes_text(answer_way(stats, "tcp_bytes", "tx"), text[1]));
}

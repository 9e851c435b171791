/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/util.h"
#include "core/reason.h"
#include "core/sizes.h"
#include "metrics_facts.h"

/* What the totals of the daemon say. */

#define LABELS(...)                                                                                \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

static const char *const ways[][2] = {{"tx", "sent"}, {"rx", "received"}};
static const char *const kinds[] = {"ring", "rdma"};

static void put_daemon(struct metrics_text *text, const json_t *status)
{
	metrics_begin(text, &(struct metrics_family){"shunt_daemon", "info", "",
						     "The daemon that answered."});
	metrics_count(text, LABELS("version", answer_text(status, "version")), 1);
	metrics_begin(text, &(struct metrics_family){"shunt_uptime_seconds", "gauge", "seconds",
						     "Time since the daemon started."});
	metrics_count(text, NULL, answer_count(status, "uptime_s"));
	metrics_begin(text, &(struct metrics_family){"shunt_sessions", "gauge", "",
						     "Programs that talk to the daemon."});
	metrics_count(text, NULL, answer_count(status, "sessions"));
}

static void put_ends(struct metrics_text *text, const json_t *stats)
{
	static const struct {
		struct metrics_family family;
		const char *key;
	} rows[] = {
		{{"shunt_ends_open", "gauge", "", "Ends of connections that are there."}, "open"},
		{{"shunt_ends_seen", "counter", "", "Ends of connections that asked for a lane."},
		 "seen"},
		{{"shunt_ends_promoted", "counter", "", "Ends that had a lane at least once."},
		 "promoted"},
		{{"shunt_lane_changes", "counter", "",
		  "Complete changes between TCP and a lane, per direction and receiver."},
		 "lane_changes"},
		{{"shunt_clients_cut_off", "counter", "", "Programs that broke the protocol."},
		 "clients_cut_off"},
		{{"shunt_stray_messages", "counter", "",
		  "Messages of programs about lanes that were gone."},
		 "stray_messages"},
	};
	uint64_t lanes = answer_count(stats, "lanes");
	uint64_t remote = answer_way(stats, "lanes_between_hosts", "made");

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		metrics_begin(text, &rows[i].family);
		metrics_count(text, NULL, answer_count(stats, rows[i].key));
	}
	metrics_begin(text, &(struct metrics_family){"shunt_lanes", "counter", "",
						     "Lanes that were made, per end."});
	metrics_count(text, LABELS("lane", "ring"), lanes > remote ? lanes - remote : 0);
	metrics_count(text, LABELS("lane", "rdma"), remote);
	metrics_begin(text,
		      &(struct metrics_family){"shunt_lanes_lost", "counter", "",
					       "Lanes between hosts that were lost; TCP went on."});
	metrics_count(text, NULL, answer_way(stats, "lanes_between_hosts", "lost"));
}

/* A row for each reason there is, so that a first one is seen as an increase. */
static void put_reasons(struct metrics_text *text, const struct metrics_family *family,
			const json_t *counts)
{
	metrics_begin(text, family);
	for (unsigned int i = REASON_NONE + 1; i < REASON_COUNT; i++)
		metrics_count(text, LABELS("reason", reason_name(i)),
			      answer_count(counts, reason_name(i)));
}

static void put_bytes(struct metrics_text *text, const json_t *stats)
{
	const json_t *lanes = json_object_get(stats, "by_lane");

	metrics_begin(text, &(struct metrics_family){"shunt_stream_bytes", "counter", "bytes",
						     "Bytes of connections, by where they went."});
	for (int way = 0; way < 2; way++) {
		metrics_count(text, LABELS("lane", "tcp", "way", ways[way][1]),
			      answer_way(stats, "tcp_bytes", ways[way][0]));
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			metrics_count(text, LABELS("lane", kinds[i], "way", ways[way][1]),
				      answer_way(json_object_get(lanes, kinds[i]), "bytes",
						 ways[way][0]));
	}
}

static size_t read_array(const json_t *array, uint64_t values[SIZES_BUCKETS])
{
	size_t n = size_min(json_array_size(array), SIZES_BUCKETS);

	for (size_t i = 0; i < n; i++) {
		json_int_t value = json_integer_value(json_array_get(array, i));

		values[i] = value < 0 ? 0 : (uint64_t)value;
	}
	return n;
}

static void put_sizes(struct metrics_text *text, const json_t *stats)
{
	uint64_t limits[SIZES_BUCKETS] = {0}, counts[SIZES_BUCKETS] = {0};
	size_t n_limits = read_array(json_object_get(stats, "size_limits"), limits);

	metrics_begin(text, &(struct metrics_family){
				    "shunt_message_size_bytes", "histogram", "bytes",
				    "Sizes of messages on lanes, as put into a ring at once."});
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const json_t *lane = json_object_get(json_object_get(stats, "by_lane"), kinds[i]);

		for (int way = 0; way < 2; way++) {
			const json_t *sizes =
				json_object_get(json_object_get(lane, "sizes"), ways[way][0]);
			struct metrics_histogram histogram = {limits, counts, 0, 0};

			histogram.n = read_array(sizes, counts);
			histogram.sum = answer_way(lane, "bytes", ways[way][0]);
			/* A daemon of another version: no limits for so many. */
			if (histogram.n != n_limits + 1)
				continue;
			metrics_buckets(text, LABELS("lane", kinds[i], "way", ways[way][1]),
					&histogram);
		}
	}
}

void metrics_write(struct metrics_text *text, const struct gathered *gathered)
{
	static const struct metrics_family demotions = {"shunt_demotions", "counter", "",
							"Lanes that ended, by reason."};
	static const struct metrics_family refusals = {
		"shunt_refusals", "counter", "", "Lanes refused: the connection stays on TCP."};
	static const struct metrics_family resets = {"shunt_resets", "counter", "",
						     "Connections that were reset, by reason."};
	const json_t *stats = gathered->stats;

	put_daemon(text, gathered->status);
	put_ends(text, stats);
	put_bytes(text, stats);
	put_sizes(text, stats);
	put_reasons(text, &demotions, json_object_get(stats, "demotions"));
	put_reasons(text, &refusals, json_object_get(stats, "refusals"));
	put_reasons(text, &resets, json_object_get(stats, "resets"));
	metrics_write_hosts(text, gathered);
}

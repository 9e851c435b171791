/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "answer.h"
#include "base/util.h"
#include "metrics_facts.h"

/* What is known of devices, and of links and sessions with other hosts. */

#define LABELS(...)                                                                                \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

static void put_device_forms(struct metrics_text *text, const json_t *devices,
			     const struct metrics_family *family, const char *key)
{
	static const char *const forms[] = {"eager", "write_inline", "by_reference"};
	const json_t *device;
	size_t i;

	metrics_begin(text, family);
	json_array_foreach(devices, i, device)
	{
		for (size_t form = 0; form < ARRAY_SIZE(forms); form++)
			metrics_count(text,
				      LABELS("device", answer_text(device, "device"), "form",
					     forms[form]),
				      answer_way(device, key, forms[form]));
	}
}

static void put_device_counts(struct metrics_text *text, const json_t *devices)
{
	static const struct {
		struct metrics_family family;
		const char *object, *key;
	} rows[] = {
		{{"shunt_device_work_requests", "counter", "", "Work requests, whatever for."},
		 "sent",
		 "wrs"},
		{{"shunt_device_posts", "counter", "", "Posts of these."}, "sent", "posts"},
		{{"shunt_device_received_bytes", "counter", "bytes", "Bytes received."},
		 "received",
		 "bytes"},
		{{"shunt_device_links_made", "counter", "", "Links to other hosts that came up."},
		 "worker",
		 "links_made"},
		{{"shunt_device_links_lost", "counter", "", "Links that were lost."},
		 "worker",
		 "links_lost"},
		{{"shunt_device_lanes_begun", "counter", "", "Lanes between hosts that began."},
		 "worker",
		 "lanes_begun"},
	};
	const json_t *device;
	size_t i;

	for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
		metrics_begin(text, &rows[row].family);
		json_array_foreach(devices, i, device)
			metrics_count(text, LABELS("device", answer_text(device, "device")),
				      answer_way(device, rows[row].object, rows[row].key));
	}
}

static void put_memory(struct metrics_text *text, const json_t *devices)
{
	const json_t *device;
	size_t i;

	metrics_begin(text, &(struct metrics_family){"shunt_device_pinned_bytes", "gauge", "bytes",
						     "Memory that is registered with the device."});
	json_array_foreach(devices, i, device)
		metrics_count(text, LABELS("device", answer_text(device, "device")),
			      answer_way(device, "memory", "pinned"));
}

/* Of several links by the same path, while one ends, the first that is up is shown. */
static bool is_shown(const json_t *links, size_t at)
{
	const json_t *link = json_array_get(links, at), *other;
	size_t i;

	if (strcmp(answer_text(link, "state"), "up") != 0)
		return false;
	json_array_foreach(links, i, other)
	{
		if (i >= at)
			break;
		if (strcmp(answer_text(other, "state"), "up") == 0 &&
		    strcmp(answer_text(other, "peer"), answer_text(link, "peer")) == 0 &&
		    strcmp(answer_text(other, "device"), answer_text(link, "device")) == 0)
			return false;
	}
	return true;
}

static void put_links(struct metrics_text *text, const json_t *links)
{
	const json_t *link, *rtt;
	size_t i;

	metrics_begin(text, &(struct metrics_family){"shunt_link_lanes", "gauge", "",
						     "Lanes on a link that is up."});
	json_array_foreach(links, i, link)
	{
		if (is_shown(links, i))
			metrics_count(text,
				      LABELS("peer", answer_text(link, "peer"), "device",
					     answer_text(link, "device")),
				      answer_count(link, "lanes"));
	}
	metrics_begin(text, &(struct metrics_family){
				    "shunt_link_round_trip_seconds", "gauge", "seconds",
				    "Last answer of the other end of a link that is up."});
	json_array_foreach(links, i, link)
	{
		rtt = json_object_get(json_object_get(link, "tests"), "round_trip_ns");
		if (is_shown(links, i) && json_is_integer(rtt))
			metrics_number(text,
				       LABELS("peer", answer_text(link, "peer"), "device",
					      answer_text(link, "device")),
				       (double)json_integer_value(rtt) / 1e9);
	}
}

static void put_peers(struct metrics_text *text, const json_t *peers)
{
	const json_t *sessions = json_object_get(peers, "peers"), *session;
	uint64_t up = 0;
	size_t i;

	json_array_foreach(sessions, i, session) up +=
		strcmp(answer_text(session, "state"), "up") == 0;
	metrics_begin(text, &(struct metrics_family){"shunt_peer_sessions", "gauge", "",
						     "Sessions with daemons of other hosts."});
	metrics_count(text, NULL, up);
	metrics_begin(text, &(struct metrics_family){
				    "shunt_peers_unreachable", "gauge", "",
				    "Hosts where no daemon answered when it was tried."});
	metrics_count(text, NULL, json_array_size(json_object_get(peers, "unreachable")));
}

void metrics_write_hosts(struct metrics_text *text, const struct gathered *gathered)
{
	static const struct metrics_family messages = {
		"shunt_device_messages", "counter", "",
		"Messages with bytes that were sent, by form: eager is one inline send."};
	static const struct metrics_family bytes = {"shunt_device_sent_bytes", "counter", "bytes",
						    "Bytes of these messages."};
	const json_t *devices = json_object_get(gathered->links, "devices");

	put_device_forms(text, devices, &messages, "messages");
	put_device_forms(text, devices, &bytes, "bytes");
	put_device_counts(text, devices);
	put_memory(text, json_object_get(gathered->devices, "devices"));
	put_links(text, json_object_get(gathered->links, "links"));
	put_peers(text, gathered->peers);
}

/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "figures.h"
#include "links_impl.h"

uint32_t host_link_port(const struct host_link *link)
{
	return container_of(link->pool, struct host_port, pool)->facts.port.number;
}

void link_figures_add(struct worker_link_counts *sum, const struct worker_link_counts *counts)
{
	counts_add(sum, counts, sizeof(*sum));
	sum->round_trip_ns = sum->lanes = sum->credits = sum->owed = sum->wrs_out = 0;
}

static json_t *forms(uint64_t eager, uint64_t write_inline, uint64_t by_reference)
{
	return json_pack("{s:o, s:o, s:o}", "eager", figure(eager), "write_inline",
			 figure(write_inline), "by_reference", figure(by_reference));
}

static json_t *sent_json(const struct worker_link_counts *counts)
{
	const struct link_counts *send = &counts->send;
	uint64_t messages = send->eager + send->write_inline + send->by_reference;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "messages", figure(messages),
			 "sends", figure(counts->messages), "wrs", figure(send->wrs), "posts",
			 figure(send->posts), "signalled", figure(send->signalled),
			 "wrs_per_message", figure_per(send->wrs, messages), "posts_per_message",
			 figure_per(send->posts, messages));
}

json_t *link_figures_json(const struct worker_link_counts *counts)
{
	const struct link_counts *send = &counts->send;

	return json_pack(
		"{s:o, s:o, s:o, s:{s:o, s:o, s:o}, s:{s:o, s:o}, s:{s:o, s:o, s:o, s:o},"
		" s:{s:o, s:o, s:o, s:o}, s:{s:o, s:o, s:o}, s:o}",
		"messages", forms(send->eager, send->write_inline, send->by_reference), "bytes",
		forms(send->eager_bytes, send->write_inline_bytes, send->by_reference_bytes),
		"sent", sent_json(counts), "cdcs", "with_bytes", figure(send->eager),
		"behind_write", figure(send->write_inline + send->by_reference), "alone",
		figure(send->updates), "window_updates", "alone", figure(send->updates), "along",
		figure(send->updates_along), "control", "states", figure(send->states), "ends",
		figure(send->dones), "credits", figure(send->credits), "tests", figure(send->tests),
		"received", "messages", figure(counts->received), "bytes",
		figure(send->heard_bytes), "stale", figure(send->stale), "discarded_bytes",
		figure(send->discarded_bytes), "blocked", "times", figure(counts->blocked), "ns",
		figure(counts->blocked_ns), "told", figure(send->blocked), "breaches",
		figure(counts->breaches));
}

json_t *lane_figures_json(const struct worker_lane_counts *counts)
{
	uint64_t messages = counts->eager + counts->write_inline + counts->by_reference;

	return json_pack(
		"{s:o, s:{s:o, s:o}, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:{s:o, s:o}}", "messages",
		forms(counts->eager, counts->write_inline, counts->by_reference), "bytes", "tx",
		figure(counts->bytes_sent), "rx", figure(counts->bytes_received), "sends",
		figure(counts->messages), "received", figure(counts->received), "wrs",
		figure(counts->wrs), "wrs_per_message", figure_per(counts->wrs, messages),
		"blocked", "times", figure(counts->blocked), "ns", figure(counts->blocked_ns),
		"bells", "rung", figure(counts->rung), "heard", figure(counts->bells));
}

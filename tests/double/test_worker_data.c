/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/util.h"

#include "lib/tap.h"
#include "stage.h"

/* Bytes through the worker: streams, messages of each form, rings of all sizes, many lanes. */

#define STREAM_BYTES (8u << 20)

static const uint32_t inline_limits[] = {0, 32, 48, 80, 96, 101, 216, 236, 512};

static struct stage_conf with_inline(uint32_t bytes)
{
	struct stage_conf conf = stage_usual;

	conf.inline_bytes = bytes;
	return conf;
}

/* --- streams ---------------------------------------------------------------------------------- */

static void stream_both_ways(struct stage *stage)
{
	uint64_t all = (uint64_t)STREAM_BYTES / 4;

	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		stage->lanes[i].stub.role = STUB_STREAM;
		stage->lanes[i].stub.target = all / stage->conf.lanes;
	}
	STAGE_AWAIT(stage, stage_received(stage) == all / stage->conf.lanes * stage->conf.lanes);
	stage_end_lanes(stage);
}

TAP_CASE(a_stream_each_way)
{
	stage_run(&stage_usual, stream_both_ways);
}

/* --- forms ------------------------------------------------------------------------------------ */

static const uint32_t sizes[] = {1, 16, 48, 64, 100, 185, 204, 216, 236, 400, 480, 512, 1000};

#define ROUNDS 10u

/* One message at a time, each of one size: it goes and comes back in the form that fits. */
static void messages_of_all_sizes(struct stage *stage)
{
	struct stub *stub = &stage->lanes[0].stub;
	uint32_t limit = stage->conf.inline_bytes;
	uint64_t eager = 0, write_inline = 0, by_reference = 0;
	struct worker_link_counts counts;
	struct worker_lane_counts lane;

	stub->role = stage->side == 0 ? STUB_PING : STUB_ECHO;
	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (uint32_t j = 0; j < ROUNDS; j++) {
			stub->target += sizes[i];
			/* The echo is of what has come, however far we are here. */
			if (stage->side == 0)
				STAGE_AWAIT(stage, stub->received == stub->target);
			eager += 32 + sizes[i] <= limit;
			write_inline += 32 + sizes[i] > limit && sizes[i] <= limit;
			by_reference += sizes[i] > limit;
		}
	}
	STAGE_AWAIT(stage, stub->received == stub->target && stub->sent == stub->target);
	stage_meet(stage);
	stage_count(stage);
	counts = worker_link_counts(stage->worker_link);
	lane = worker_lane_counts(stage->lanes[0].worker);
	CHECK_EQ(counts.send.eager, eager);
	CHECK_EQ(counts.send.write_inline, write_inline);
	CHECK_EQ(counts.send.by_reference, by_reference);
	CHECK_EQ(lane.eager, eager);
	CHECK_EQ(lane.write_inline, write_inline);
	CHECK_EQ(lane.by_reference, by_reference);
	CHECK_EQ(lane.bytes_sent, stub->sent);
	CHECK_EQ(lane.bytes_received, stub->received);
	if (limit <= 32)
		CHECK_EQ(counts.send.eager, 0);
	tap_diag("inline %u: %llu eager, %llu write-inline, %llu by reference", limit,
		 (unsigned long long)eager, (unsigned long long)write_inline,
		 (unsigned long long)by_reference);
	stage_end_lanes(stage);
}

TAP_CASE(messages_go_in_the_form_that_fits_each_inline_limit)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(inline_limits); i++) {
		const struct stage_conf conf = with_inline(inline_limits[i]);

		stage_run(&conf, messages_of_all_sizes);
	}
}

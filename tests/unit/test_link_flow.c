/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "core/link_flow.h"
#include "core/link_test.h"

#include "lib/tap.h"

static const struct link_limits usual = {
	.depth = 20,
	.inline_bytes = 236,
	.chunk_bytes = LINK_CHUNK_BYTES,
	.lane_bytes = 2 * LINK_CHUNK_BYTES,
	.link_bytes = 3 * LINK_CHUNK_BYTES,
	.own_credits = 8,
	.peer_credits = 6,
};

static struct link_note notes[32];
static struct link_flow flow;

TAP_CASE(limits_are_judged)
{
	struct link_limits bad;

	CHECK(link_limits_are_ok(&usual));
#define BAD(change)                                                                                \
	do {                                                                                       \
		bad = usual;                                                                       \
		bad.change;                                                                        \
		CHECK(!link_limits_are_ok(&bad));                                                  \
	} while (0)
	BAD(depth = LINK_DEPTH_MIN - 1);
	BAD(depth = LINK_DEPTH_MAX + 1);
	BAD(chunk_bytes = 0);
	BAD(chunk_bytes = LINK_CHUNK_BYTES + 1);
	BAD(lane_bytes = LINK_CHUNK_BYTES - 1);
	BAD(link_bytes = 2 * LINK_CHUNK_BYTES - 1);
	BAD(own_credits = LINK_CREDITS_MIN - 1);
	BAD(own_credits = LINK_CREDITS_MAX + 1);
	BAD(peer_credits = LINK_CREDITS_MIN - 1);
	BAD(peer_credits = LINK_CREDITS_MAX + 1);
#undef BAD
	CHECK_EQ(link_slots(16), 16);
	CHECK_EQ(link_slots(17), 32);
	CHECK_EQ(link_slots(LINK_DEPTH_MAX), LINK_DEPTH_MAX);
}

TAP_CASE(each_use_leaves_its_credits)
{
	static const uint32_t least[] = {[LINK_USE_BULK] = 3,
					 [LINK_USE_SMALL] = 3,
					 [LINK_USE_CONTROL] = 2,
					 [LINK_USE_CREDIT] = 1};

	link_flow_init(&flow, &usual, notes);
	for (uint32_t credits = 6; credits != UINT32_MAX; credits--) {
		CHECK_EQ(flow.credits, credits);
		for (enum link_use use = LINK_USE_BULK; use <= LINK_USE_CREDIT; use++)
			CHECK_EQ(link_flow_may(&flow, use, 1), credits >= least[use]);
		if (credits)
			CHECK_EQ(link_flow_spend(&flow), 0);
	}
}

TAP_CASE(each_use_leaves_its_share_of_the_queue)
{
	link_flow_init(&flow, &usual, notes);
	for (uint32_t out = 0; out <= usual.depth; out++) {
		for (uint32_t wrs = 1; wrs <= 4; wrs++) {
			CHECK_EQ(link_flow_may(&flow, LINK_USE_BULK, wrs), out + wrs <= 15);
			CHECK_EQ(link_flow_may(&flow, LINK_USE_SMALL, wrs), out + wrs <= 18);
			CHECK_EQ(link_flow_may(&flow, LINK_USE_CONTROL, wrs), out + wrs <= 20);
		}
		if (out < usual.depth)
			link_flow_post(&flow, NULL, 0);
	}
	CHECK_EQ(link_flow_out(&flow), 20);
}

TAP_CASE(a_quarter_without_a_signal_is_enough)
{
	link_flow_init(&flow, &usual, notes);
	for (int round = 0; round < 3; round++) {
		for (int i = 1; i <= 5; i++) {
			link_flow_post(&flow, NULL, 0);
			CHECK_EQ(link_flow_must_mark(&flow), i == 5);
		}
		link_flow_mark(&flow);
		CHECK(!link_flow_must_mark(&flow));
		CHECK_EQ(link_flow_complete(&flow, flow.head - 1), LINK_FLOW_OK);
	}
}

TAP_CASE(completions_retire_all_before_them_and_nothing_else)
{
	static struct link_lane lane;
	uint32_t first;

	link_flow_init(&flow, &usual, notes);
	flow.head = flow.tail = flow.marked = first = UINT32_MAX - 2;
	CHECK_EQ(link_flow_complete(&flow, first), LINK_FLOW_UNKNOWN);
	for (uint32_t i = 0; i < 6; i++)
		CHECK_EQ(link_flow_post(&flow, i % 2 ? &lane : NULL, i), first + i);
	CHECK_EQ(lane.wrs_out, 3);
	CHECK_EQ(lane.bytes_out, 9);
	CHECK_EQ(flow.bytes_out, 15);
	CHECK_EQ(link_flow_complete(&flow, first - 1), LINK_FLOW_UNKNOWN);
	CHECK_EQ(link_flow_complete(&flow, first + 6), LINK_FLOW_UNKNOWN);
	CHECK_EQ(link_flow_complete(&flow, first + 3), LINK_FLOW_OK);
	CHECK_EQ(link_flow_complete(&flow, first + 3), LINK_FLOW_UNKNOWN);
	CHECK_EQ(lane.wrs_out, 1);
	CHECK_EQ(flow.bytes_out, 9);
	CHECK_EQ(link_flow_complete(&flow, first + 5), LINK_FLOW_OK);
	CHECK(link_lane_is_quiet(&lane));
	CHECK_EQ(flow.bytes_out, 0);
	CHECK_EQ(link_flow_out(&flow), 0);
}

TAP_CASE(bytes_are_capped_for_the_link_and_the_lane)
{
	static struct link_lane a, b;

	link_flow_init(&flow, &usual, notes);
	CHECK(link_flow_may_bytes(&flow, &a, LINK_USE_BULK, 2 * LINK_CHUNK_BYTES));
	CHECK(!link_flow_may_bytes(&flow, &a, LINK_USE_BULK, 2 * LINK_CHUNK_BYTES + 1));
	link_flow_post(&flow, &a, 2 * LINK_CHUNK_BYTES);
	CHECK(!link_flow_may_bytes(&flow, &a, LINK_USE_BULK, 1));
	CHECK(link_flow_may_bytes(&flow, &a, LINK_USE_SMALL, LINK_CHUNK_BYTES / 2));
	CHECK(!link_flow_may_bytes(&flow, &a, LINK_USE_SMALL, LINK_CHUNK_BYTES / 2 + 1));
	CHECK(link_flow_may_bytes(&flow, &b, LINK_USE_BULK, LINK_CHUNK_BYTES));
	CHECK(!link_flow_may_bytes(&flow, &b, LINK_USE_BULK, LINK_CHUNK_BYTES + 1));
}

TAP_CASE(a_peer_that_ignores_credits_is_found_out)
{
	link_flow_init(&flow, &usual, notes);
	/* It has all of its receives free, so it can't return any. */
	CHECK_EQ(link_flow_heard(&flow, 1), LINK_FLOW_FORGED);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(link_flow_heard(&flow, 0), LINK_FLOW_OK);
	CHECK_EQ(link_flow_heard(&flow, 0), LINK_FLOW_OVERRUN);
	/* Posted again, and not told yet. */
	link_flow_reposted(&flow, 3);
	CHECK_EQ(link_flow_heard(&flow, 0), LINK_FLOW_OVERRUN);
	CHECK(!link_flow_must_return(&flow));
	link_flow_reposted(&flow, 1);
	CHECK(link_flow_must_return(&flow));
	CHECK_EQ(link_flow_spend(&flow), 4);
	CHECK(!link_flow_must_return(&flow));
	CHECK_EQ(link_flow_heard(&flow, 2), LINK_FLOW_FORGED);
	CHECK_EQ(link_flow_heard(&flow, 1), LINK_FLOW_OK);
	CHECK_EQ(flow.credits, 6);
}

TAP_CASE(verdicts_have_names)
{
	for (enum link_flow_verdict v = 0; v < LINK_FLOW_VERDICT_COUNT; v++)
		CHECK(strcmp(link_flow_verdict_name(v), "invalid") != 0);
	CHECK_STR(link_flow_verdict_name(LINK_FLOW_VERDICT_COUNT), "invalid");
}

/* --- whether the peer is there ---------------------------------------------------------------- */

TAP_CASE(a_silent_link_is_asked_and_then_dead)
{
	struct link_test test;
	uint64_t next = 0, begin = 5;

	link_test_init(&test, begin);
	CHECK_EQ(link_test_tick(&test, begin, &next), LINK_TEST_FINE);
	CHECK_EQ(next, begin + LINK_TEST_IDLE_NS);
	CHECK_EQ(link_test_tick(&test, next - 1, &next), LINK_TEST_FINE);
	CHECK_EQ(link_test_tick(&test, next, &next), LINK_TEST_ASK);
	CHECK_EQ(next, begin + LINK_TEST_IDLE_NS + LINK_TEST_WAIT_NS);
	CHECK_EQ(link_test_tick(&test, next - 1, &next), LINK_TEST_FINE);
	CHECK_EQ(link_test_tick(&test, next, &next), LINK_TEST_DEAD);
	/* The promise of the deadline. */
	CHECK(LINK_TEST_IDLE_NS + LINK_TEST_WAIT_NS <= 2000000000ull);
}

TAP_CASE(whatever_is_heard_shows_life)
{
	struct link_test test;
	uint64_t now = 0, next;

	link_test_init(&test, now);
	CHECK(!link_test_answered(&test, 0));
	CHECK(!link_test_answered(&test, 1));
	for (uint32_t round = 1; round <= 3; round++) {
		now += LINK_TEST_IDLE_NS;
		CHECK_EQ(link_test_tick(&test, now, &next), LINK_TEST_ASK);
		CHECK_EQ(test.number, round);
		now += LINK_TEST_WAIT_NS - 1;
		link_test_heard(&test, now);
		CHECK(link_test_answered(&test, round));
		CHECK(!link_test_answered(&test, round - 1));
		CHECK_EQ(link_test_tick(&test, now + 1, &next), LINK_TEST_FINE);
	}
}

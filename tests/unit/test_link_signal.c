/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "core/half.h"
#include "core/link_send.h"

#include "lib/tap.h"

/* Which work requests are signalled: what something waits for, and some for the room in the queue.
 */

#define DEPTH 64u
#define RING_BYTES (4u * LINK_CHUNK_BYTES)

static struct link_note notes[DEPTH];
static struct link_send ours;
static struct link_lane lane;
static struct link_wr wrs[DEPTH];

static void init(uint32_t inline_bytes)
{
	const struct link_limits limits = {
		.depth = DEPTH,
		.inline_bytes = inline_bytes,
		.chunk_bytes = LINK_CHUNK_BYTES,
		.lane_bytes = 2 * LINK_CHUNK_BYTES,
		.link_bytes = 3 * LINK_CHUNK_BYTES,
		.own_credits = DEPTH,
		.peer_credits = 4 * DEPTH,
	};
	const struct link_lane_setup setup = {
		.own = {1, 10},
		.peer = {2, 20},
		.epoch = 1,
		.own_bytes = RING_BYTES,
		.peer_bytes = RING_BYTES,
		.recv_bytes = RING_BYTES,
		.source_bytes = RING_BYTES,
	};

	link_send_init(&ours, &limits, notes);
	link_lane_init(&lane, &setup, NULL);
	/* As if the peer had allowed the start, and had been told of it. */
	lane.heard |= 1u << LINK_WORD_RX_READY;
	CHECK(link_send_word(&ours, &lane, LINK_WORD_TX_START, opt_some(0)));
	CHECK_EQ(link_send_next(&ours, wrs, DEPTH), 1);
	CHECK_EQ(link_send_complete(&ours, 0), LINK_FLOW_OK);
	CHECK(link_flow_is_settled(&ours.flow));
}

/* The client has produced @bytes more; what is posted for it. */
static size_t produce(uint32_t bytes)
{
	link_send_offsets(&ours, &lane, ring_off_add(lane.prod, bytes), ring_off(0));
	return link_send_next(&ours, wrs, DEPTH);
}

TAP_CASE(nobody_is_told_of_a_message_that_went_inline)
{
	init(96);
	CHECK_EQ(produce(64), 1);
	CHECK(wrs[0].is_inline && !wrs[0].is_signalled);
	/* A WRITE and its CDC. */
	CHECK_EQ(produce(80), 2);
	CHECK(wrs[0].is_inline && !wrs[0].is_signalled && !wrs[1].is_signalled);
	CHECK(link_flow_is_settled(&ours.flow));
}

TAP_CASE(what_goes_by_reference_is_waited_for)
{
	for (uint32_t limit = 0; limit <= 96; limit += 96) {
		init(limit);
		CHECK_EQ(produce(97), 2);
		CHECK(!wrs[0].is_inline && !wrs[0].is_signalled && wrs[1].is_signalled);
		CHECK(!link_flow_is_settled(&ours.flow));
		CHECK_EQ(link_send_complete(&ours, wrs[1].number), LINK_FLOW_OK);
		CHECK(link_flow_is_settled(&ours.flow));
		CHECK_EQ(ours.flow.bytes_out, 0);
	}
}

TAP_CASE(one_in_a_quarter_of_the_queue_is_signalled)
{
	uint32_t signalled = 0, last = 0;

	init(96);
	for (uint32_t i = 0; i < DEPTH / 2; i++) {
		CHECK_EQ(produce(1), 1);
		if (!wrs[0].is_signalled)
			continue;
		signalled++;
		last = wrs[0].number;
	}
	CHECK_EQ(signalled, 2);
	CHECK_EQ(ours.counts.signalled, 2);
	/* That is enough for all of the room to come back, but for less than a quarter. */
	CHECK_EQ(link_send_complete(&ours, last), LINK_FLOW_OK);
	CHECK(link_flow_out(&ours.flow) < DEPTH / 4);
}

TAP_CASE(the_end_of_a_lane_is_waited_for)
{
	init(96);
	CHECK_EQ(produce(64), 1);
	link_send_stop(&ours, &lane);
	CHECK_EQ(link_send_next(&ours, wrs, DEPTH), 1);
	CHECK(wrs[0].is_signalled);
	CHECK(!link_lane_is_quiet(&lane));
	CHECK_EQ(link_send_complete(&ours, wrs[0].number), LINK_FLOW_OK);
	CHECK(link_lane_is_quiet(&lane));
}

TAP_CASE(the_end_of_a_link_is_waited_for)
{
	init(96);
	link_send_leave(&ours);
	CHECK_EQ(link_send_next(&ours, wrs, DEPTH), 1);
	CHECK(wrs[0].is_signalled);
}

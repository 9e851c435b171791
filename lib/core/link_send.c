/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "core/half.h"
#include "core/link_post.h"
#include "core/link_send.h"

void link_send_init(struct link_send *send, const struct link_limits *limits,
		    struct link_note *notes)
{
	*send = (struct link_send){0};
	link_flow_init(&send->flow, limits, notes);
	list_init(&send->urgent);
	list_init(&send->bulk);
}

/* --- what happened to a lane ------------------------------------------------------------------ */

/* Most bytes that wait for nobody's turn. */
static uint32_t short_bytes(const struct link_send *send)
{
	const struct link_limits *limits = &send->flow.limits;

	return (uint32_t)u64_max(limits->inline_bytes, limits->chunk_bytes / LINK_SHORT_DIVISOR);
}

/* Whether the bytes that are ready go at once. */
static bool is_small(const struct link_send *send, uint64_t bytes)
{
	return bytes && bytes <= short_bytes(send);
}

static bool is_urgent(const struct link_send *send, const struct link_lane *lane)
{
	return is_small(send, link_lane_ready_bytes(lane)) || link_lane_ready_words(lane) ||
	       link_lane_done_is_due(lane) || link_lane_update_is_due(lane);
}

static bool is_bulk(const struct link_send *send, const struct link_lane *lane)
{
	return link_lane_ready_bytes(lane) > short_bytes(send);
}

/* Put a lane at the end of @list, or take it off. */
static void enlist(struct list *list, struct list *node, bool wanted)
{
	if (!wanted)
		list_unlink(node);
	else if (!list_is_linked(node))
		list_push_back(list, node);
}

void link_send_touch(struct link_send *send, struct link_lane *lane)
{
	enlist(&send->urgent, &lane->urgent, is_urgent(send, lane));
	if (!is_bulk(send, lane))
		lane->deficit = 0;
	else if (!list_is_linked(&lane->bulk))
		lane->deficit = send->flow.limits.chunk_bytes;
	enlist(&send->bulk, &lane->bulk, is_bulk(send, lane));
}

void link_send_offsets(struct link_send *send, struct link_lane *lane, struct ring_off prod,
		       struct ring_off cons)
{
	assert(!ring_off_lt(prod, lane->prod) && !ring_off_lt(cons, lane->cons));
	lane->prod = prod;
	lane->cons = cons;
	link_send_touch(send, lane);
}

bool link_send_word(struct link_send *send, struct link_lane *lane, enum link_word id,
		    uint64_t value)
{
	uint32_t known = lane->told | lane->due.set;

	if (!link_word_is_ok(id, value) || lane->tx.flags & CDC_F_DONE)
		return false;
	/* What it acknowledges moves on; any other word is set once. */
	if (known & 1u << id &&
	    (id == LINK_WORD_REACHED ? value < lane->due.value[id] : value != lane->due.value[id]))
		return false;
	if (id == LINK_WORD_TX_END) {
		if (opt_value(value) < lane->tx.prod.v)
			return false;
		lane->end = ring_off(opt_value(value));
	}
	if (!(lane->told & 1u << id) || value != lane->due.value[id])
		lane->due.set |= 1u << id;
	lane->due.value[id] = value;
	link_send_touch(send, lane);
	return true;
}

void link_send_tell(struct link_send *send, struct link_lane *lane)
{
	lane->must_tell = true;
	link_send_touch(send, lane);
}

void link_send_want(struct link_send *send, struct link_lane *lane)
{
	lane->wants_update = true;
	link_send_touch(send, lane);
}

void link_send_stop(struct link_send *send, struct link_lane *lane)
{
	lane->is_stopped = true;
	link_send_touch(send, lane);
}

void link_send_remove(struct link_send *send, struct link_lane *lane)
{
	assert(link_lane_is_quiet(lane));
	list_unlink(&lane->urgent);
	list_unlink(&lane->bulk);
	if (list_is_empty(&send->bulk))
		send->small_run = send->short_run = 0;
}

/* --- what happened to the link ---------------------------------------------------------------- */

void link_send_ask(struct link_send *send, uint32_t number)
{
	send->must_ask = true;
	send->ask_number = number;
}

void link_send_answer(struct link_send *send, uint32_t number)
{
	send->must_answer = true;
	send->answer_number = number;
}

void link_send_leave(struct link_send *send)
{
	send->must_leave = !send->has_left;
}

/* --- what goes -------------------------------------------------------------------------------- */

/* A message of the link itself. False: not now. */
static bool link_goes(struct link_post *post, enum link_use use, enum link_msg_type type,
		      uint32_t number)
{
	struct cdc msg = {.type = type, .sequence = number};

	if (!link_post_may(post, use, 1))
		return false;
	link_post_message(post, NULL, &msg, 0);
	return true;
}

static void links_own(struct link_send *send, struct link_post *post)
{
	if (send->must_answer &&
	    link_goes(post, LINK_USE_CONTROL, LINK_MSG_TEST_ANSWER, send->answer_number)) {
		send->must_answer = false;
		count_add(&send->counts.tests, 1);
	}
	if (send->must_ask &&
	    link_goes(post, LINK_USE_CONTROL, LINK_MSG_TEST_ASK, send->ask_number)) {
		send->must_ask = false;
		count_add(&send->counts.tests, 1);
	}
	if (send->must_leave && list_is_empty(&send->urgent) && list_is_empty(&send->bulk) &&
	    link_goes(post, LINK_USE_CONTROL, LINK_MSG_BYE, 0)) {
		send->must_leave = false;
		send->has_left = true;
	}
}

static bool words_go(struct link_send *send, struct link_post *post, struct link_lane *lane)
{
	uint32_t words = link_lane_ready_words(lane);

	if (!words)
		return true;
	if (!link_post_may(post, LINK_USE_CONTROL, 1))
		return false;
	link_post_words(post, lane, words);
	count_add(&send->counts.states, 1);
	return true;
}

/* Whether a message of so many bytes waits for a chunk to go first. */
static bool small_pauses(const struct link_send *send, uint64_t bytes)
{
	const struct link_limits *limits = &send->flow.limits;

	return send->small_run > limits->depth / 4 ||
	       (bytes > limits->inline_bytes && send->short_run >= limits->chunk_bytes);
}

static bool small_goes(struct link_send *send, struct link_post *post, struct link_lane *lane)
{
	uint64_t bytes = link_lane_ready_bytes(lane);

	if (!is_small(send, bytes))
		return true;
	if (small_pauses(send, bytes) || !link_post_small(post, lane, (uint32_t)bytes))
		return false;
	if (send->small_run)
		send->small_run++;
	if (bytes > send->flow.limits.inline_bytes && !list_is_empty(&send->bulk))
		send->short_run += (uint32_t)bytes;
	return true;
}

/* LANE_DONE, or offsets alone. */
static bool rest_goes(struct link_send *send, struct link_post *post, struct link_lane *lane)
{
	bool done = link_lane_done_is_due(lane);
	struct cdc msg;

	if (!done && !link_lane_update_is_due(lane))
		return true;
	if (!link_post_may(post, LINK_USE_CONTROL, 1))
		return false;
	link_lane_make(lane, done ? LINK_MSG_LANE_DONE : LINK_MSG_CDC, 0, 0, &msg);
	link_post_message(post, lane, &msg, 0);
	if (done)
		count_add(&send->counts.dones, 1);
	else
		count_add(&send->counts.updates, 1);
	return true;
}

/* All that is urgent of each lane, in their order; a lane that can't go stays where it is. */
static void urgent(struct link_send *send, struct link_post *post)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &send->urgent) {
		struct link_lane *lane = list_entry(node, struct link_lane, urgent);

		if (!link_post_may(post, LINK_USE_CONTROL, 1))
			return;
		/* The end may be ready once the last byte went. */
		if (words_go(send, post, lane) && small_goes(send, post, lane) &&
		    words_go(send, post, lane))
			rest_goes(send, post, lane);
		link_send_touch(send, lane);
	}
}

/* One turn of the first lane. False: nothing more goes by reference now. */
static bool turn(struct link_send *send, struct link_post *post, struct link_lane *lane)
{
	uint64_t ready = link_lane_ready_bytes(lane);
	uint32_t bytes = (uint32_t)u64_min(ready, send->flow.limits.chunk_bytes);

	if (lane->deficit < bytes) {
		/* Its turn is over: to the end, with what it had left. */
		lane->deficit += send->flow.limits.chunk_bytes;
		list_unlink(&lane->bulk);
		list_push_back(&send->bulk, &lane->bulk);
		return true;
	}
	if (!link_post_bulk(post, lane, bytes)) {
		if (!send->small_run)
			send->small_run = 1;
		return false;
	}
	send->small_run = send->short_run = 0;
	lane->deficit -= bytes;
	link_send_touch(send, lane);
	return true;
}

/* Bytes by reference, in turns. A lane that has its cap of bytes under way is passed over. */
static void bulk(struct link_send *send, struct link_post *post)
{
	struct list *node = send->bulk.next, *next;

	while (node != &send->bulk) {
		struct link_lane *lane = list_entry(node, struct link_lane, bulk);
		uint64_t ready = link_lane_ready_bytes(lane);
		uint32_t bytes = (uint32_t)u64_min(ready, send->flow.limits.chunk_bytes);

		next = node->next;
		if (send->flow.bytes_out + bytes > send->flow.limits.link_bytes)
			return;
		if (link_flow_may_bytes(&send->flow, lane, LINK_USE_BULK, bytes)) {
			if (!turn(send, post, lane))
				return;
			/* It may have another in this turn, or others are before it now. */
			next = send->bulk.next;
		}
		node = next;
	}
	if (list_is_empty(&send->bulk))
		send->small_run = send->short_run = 0;
}

size_t link_send_next(struct link_send *send, struct link_wr *ret_wrs, size_t max)
{
	struct link_post post = {
		.flow = &send->flow, .counts = &send->counts, .wrs = ret_wrs, .max = max};

	assert(max >= LINK_CHUNK_WRS);
	if (send->has_left)
		return 0;
	links_own(send, &post);
	urgent(send, &post);
	bulk(send, &post);
	/* What ended with a chunk, and messages that waited for one. */
	urgent(send, &post);
	if (link_flow_must_return(&send->flow) &&
	    link_goes(&post, LINK_USE_CREDIT, LINK_MSG_CREDIT, 0))
		count_add(&send->counts.credits, 1);
	return link_post_end(&post);
}

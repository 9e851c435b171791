/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "core/link_post.h"

bool link_post_may(const struct link_post *post, enum link_use use, uint32_t wrs)
{
	return post->n + wrs <= post->max && link_flow_may(post->flow, use, wrs);
}

static void mark(struct link_post *post, struct link_wr *wr)
{
	if (wr->is_signalled)
		return;
	wr->is_signalled = true;
	link_flow_mark(post->flow);
	count_add(&post->counts->signalled, 1);
	post->unmarked_bytes = 0;
}

/* One work request; @referenced: bytes that it reads by reference. */
static struct link_wr *add(struct link_post *post, enum link_wr_op op, struct link_lane *lane,
			   uint32_t referenced)
{
	struct link_wr *wr = &post->wrs[post->n++];

	wr->op = op;
	wr->lane = lane;
	wr->is_inline = wr->is_signalled = false;
	wr->number = link_flow_post(post->flow, lane, referenced);
	wr->bytes = wr->own_bytes = 0;
	count_add(&post->counts->wrs, 1);
	post->unmarked_bytes += referenced;
	if (link_flow_must_mark(post->flow))
		mark(post, wr);
	return wr;
}

void link_post_message(struct link_post *post, struct link_lane *lane, struct cdc *msg,
		       uint32_t bytes)
{
	struct link_wr *wr = add(post, LINK_WR_SEND, lane, 0);

	msg->payload = (uint16_t)(msg->payload + bytes);
	msg->credits = link_flow_spend(post->flow);
	cdc_encode(msg, wr->own);
	wr->own_bytes = CDC_BYTES + msg->payload - bytes;
	wr->bytes = bytes;
	if (bytes)
		wr->from = ring_off(lane->tx.prod.v - bytes);
	wr->is_inline = wr->own_bytes + bytes <= post->flow->limits.inline_bytes;
	/* So that what is outstanding by reference comes back while more of it is under way; and
	 * what has ended is forgotten when nothing of it is under way. */
	if (post->unmarked_bytes > post->flow->limits.chunk_bytes / 2 ||
	    msg->type == LINK_MSG_LANE_DONE || msg->type == LINK_MSG_BYE)
		mark(post, wr);
}

/* Make a message of @lane that has something else to tell than where its client reads. */
static void make(struct link_post *post, struct link_lane *lane, enum link_msg_type type,
		 uint32_t moved, uint32_t words, struct cdc *ret_msg)
{
	count_add(&post->counts->updates_along, ring_off_eq(lane->tx.cons, lane->cons) ? 0 : 1);
	link_lane_make(lane, type, moved, words, ret_msg);
}

/* The CDC that tells of @bytes, @along of which, all or none, are in it. */
static void tell_bytes(struct link_post *post, struct link_lane *lane, uint32_t bytes,
		       uint32_t along)
{
	struct cdc msg;

	make(post, lane, LINK_MSG_CDC, bytes, 0, &msg);
	link_post_message(post, lane, &msg, along);
	count_add(&post->counts->blocked, lane->flags & CDC_F_BLOCKED ? 1 : 0);
}

void link_post_words(struct link_post *post, struct link_lane *lane, uint32_t words)
{
	struct link_words told = {.set = words};
	struct cdc msg;

	memcpy(told.value, lane->due.value, sizeof(told.value));
	make(post, lane, LINK_MSG_STATE, 0, words, &msg);
	/* Behind the header, which is written next; the message takes the place of this one. */
	assert(post->n < post->max);
	msg.payload = (uint16_t)link_words_encode(&told, post->wrs[post->n].own + CDC_BYTES);
	link_post_message(post, lane, &msg, 0);
}

/* The lengths of the WRITEs that @bytes take, cut where either ring wraps. Returns how many. */
static uint32_t cut(const struct link_lane *lane, uint32_t bytes, uint32_t ret_len[3])
{
	struct ring_off at = lane->tx.prod;
	uint32_t n = 0;

	while (bytes) {
		uint64_t here = lane->own_bytes - (at.v & (lane->own_bytes - 1));
		uint64_t there = lane->peer_bytes - (at.v & (lane->peer_bytes - 1));
		uint32_t len = (uint32_t)u64_min(bytes, u64_min(here, there));

		assert(n < 3);
		ret_len[n++] = len;
		at = ring_off_add(at, len);
		bytes -= len;
	}
	return n;
}

/* WRITEs of @bytes and the CDC that tells of them. False: no room. */
static bool write_goes(struct link_post *post, struct link_lane *lane, enum link_use use,
		       uint32_t bytes)
{
	bool inlined = bytes <= post->flow->limits.inline_bytes;
	struct ring_off from = lane->tx.prod;
	uint32_t len[3], n = cut(lane, bytes, len);

	if (!link_post_may(post, use, n + 1) ||
	    (!inlined && !link_flow_may_bytes(post->flow, lane, use, bytes)))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct link_wr *wr = add(post, LINK_WR_WRITE, lane, inlined ? 0 : len[i]);

		wr->is_inline = inlined;
		wr->from = from;
		wr->bytes = len[i];
		from = ring_off_add(from, len[i]);
	}
	tell_bytes(post, lane, bytes, 0);
	if (inlined) {
		count_add(&post->counts->write_inline, 1);
		count_add(&post->counts->write_inline_bytes, bytes);
	} else {
		count_add(&post->counts->by_reference, 1);
		count_add(&post->counts->by_reference_bytes, bytes);
	}
	return true;
}

bool link_post_small(struct link_post *post, struct link_lane *lane, uint32_t bytes)
{
	uint32_t whole = CDC_BYTES + bytes;

	if (whole > post->flow->limits.inline_bytes || whole > LINK_MSG_MAX_BYTES)
		return write_goes(post, lane, LINK_USE_SMALL, bytes);
	if (!link_post_may(post, LINK_USE_SMALL, 1))
		return false;
	tell_bytes(post, lane, bytes, bytes);
	count_add(&post->counts->eager, 1);
	count_add(&post->counts->eager_bytes, bytes);
	return true;
}

bool link_post_bulk(struct link_post *post, struct link_lane *lane, uint32_t bytes)
{
	return write_goes(post, lane, LINK_USE_BULK, bytes);
}

size_t link_post_end(struct link_post *post)
{
	if (post->unmarked_bytes)
		mark(post, &post->wrs[post->n - 1]);
	if (post->n)
		count_add(&post->counts->posts, 1);
	return post->n;
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/count.h"
#include "core/link_flow.h"
#include "core/link_lane.h"

/*
 * What a link posts next. Events in, work requests out; pure, and of the device's worker.
 *
 * How @n bytes of a lane go, with I the bytes that a work request carries inline:
 *
 *	32 + n <= I	eager: one SEND, inline, header and bytes together
 *	n <= I		RDMA WRITE inline into the peer's ring, then the CDC
 *	else		RDMA WRITE by reference from the ring here, at most a chunk, then the CDC
 *
 * A ring that wraps between the bytes, here or there, cuts a WRITE in two; one CDC tells of all.
 * A header goes inline if it fits, and else from the registered slot of its work request's number,
 * link_slots() being how many there are: the slot is free again when the number is.
 *
 * Order. First the link's own messages; then what is urgent of each lane, once for each: words,
 * bytes that go inline or are short, offsets that the peer needs; then the other bytes in turns
 * (deficit round robin, a chunk at a time), as far as the caps of bytes allow; at last CREDIT, if
 * credits are owed and nothing has carried them. So a short message waits for what is under way
 * already, at most limits.link_bytes and half a chunk, and for nobody's turn. That is three chunks
 * beside streams with the usual limits, and never four, however slow the caller is, as long as it
 * takes completions before it looks at its lanes, and looks at all of them before it posts: what is
 * stored behind a look finds in front of it what was not known to be complete by then, and no more
 * than the limit of it together with what the next post adds. Nor can short
 * messages starve a stream: should they leave it no room in the queue, or no credits, they pause
 * after a quarter of the depth, and those by reference after a chunk's worth of bytes, until one
 * chunk went.
 *
 * Within a lane the order is: words, bytes, the end when the last byte was told, LANE_DONE.
 *
 * All that link_send_next() gives is taken as posted, in that order, chained or not. Signalled is
 * what something waits for the end of: the last of a post that has bytes by reference, and each
 *that ends half a chunk of them, so that room comes back steadily; LANE_DONE and LINK_BYE; and one
 *in a quarter of the queue. Of a small message that went inline nobody is told, nor woken for it,
 *unless it fails: then a device tells in any case.
 */

/* A message of up to this part of a chunk goes at once, inline or not. Chosen: 4 KiB, which a chunk
 * of 64 KiB delays more than they delay it. */
#define LINK_SHORT_DIVISOR 16u

/* Most work requests of one message: a chunk cut where the ring here wraps and where that of the
 * peer does, and its CDC. An array for link_send_next() has at least so many. */
#define LINK_CHUNK_WRS 4u

/* Bytes of a message that are its own: header and words. Also the size of a registered slot. */
#define LINK_OWN_MAX_BYTES (CDC_BYTES + LINK_WORDS_MAX_BYTES)

enum link_wr_op {
	LINK_WR_SEND,
	LINK_WR_WRITE, /* RDMA WRITE */
};

struct link_wr {
	enum link_wr_op op;
	bool is_inline;
	bool is_signalled;
	uint32_t number; /* to be found in the completion: half of a wr_id */
	/* Bytes of the ring here. WRITE: to the same offset of the peer's ring; in one piece in
	 * both. SEND: payload behind own[], may wrap here. */
	struct link_lane *lane; /* NULL: a message of the link itself */
	struct ring_off from;
	uint32_t bytes;
	uint32_t own_bytes; /* SEND: of own[] */
	uint8_t own[LINK_OWN_MAX_BYTES];
};

/* Totals since the link began: counters that others may read meanwhile (base/count.h). */
struct link_counts {
	uint64_t eager, write_inline, by_reference; /* messages with bytes, by form */
	uint64_t eager_bytes, write_inline_bytes, by_reference_bytes;
	uint64_t updates;	/* CDCs alone, for offsets */
	uint64_t updates_along; /* other messages of a lane that told a new consumer offset */
	uint64_t states, dones, credits, tests;
	uint64_t blocked; /* times that the peer was told so */
	uint64_t wrs, posts, signalled;
	/* Received. */
	uint64_t heard, heard_bytes, stale, discarded_bytes;
};

struct link_send {
	struct link_flow flow;
	struct list urgent, bulk; /* lanes */
	uint32_t small_run;	  /* messages at once since a chunk was refused; 0: none was */
	uint32_t short_run; /* bytes at once by reference since a chunk went, while one waits */
	bool must_ask, must_answer, must_leave, has_left;
	uint32_t ask_number, answer_number;
	struct link_counts counts;
};

/* Begin. @limits: ok (asserted). @notes: memory for link_slots(limits->depth), the
 * caller's, kept. */
void link_send_init(struct link_send *send, const struct link_limits *limits,
		    struct link_note *notes);

/*
 * A lane's client has produced up to @prod and consumed up to @cons: both validated by the caller
 * (core/peer.h), neither below what it was.
 */
void link_send_offsets(struct link_send *send, struct link_lane *lane, struct ring_off prod,
		       struct ring_off cons);

/*
 * Tell word @id of the lane, which is @value now. False, with nothing done, if that can't be: the
 * value is none, another was told before, or the end is behind what was sent.
 */
bool link_send_word(struct link_send *send, struct link_lane *lane, enum link_word id,
		    uint64_t value);

/* Tell the consumer offset as soon as it has moved. */
void link_send_tell(struct link_send *send, struct link_lane *lane);

/* Ask the peer to tell its consumer offset as soon as it moves. */
void link_send_want(struct link_send *send, struct link_lane *lane);

/* Send no byte of the lane any more; LANE_DONE follows what is under way. */
void link_send_stop(struct link_send *send, struct link_lane *lane);

/* Something of the lane has changed, by a message of the peer. */
void link_send_touch(struct link_send *send, struct link_lane *lane);

/* The lane is over, or the link is: forget it. Nothing of it is in the send queue (asserted). */
void link_send_remove(struct link_send *send, struct link_lane *lane);

/* Ask the peer whether it is there, with @number; answer its question; say goodbye. */
void link_send_ask(struct link_send *send, uint32_t number);
void link_send_answer(struct link_send *send, uint32_t number);
void link_send_leave(struct link_send *send);

/*
 * What to post now. @ret_wrs: room for @max, at least LINK_CHUNK_WRS. Returns how many; 0: nothing
 * can go before something completes or arrives. Call again while it returns any.
 */
size_t link_send_next(struct link_send *send, struct link_wr *ret_wrs, size_t max);

/* Work request @number has completed. LINK_FLOW_OK or LINK_FLOW_UNKNOWN. */
static inline enum link_flow_verdict link_send_complete(struct link_send *send, uint32_t number)
{
	return link_flow_complete(&send->flow, number);
}

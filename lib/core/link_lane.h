/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/cdc_lane.h"
#include "core/link_msg.h"

/*
 * A lane as its link sees it: what its client has done and the peer was not told, what is under
 * way, and what the peer has said. Pure; of the device's worker, one link's for a whole epoch.
 *
 *	our bytes	tx.prod ≤ prod: told and sent, and produced here
 *			rx.cons: consumed there, as the peer told
 *	the peer's	rx.prod: told by it
 *			tx.cons ≤ cons ≤ rx.prod: told to it, and consumed here
 *
 * Window. No byte goes for which the peer's ring was not told to be free: peer_bytes less what was
 * sent and is not consumed. Window updates ride on whatever goes to the peer. One goes alone only
 * - when the peer, as far as it knows, has less than half of the ring free, and has been left
 *   behind by min(size/4, 16 KiB);
 * - when the peer has said that it is blocked, and min(size/4, 16 KiB) is free;
 * - when the peer has asked for it, or link_send_tell() did.
 * Size is that of the smaller of the two rings that the bytes are in, since the peer's client waits
 * for room in its own. So a ping-pong sees no update alone, a reader that takes a few bytes at a
 * time does not send one each, and nobody waits for ever: what is not told is less than a quarter,
 * and a reader that goes on reading comes to where all is free.
 */

/* Chosen: as a sliding window that is never silly (RFC 9293, 3.8.6.2.2) would, but for rings that
 * are small; 16 KiB is a quarter of a chunk. */
#define LANE_UPDATE_MAX_BYTES 16384u

struct link_lane {
	struct list urgent, bulk; /* in the link's lists, while it has something to send */
	void *user;		  /* the caller's */

	struct cdc_tx tx;
	struct cdc_rx rx;
	uint64_t own_bytes;	 /* ring here that our bytes are in */
	uint64_t peer_bytes;	 /* ring there that they go into */
	uint64_t pace_bytes;	 /* of the peer's: the smaller of their two rings */
	struct ring_off prod;	 /* of our bytes */
	struct ring_off cons;	 /* of the peer's */
	struct link_words due;	 /* words that the peer was not told */
	uint32_t told, heard;	 /* sets of words */
	struct ring_off end;	 /* of our bytes, with TX_END due or told */
	struct ring_off reached; /* of our bytes: what the peer has acknowledged */
	struct ring_off frozen;	 /* of the peer's bytes: none counts from here on */

	uint64_t bytes_out; /* by reference */
	uint32_t wrs_out;
	uint32_t deficit;	/* bytes that its turn may take */
	uint16_t flags;		/* CDC_F_BLOCKED, if that is what the peer last heard */
	bool is_stopped;	/* no byte any more: LANE_DONE is due */
	bool is_frozen;		/* the peer's bytes are discarded */
	bool peer_is_blocked;	/* and was not told of enough room since */
	bool peer_wants_update; /* and got none since */
	bool must_tell;		/* the consumer offset, at once */
	bool wants_update;	/* of the peer: to be said with the next message */
};

struct link_lane_setup {
	struct cdc_token own, peer;	   /* ours, and the one that the peer's daemon gave */
	uint32_t epoch;			   /* of the connection */
	uint64_t own_bytes, peer_bytes;	   /* our bytes: their ring here, their ring there */
	uint64_t recv_bytes, source_bytes; /* the peer's: their ring here, their ring there */
};

/* Begin an epoch; @user is kept as it is given. Ring sizes as ring_size_ok() has them (asserted).
 */
void link_lane_init(struct link_lane *lane, const struct link_lane_setup *setup, void *user);

/* Bytes that the peer has room for, as it was last told. */
uint64_t link_lane_window(const struct link_lane *lane);

/* Bytes to be sent now: produced, not beyond the end, within the window, none when stopped. */
uint64_t link_lane_ready_bytes(const struct link_lane *lane);

/* Whether bytes wait for room and for nothing else. */
bool link_lane_is_blocked(const struct link_lane *lane);

/* Whether a message without bytes is due for what the peer needs to know of offsets. */
bool link_lane_update_is_due(const struct link_lane *lane);

/* The words that may be told now: all that are due, but the end only behind the last byte. */
uint32_t link_lane_ready_words(const struct link_lane *lane);

/* Whether LANE_DONE is due, and may go: after all else. */
bool link_lane_done_is_due(const struct link_lane *lane);

/*
 * Make a message of the lane; it is told with that.
 * @moved: bytes, 0 unless it is a CDC; @words: of STATE, those of link_lane_ready_words(), else 0.
 */
void link_lane_make(struct link_lane *lane, enum link_msg_type type, uint32_t moved, uint32_t words,
		    struct cdc *ret_msg);

/* Whether the lane can be forgotten: LANE_DONE went and came, and nothing is under way. */
bool link_lane_is_over(const struct link_lane *lane);

/* Whether nothing of the lane is in the send queue. */
static inline bool link_lane_is_quiet(const struct link_lane *lane)
{
	return lane->wrs_out == 0;
}

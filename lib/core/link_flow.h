/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/link_lane.h"

/*
 * What a link may post: its credits and its send queue. Pure; of the device's worker.
 *
 * Credits. A message consumes one receive of the peer, so whoever has no credit sends nothing: a
 * receiver that is not ready is a breach, never a means of flow control. Each end posts its receive
 * again as soon as it is done with a message, and returns the credit with its next message,
 * whatever that is. The last credit is kept for returning credits, one more for control:
 *
 *	bytes		need 3 or more
 *	control		needs 2
 *	CREDIT alone	needs 1, and is sent when half of one's receives are owed
 *
 * So it can't lock up: an end without credits for bytes has had all but two of the peer's receives,
 * so half of them are owed as soon as the peer has looked, since there are at least 4; and the peer
 * has the one that returning takes, for it spends that on nothing else, and when it has spent it,
 * half of ours are owed to it, by the same argument. Nor does it run for ever: a CREDIT alone owes
 * the peer one, and the next is due after half of all.
 *
 * Send queue. Work requests are numbered as they are posted, modulo 2^32; they complete in order,
 * so a completion retires all up to its own. A quarter of the queue is kept from RDMA WRITEs by
 * reference, so that small messages find room beside a bulk stream, and of that two entries from
 * small messages, so that control finds room beside them. Bytes outstanding by reference are capped
 * per link and per lane: they are what a small message waits for on the wire.
 */

/* Fewest entries of a send queue. Chosen: one chunk (LINK_CHUNK_WRS) in three quarters of it, twice
 * over, and a small message of the same length in the rest. */
#define LINK_DEPTH_MIN 16u
#define LINK_DEPTH_MAX 65536u

/* Fewest receives posted: see above. The most is what the hello can tell and the header return. */
#define LINK_CREDITS_MIN 4u
#define LINK_CREDITS_MAX 65535u

/* Entries kept for control. Chosen: a message and a credit. */
#define LINK_CONTROL_WRS 2u

/* Longest RDMA WRITE, bytes, and how many of them may be under way for a link and for a lane.
 * Chosen: three chunks keep 25 Gbit/s busy for 60 us, longer than a completion takes to be seen;
 * a small message waits for no more than those three. Two per lane, so that two streams share. */
#define LINK_CHUNK_BYTES 65536u
#define LINK_OUT_CHUNKS 3u
#define LANE_OUT_CHUNKS 2u

struct link_limits {
	uint32_t depth;	       /* entries of the send queue, LINK_DEPTH_MIN…MAX */
	uint32_t inline_bytes; /* what a work request may carry inline; 0: nothing */
	uint32_t chunk_bytes;  /* 1…LINK_CHUNK_BYTES */
	uint32_t link_bytes;   /* by reference outstanding, >= chunk_bytes */
	uint32_t lane_bytes;   /* the same of one lane, chunk_bytes…link_bytes */
	uint32_t own_credits;  /* receives posted here, LINK_CREDITS_MIN…MAX */
	uint32_t peer_credits; /* and by the peer, as its hello says */
};

/* What a message is for. */
enum link_use {
	LINK_USE_BULK,	  /* bytes in turns, a chunk at a time */
	LINK_USE_SMALL,	  /* bytes inline, or few enough to go at once */
	LINK_USE_CONTROL, /* anything without bytes */
	LINK_USE_CREDIT,  /* CREDIT alone */
};

/* What a work request was for, until it completes. */
struct link_note {
	struct link_lane *lane; /* NULL: of none */
	uint32_t bytes;		/* by reference */
};

struct link_flow {
	struct link_limits limits;
	uint32_t credits; /* receives of the peer that are ours to use */
	uint32_t lent;	  /* receives here that the peer may use, as it was told or will be */
	uint32_t owed;	  /* receives here that it was not told of */
	uint32_t head;	  /* number of the next work request */
	uint32_t tail;	  /* of the oldest that has not completed */
	uint32_t marked;  /* of the one behind the last signalled */
	uint64_t bytes_out;
	struct link_note *notes; /* link_slots(limits.depth) of them */
};

/* Verdicts of link_flow_heard() and link_flow_complete(). */
enum link_flow_verdict {
	LINK_FLOW_OK,
	LINK_FLOW_OVERRUN, /* a message without a credit for it */
	LINK_FLOW_FORGED,  /* credits for more receives than the peer has */
	LINK_FLOW_UNKNOWN, /* no such work request is outstanding */
	LINK_FLOW_VERDICT_COUNT,
};

/*
 * Whether @limits are such that a link can work; the peer's credits come from its hello and have to
 * be asked before link_flow_init(). Pure.
 */
bool link_limits_are_ok(const struct link_limits *limits);

/*
 * Places for what belongs to a work request until it completes: its note, its registered slot. A
 * power of two, at least @depth, so that the place of a number (number modulo that) goes on rightly
 * when numbers wrap.
 */
static inline uint32_t link_slots(uint32_t depth)
{
	return depth <= 1 ? 1 : 1u << (32 - __builtin_clz(depth - 1));
}

/* Begin. @limits: ok (asserted). @notes: memory for link_slots(limits->depth), the caller's, kept.
 */
void link_flow_init(struct link_flow *flow, const struct link_limits *limits,
		    struct link_note *notes);

/* Whether a message for @use may be posted now, in @wrs work requests of which one is a SEND. */
bool link_flow_may(const struct link_flow *flow, enum link_use use, uint32_t wrs);

/* Whether @bytes more of @lane may go by reference; for LINK_USE_SMALL, half a chunk above the
 * caps.
 */
bool link_flow_may_bytes(const struct link_flow *flow, const struct link_lane *lane,
			 enum link_use use, uint32_t bytes);

/* Post one: there is room (asserted). @lane may be NULL; @bytes: by reference. Its number. */
uint32_t link_flow_post(struct link_flow *flow, struct link_lane *lane, uint32_t bytes);

/* A SEND takes a credit; returns the credits that it carries back. */
uint16_t link_flow_spend(struct link_flow *flow);

/* The last one posted is signalled. Whether it has to be: a quarter of the queue went without. */
void link_flow_mark(struct link_flow *flow);
bool link_flow_must_mark(const struct link_flow *flow);

/*
 * Number @number has completed, and all before it: each lane's share is taken off it.
 * LINK_FLOW_OK, or LINK_FLOW_UNKNOWN with nothing changed.
 */
enum link_flow_verdict link_flow_complete(struct link_flow *flow, uint32_t number);

/* A message has arrived and carries @credits. OK, OVERRUN or FORGED: then nothing is changed. */
enum link_flow_verdict link_flow_heard(struct link_flow *flow, uint16_t credits);

/* @count receives have been posted again. */
void link_flow_reposted(struct link_flow *flow, uint32_t count);

/* Whether so many credits are owed that they have to go alone if nothing else goes. */
bool link_flow_must_return(const struct link_flow *flow);

/* Whether all has completed that was signalled. What came behind it is inline, or of the link's own
 * memory, and may be under way. */
static inline bool link_flow_is_settled(const struct link_flow *flow)
{
	return (int32_t)(flow->marked - flow->tail) <= 0;
}

/* Work requests outstanding, or not known to have completed. */
static inline uint32_t link_flow_out(const struct link_flow *flow)
{
	return flow->head - flow->tail;
}

const char *link_flow_verdict_name(enum link_flow_verdict verdict);

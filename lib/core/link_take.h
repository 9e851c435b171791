/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/link_send.h"

/*
 * What a message from the peer means. Pure; of the device's worker. Never trusts the peer: a
 * message that breaks the rules of a lane ends that lane, one that breaks the link's ends the link,
 * and one of a lane or epoch that is over is counted and dropped.
 *
 * The caller then does in this order what the news say, with the half that it feeds:
 *
 *	words but the end, one after the other (own_announce(), core/peer.h)
 *	payload into the ring, at @from (ring_copy_in()); what a WRITE brought is there already
 *	prod to @prod, cons to @cons
 *	the end, if it is among the words
 *
 * and then posts the receive again (link_flow_reposted()): only then is its memory free.
 */

enum link_taken {
	LINK_TAKEN,
	LINK_STALE,	  /* of a lane or an epoch that is over: dropped */
	LINK_LANE_BREACH, /* news->lane ends: no byte and no word of the message counts */
	LINK_LINK_BREACH, /* the link ends */
};

struct link_news {
	enum link_msg_type type;
	const char *why;	/* of a breach, or why it is stale; short, static */
	struct link_lane *lane; /* NULL: a message of the link itself */
	struct ring_off from;	/* where the new bytes begin */
	uint32_t moved;		/* how many there are; 0 when the lane is frozen */
	const uint8_t *payload; /* those of them that are in the message, all or none; else NULL */
	struct ring_off prod, cons; /* of the peer's bytes; of ours, consumed there */
	struct link_words words;
	uint32_t number; /* of a test's answer; a question is answered by itself */
};

/* The lanes of a link by the index of their tokens here; a place may be NULL. */
struct link_lanes {
	struct link_lane **lane;
	uint32_t count;
};

/*
 * Take a message of the peer.
 * @bytes, @len: the message, any bytes and any length. @ret_news: always set; news->lane with
 * LINK_TAKEN and LINK_LANE_BREACH. With LINK_TAKEN the lane knows it all (link_send_touch() is
 * done), and the credits are in.
 */
enum link_taken link_take(struct link_send *send, const struct link_lanes *lanes, const void *bytes,
			  size_t len, struct link_news *ret_news);

/* No byte of the peer counts from here on, whatever it still sends up to its LANE_DONE. Returns the
 * offset; the same when done again. */
struct ring_off link_lane_freeze(struct link_lane *lane);

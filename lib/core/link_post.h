/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/link_send.h"

/*
 * For link_send.c: writing the work requests of one post. Each function takes them from the send
 * queue and the credits, and counts them.
 */
struct link_post {
	struct link_flow *flow;
	struct link_counts *counts;
	struct link_wr *wrs;
	size_t n, max;
	uint32_t unmarked_bytes; /* by reference, since the last that is signalled */
};

/* Whether a message for @use in @wrs work requests has room, in the queue and in the array. */
bool link_post_may(const struct link_post *post, enum link_use use, uint32_t wrs);

/*
 * A message, which is @msg but for its credits, and @bytes of the lane's that are its payload: the
 * last @bytes that it tells. There is room (asserted by the flow). @lane: NULL for the link's own.
 */
void link_post_message(struct link_post *post, struct link_lane *lane, struct cdc *msg,
		       uint32_t bytes);

/* STATE, with @words of what is due; there is room. */
void link_post_words(struct link_post *post, struct link_lane *lane, uint32_t words);

/*
 * @bytes, which are ready: at once, in the form that their number asks for; or a chunk, in its
 * turn. False: no room, nothing is done.
 */
bool link_post_small(struct link_post *post, struct link_lane *lane, uint32_t bytes);
bool link_post_bulk(struct link_post *post, struct link_lane *lane, uint32_t bytes);

/* The post is complete: returns its length. */
size_t link_post_end(struct link_post *post);

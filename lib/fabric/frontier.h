/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "fabric/trial.h"

/*
 * The frontier of a device: inline data takes room in the send queue, so for some inline sizes, how
 * deep may that be? For people and for settings; nothing is decided by it.
 */

#define FRONTIER_POINTS_MAX 4u

/* Creations at most. */
#define FRONTIER_BUDGET 24u

/* Depths looked at, unless the shape is deeper: what the setting rdma_depth may be. Soft devices
 * accept a million, and are busy for seconds with half a GB for it; a removal would wait. */
#define FRONTIER_WR_MAX 32768u

struct frontier_point {
	uint32_t inline_bytes;
	uint32_t send_wr; /* the deepest found: exact to a factor of two, or where the search began
			   */
	int error;	  /* not 0: an error that is not about depth ended the search there */
};

struct frontier {
	uint32_t n;
	struct frontier_point points[FRONTIER_POINTS_MAX];
	uint32_t creations;
	uint32_t us;
};

/*
 * Find for 0, 64, 128 and @inline_bytes bytes of inline, those up to @inline_bytes, how deep the
 * send queue of a queue pair of @shape may be, beginning at the device's maximum, or at
 * FRONTIER_WR_MAX. @shape is known to be accepted with @inline_bytes.
 * @ret_frontier: filled in any case. Blocks, as long as FRONTIER_BUDGET creations of deep queues
 * take.
 */
void frontier_find(const struct device *device, const struct trial_shape *shape,
		   uint32_t inline_bytes, struct frontier *ret_frontier);

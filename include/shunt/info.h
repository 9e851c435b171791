/* SPDX-License-Identifier: MIT */
#pragma once

#include <shunt/stream.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum shunt_lane {
	SHUNT_LANE_TCP,
	SHUNT_LANE_RING,
	SHUNT_LANE_RDMA,
};

struct shunt_info {
	uint32_t size; /* sizeof(struct shunt_info), set by the caller: later versions append */
	uint32_t tx_lane, rx_lane; /* enum shunt_lane: where the next byte of a direction goes */
	uint32_t epoch;		   /* lanes that this connection has had, this one included */
	uint32_t demotions;
	uint32_t pinned; /* 1: stays on TCP for good */
	uint64_t lane_tx_bytes, lane_rx_bytes;
	char reason[32]; /* short name of the reason of the last change */
};

/* The state of @stream at this moment. 0; -EINVAL for an unknown size. Does not block. */
int shunt_get_info(struct shunt_stream *stream, struct shunt_info *info);

/*
 * Ask both directions to go back to TCP; each does so as soon as its reader allows, nothing waits.
 * The stream may be promoted again later. 0; -EALREADY when it is not promoted.
 */
int shunt_demote(struct shunt_stream *stream);

/* As shunt_demote(), and stay on TCP for good. 0. */
int shunt_pin(struct shunt_stream *stream);

#ifdef __cplusplus
}
#endif

/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "core/half.h"

/*
 * What went over lanes, by kind, with a histogram of message sizes (core/sizes.h). The figures are
 * in the half of each end, which writes them itself: they are its claims, go nowhere but into
 * answers, and are read without asking it. What a lane that has gone had is added to the totals
 * here; halves that the daemon does not map (those that it adopted on its own host, and all beyond
 * SERVER_PAGES_MAX) are in none of these.
 */

struct server;

enum lane_kind {
	LANE_RING, /* to another process of this host */
	LANE_RDMA, /* between hosts */
	LANE_KINDS,
};

/* By ends, as all totals: what goes between two clients of this daemon is sent and taken here. */
struct lane_sizes {
	uint64_t tx_bytes, rx_bytes;
	uint64_t tx[SIZES_BUCKETS], rx[SIZES_BUCKETS]; /* messages */
};

/* Add what the owner of @half says. Saturates. */
void sizes_add_half(struct lane_sizes *sum, const struct half_ctl *half);

/* Messages of @counts. Saturates. */
uint64_t sizes_messages(const uint64_t counts[SIZES_BUCKETS]);

/* Messages that the owner of @half has sent and taken. NULL without memory. */
json_t *sizes_half_json(const struct half_ctl *half);

/* By kind, of lanes that are gone and those that are not: {"ring": …, "rdma": …}. NULL without
 * memory. */
json_t *sizes_json(const struct server *server);

/* The upper limits of all buckets but the last. */
json_t *sizes_limits_json(void);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#include "fabric/device.h"

/*
 * Trial queue pairs: created as those that will carry data (reliable connection, one completion
 * queue for both directions, on the device's own context), to see what the device says. They never
 * become others' queue pairs: one that was tried is destroyed.
 *
 * All of it blocks, for as long as the device's firmware takes.
 */

/* What decides, with the inline size, whether a device accepts a queue pair. */
struct trial_shape {
	uint32_t send_wr, recv_wr;   /* work requests outstanding at most */
	uint32_t send_sge, recv_sge; /* pieces of memory of each */
};

/* The provider refused and left errno alone. Positive, unlike -errno. */
#define TRIAL_REFUSED 1

/*
 * Create a completion queue with room for two queue pairs of @shape, or as much as the device has.
 * @ret_cq: for trial_cq_destroy(). Returns 0 or -errno (-ENOMEM: also when too little memory may
 * be locked).
 */
int trial_cq_create(const struct device *device, const struct trial_shape *shape,
		    struct ibv_cq **ret_cq);

/* Destroy @cq, NULL included; its queue pairs first. Returns NULL. */
struct ibv_cq *trial_cq_destroy(const struct device *device, struct ibv_cq *cq);

struct trial {
	struct ibv_qp *qp;
	struct ibv_qp_cap cap;
};

/*
 * Create a queue pair of @shape that asks for @inline_bytes.
 * @cq: for both directions.
 * @ret_trial: set on success; its cap says what was granted. For trial_destroy().
 * Returns 0; TRIAL_REFUSED; or -errno as the provider told it, errno having been cleared before.
 */
int trial_create(const struct device *device, const struct trial_shape *shape, struct ibv_cq *cq,
		 uint32_t inline_bytes, struct trial *ret_trial);

/* Destroy the queue pair of @trial, if there is one; logs at debug what speaks against it. */
void trial_destroy(const struct device *device, struct trial *trial);

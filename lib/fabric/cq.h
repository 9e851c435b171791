/* SPDX-License-Identifier: MIT */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/device.h"

/*
 * Completion queues of a device, shared by its queue pairs. A queue pair is admitted with the sum
 * of the depths of its two work queues, which is the most that it can ever have completed and not
 * polled: so a completion queue can't overrun, whoever polls late. There are as many as needed, all
 * on one completion channel, so that the device's worker sleeps on one descriptor.
 *
 * Belongs to the device's control thread. A completion queue lives while a queue pair is on it, so
 * the worker may poll those of its links.
 */

/* Entries of a completion queue, if the device has so many. Chosen: 512 KiB at 64 bytes an entry;
 * 32 queue pairs of 128 + 128. */
#define CQ_ENTRIES 8192u

struct cq {
	struct list link;
	struct ibv_cq *verbs;
	uint32_t entries, admitted;
};

struct cq_set {
	const struct device *device;
	struct ibv_comp_channel *channel;
	struct list cqs;
	uint32_t count;
};

/*
 * An empty set, with its channel, whose descriptor is non-blocking. 0, or -errno: -EMFILE, -ENOMEM,
 * or what the provider says.
 */
int cq_set_init(struct cq_set *set, const struct device *device);

/* Destroy everything; no queue pair may be admitted any more. Harmless on a set of zeros. */
void cq_set_deinit(struct cq_set *set);

/*
 * Admit a queue pair with @entries in all. @ret_cq: where; the set's. 0, -EINVAL when no completion
 * queue of the device can be so large, -ENOMEM, or what the provider says.
 */
int cq_set_take(struct cq_set *set, uint32_t entries, struct cq **ret_cq);

/* The queue pair is gone: its @entries are free again. The last of @cq destroys it. */
void cq_set_give(struct cq_set *set, struct cq *cq, uint32_t entries);

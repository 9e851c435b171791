/* SPDX-License-Identifier: MIT */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/half.h"
#include "fabric/control.h"
#include "fabric/device.h"

/*
 * Registered halves: each has one memory region, hence one rkey, of its own, over its ring alone.
 * The page of control words is never registered: the device has no business there.
 *
 *   our half       made here, fresh and zeroed, mapped for writing; the peer's device writes into
 *                  its ring: LOCAL_WRITE | REMOTE_WRITE
 *   client's half  the client's sealed memfd, mapped read-only; our device reads from its ring and
 *                  nobody else does: no access right at all
 *
 * Making, registering and freeing take milliseconds per megabyte: as jobs on the device's control
 * thread. A half is deregistered before its memory goes, and its memory is never used for another
 * lane: the next one is a new memfd.
 */

/* Verdict of mr_submit(): more than may be pinned on this device. */
#define MR_OVER_BUDGET 3

/* Fresh halves kept ready for the next lanes. Chosen: one burst of connections of one program. */
#define MR_KEEP 4u

struct mr_half {
	struct list link;
	int fd;		      /* memfd; ours: to be passed on; -1 for a client's */
	struct half_ctl *ctl; /* mapped whole: ours read-write, a client's read-only */
	uint64_t ring_bytes;
	struct ibv_mr *region; /* of the ring: lkey, rkey, addr */
};

/* What may be pinned on one device, and is. */
struct mr_budget {
	uint64_t pinned, max; /* bytes; in flight included */
	uint32_t count;	      /* regions */
};

enum mr_work { MR_MAKE, MR_ATTACH, MR_FREE };

/*
 * One job. @done is called on the loop with result 0 or -errno; MAKE and ATTACH leave the half in
 * @half then. A cancelled one has the result -ECANCELED; a FREE is never cancelled but done at
 * once.
 */
struct mr_job {
	struct control_job job; /* private */
	const struct device *device;
	struct mr_budget *budget;
	enum mr_work work;
	uint64_t ring_bytes; /* MAKE, ATTACH: a power of two, of whole pages */
	int client_fd; /* ATTACH: a memfd of half_bytes(ring_bytes), sealed; stays the caller's */
	struct mr_half *half;
	int result;
	void (*done)(struct mr_job *job);
};

/*
 * Begin @job on @control. 0, MR_OVER_BUDGET, or a verdict of control_submit(): done() is not
 * called then. The loop's.
 */
int mr_submit(struct control *control, struct mr_job *job);

/*
 * The work itself; it blocks: on the control thread.
 * mr_half_make(), mr_half_attach(): 0 and @ret_half, or -errno: -ENOMEM (memory or locked memory),
 * -EINVAL (@fd is not such a half), -EMFILE, or what the provider says.
 * mr_half_free(): deregister, unmap, close; NULL is ignored. Returns NULL.
 */
int mr_half_make(const struct device *device, uint64_t ring_bytes, struct mr_half **ret_half);
int mr_half_attach(const struct device *device, int fd, uint64_t ring_bytes,
		   struct mr_half **ret_half);
struct mr_half *mr_half_free(struct mr_half *half);

/* A few fresh halves of our own, kept ready. The loop's, but for mr_store_deinit(). */
struct mr_store {
	const struct device *device;
	struct control *control;
	struct mr_budget *budget;
	uint64_t ring_bytes;
	uint32_t keep;
	struct list ready;
	uint32_t n_ready;
	struct mr_job job;
	bool is_making, is_stopped;
	int error; /* of the last one made */
};

/* An empty store that keeps @keep halves of @ring_bytes; mr_store_tick() fills it. */
void mr_store_init(struct mr_store *store, const struct device *device, struct control *control,
		   struct mr_budget *budget, uint64_t ring_bytes, uint32_t keep);

/* A ready one, the caller's now, to be freed by an MR_FREE job; NULL: make one by a job. */
struct mr_half *mr_store_take(struct mr_store *store);

/* To be called about once a second: makes what is missing, one at a time. */
void mr_store_tick(struct mr_store *store);

/* Make none any more. */
void mr_store_stop(struct mr_store *store);

/* Whether nothing is being made. */
bool mr_store_is_quiet(const struct mr_store *store);

/* Free all that a stopped and quiet store has: on the control thread, or when it has ended. */
void mr_store_deinit(struct mr_store *store);

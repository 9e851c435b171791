/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/pool_size.h"
#include "fabric/control.h"
#include "fabric/cq.h"
#include "fabric/qp.h"

/*
 * Queue pairs kept ready for the links of one port. A link takes one and creates none; the pool is
 * refilled behind it, on the device's control thread. A used one is retired, not kept: a peer that
 * sees the number of an old connection again would take the new one for stale.
 *
 *   qp_pool_take()   -> 0            here it is
 *                    -> QP_POOL_WAIT none is ready: one is being made, the waiter will be told
 *                    -> QP_POOL_OVER none will come for now: stay on TCP, with that reason
 *
 * All functions are the loop's. One job at a time, a "turn", goes to the control thread: it
 * destroys what is retired and creates what is wanted, a few at a time, and ends early when dials
 * or registrations wait behind it.
 *
 * The steps of a link run on that thread as well. So that none of them waits for a creation, no
 * turn begins while links are being made (qp_pool_hold()), unless links wait for queue pairs
 * themselves, or it has been put off for long.
 *
 * The budget (core/pool_size.h) is the device's, shared by its pools: a queue pair counts from the
 * moment when it is going to be made until it is destroyed, whoever has it.
 */

/* Queue pairs created per turn. Chosen: some milliseconds on a real device. */
#define QP_POOL_TURN 4u

/* Pause before the next try when creating failed: it doubles from the first to the second. Chosen:
 * what frees resources is other programs' or an administrator's doing. */
#define QP_POOL_RETRY_MIN_NS 1000000000ull
#define QP_POOL_RETRY_MAX_NS 30000000000ull

/* How long links in the making may put off a turn. Chosen: a link is made in milliseconds; dials to
 * hosts that do not answer must not keep a pool from being filled. */
#define QP_POOL_PUT_OFF_NS 1000000000ull

/* Verdicts of qp_pool_take(). */
#define QP_POOL_WAIT 1
#define QP_POOL_OVER 2

/*
 * One who waits. @fn is called once, on the loop: with a queue pair, which is his then; or with
 * NULL and why: QP_POOL_OVER or -errno of the failure to make one, -ENODEV when the pool is
 * stopped. It may call into the pool.
 */
struct qp_waiter {
	struct list link; /* private */
	void (*fn)(struct qp_waiter *waiter, struct qp *qp, int why);
};

struct qp_pool_counts {
	uint64_t created, destroyed; /* queue pairs, in all */
	uint64_t taken;		     /* given to links */
	uint64_t waited;	     /* takes that found none */
	uint64_t failed;	     /* creations that failed */
};

struct qp_pool;

struct qp_pool_turn {
	struct control_job job;
	struct qp_pool *pool;
	struct qp_spec spec;
	uint32_t wanted;
	struct list made, doomed;
	uint32_t n_made, n_doomed;
	bool is_urgent; /* somebody waits for it */
	int result;	/* of the last creation */
};

struct qp_pool_config {
	const struct device *device;
	struct control *control;
	struct cq_set *cqs;
	struct pool_budget *budget; /* the device's */
	uint32_t min, max;	    /* 1 <= min <= max */
	/* The device refuses what the probe found: on the loop, once until qp_pool_set_spec(). */
	void (*on_refused)(struct qp_pool *pool);
};

struct qp_pool {
	struct qp_pool_config config;
	struct qp_spec spec;
	struct pool_size size;
	struct list ready, retired, waiters;
	uint32_t n_ready, n_retired, n_coming, n_out; /* out: with links */
	uint32_t n_holds;			      /* links that are being made */
	struct qp_pool_turn turn;
	struct qp_pool_counts counts;
	bool is_turning, is_refused, is_stopped;
	uint64_t put_off_ns; /* since when a turn is, as a tick has seen it; 0: it has not */
	bool is_overdue;
	int error; /* of the last turn: 0, QP_REFUSED or -errno */
	/* Creating failed; tried again at a time that the next tick sets (0: not yet). */
	bool is_failing, is_trying;
	uint64_t pause_ns, retry_at_ns;
};

/*
 * An empty pool that makes queue pairs as @spec says. @config is copied, what it refers to must
 * outlive the pool. @now_ns: monotonic. Starts with the first qp_pool_tick().
 */
void qp_pool_init(struct qp_pool *pool, const struct qp_pool_config *config,
		  const struct qp_spec *spec, uint64_t now_ns);

/* Take one. @waiter: with fn set, queued if the verdict is QP_POOL_WAIT. @ret_qp: set with 0. */
int qp_pool_take(struct qp_pool *pool, struct qp_waiter *waiter, struct qp **ret_qp);

/* A link is being made from now on; it is up, or has failed. */
void qp_pool_hold(struct qp_pool *pool);
void qp_pool_release(struct qp_pool *pool);

/* @waiter waits no longer; harmless if it does not. fn is not called. */
void qp_pool_forget(struct qp_pool *pool, struct qp_waiter *waiter);

/* Give back @qp, which came from qp_pool_take(), whatever became of it: it is destroyed. */
void qp_pool_retire(struct qp_pool *pool, struct qp *qp);

/* To be called about once a second: sizes, refills, tries again. @now_ns: monotonic. */
void qp_pool_tick(struct qp_pool *pool, uint64_t now_ns);

/* Make others from now on, as @spec says: what is ready is destroyed. */
void qp_pool_set_spec(struct qp_pool *pool, const struct qp_spec *spec);

/*
 * The end begins: nobody gets a queue pair any more, those who wait are told, none is made. What
 * links have must be retired as ever.
 */
void qp_pool_stop(struct qp_pool *pool);

/* Whether a stopped pool has no turn in flight and no queue pair out with a link. */
bool qp_pool_is_quiet(const struct qp_pool *pool);

/*
 * Destroy all that a stopped and quiet pool has. Blocks: on the control thread while the loop
 * leaves the pool alone, or when that thread has ended.
 */
void qp_pool_deinit(struct qp_pool *pool);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/reason.h"

/*
 * When to ask for a lane. A connection that lives for one request must cost what TCP costs, so
 * nothing happens before promote_after operations; after a failed attempt or a demotion the next
 * one waits, each time twice as long, from backoff_min_ms up to backoff_max_ms.
 */
struct policy {
	uint32_t promote_after; /* operations */
	uint32_t backoff_min_ms, backoff_max_ms;
};

/* Threads of one process may race for it: a count that is one short, or a wait that is one step
 * shorter, harms nobody. So its words are atomic, and in no order. */
struct policy_state {
	_Atomic uint32_t ops;	     /* operations so far, saturating */
	_Atomic uint32_t backoff_ms; /* the wait after the next failure; 0: the minimum */
	_Atomic uint64_t not_before_ns;
};

/* Used until a daemon has told its own. Chosen: 8 operations are more than a short request needs;
 * 100 ms to 10 s keep a hopeless attempt under 10 per second and a curable one under 10 s. */
#define POLICY_DEFAULT                                                                             \
	((struct policy){.promote_after = 8, .backoff_min_ms = 100, .backoff_max_ms = 10000})

/* Count an operation; true if enough have been seen to ask policy_may_try(). */
static inline bool policy_count(const struct policy *policy, struct policy_state *state)
{
	uint32_t ops = atomic_load_explicit(&state->ops, memory_order_relaxed);

	if (ops >= policy->promote_after)
		return true;
	atomic_store_explicit(&state->ops, ops + 1, memory_order_relaxed);
	return false;
}

/* Whether the waiting time after the last failure is over at @now_ns. */
bool policy_may_try(const struct policy_state *state, uint64_t now_ns);

/*
 * An attempt failed, or a lane ended, at @now_ns: wait for the back-off, and at least for @retry_ms
 * if the daemon named a time.
 */
void policy_failed(const struct policy *policy, struct policy_state *state, uint64_t now_ns,
		   uint32_t retry_ms);

/* A lane carried bytes for long enough: the next failure waits the minimum again. */
void policy_succeeded(struct policy_state *state);

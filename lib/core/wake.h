/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "core/half.h"

/*
 * Sleeping and waking without losing a wake-up.
 *
 *   sleeper                              ringer
 *   try, find nothing                    store the word                     L_STORE
 *   advance own arm      L_ARM           (full fence)
 *   (full fence)                         load the other party's arm         L_LOADARM
 *   re-check every word  L_RECHECK       moved since last rung? write bell  L_RING
 *   block on the bell    L_SLEEP         then remember it as rung           L_REMEMBER
 *
 * Either the sleeper's re-check sees the word, or the ringer sees the arm: both would have to miss
 * each other's store for a wake-up to be lost, which the two full fences forbid. They are not
 * separate instructions here: every access on these two paths is a sequentially consistent
 * atomic, which gives the same order and is what ThreadSanitizer understands. The arm is a counter
 * and not a flag, so that a second sleeper cannot be mistaken for the first, already woken one.
 * The bell is written before it is remembered as rung: a ringer that dies in between leaves a bell
 * that rings twice, never one that does not ring.
 *
 * If a process dies between L_STORE and L_RING and its side lives on, its daemon wakes all sleepers
 * of both sides: by kicks, on which the same threads sleep as on the bells, and after which they
 * look at every word again (lib/client/kick.h).
 *
 * tests/model/wake.pml is the model of this file; the labels above are its labels.
 */

enum wake_kind {
	WAKE_DATA = 1 << 0,
	WAKE_SPACE = 1 << 1,
	WAKE_ALL = WAKE_DATA | WAKE_SPACE,
};

/* Arm values; as a memo: those for which the bell was rung last. */
struct wake_arms {
	uint64_t data;
	uint64_t space;
};

/* L_ARM. Announce in @own that someone here is about to sleep for @kinds. */
static inline void wake_arm(struct half_ctl *own, unsigned int kinds)
{
	/* Full fence; partner: the load in wake_ring_needed(). */
	if (kinds & WAKE_DATA)
		atomic_fetch_add(&own->arm_data, 1);
	if (kinds & WAKE_SPACE)
		atomic_fetch_add(&own->arm_space, 1);
}

/*
 * L_LOADARM. Whether the sleepers announced in @armed have to be woken for a change of @kinds that
 * was stored just before with a sequentially consistent store. @rung is what was rung last under
 * the lock that the caller holds. On true, ring the bell, then call wake_remember() with @ret_seen.
 */
static inline bool wake_ring_needed(const struct half_ctl *armed, unsigned int kinds,
				    const struct wake_arms *rung, struct wake_arms *ret_seen)
{
	struct wake_arms seen = *rung;

	/* Partner: wake_arm() on the other side, behind the store that the caller made. */
	if (kinds & WAKE_DATA)
		seen.data = atomic_load(&armed->arm_data);
	if (kinds & WAKE_SPACE)
		seen.space = atomic_load(&armed->arm_space);
	if (seen.data == rung->data && seen.space == rung->space)
		return false;
	*ret_seen = seen;
	return true;
}

/* L_REMEMBER. Only after the bell was written. */
static inline void wake_remember(struct wake_arms *rung, const struct wake_arms *seen)
{
	*rung = *seen;
}

/* The words that a sleeper must not miss, as they were before its last attempt. */
struct wake_mark {
	uint64_t prod;
	uint64_t cons;
	uint64_t peer_seq;
	uint64_t own_seq;
};

static inline struct wake_mark wake_mark(const struct half_ctl *own, const struct half_ctl *peer)
{
	return (struct wake_mark){
		.prod = atomic_load(&peer->prod),
		.cons = atomic_load(&peer->cons),
		.peer_seq = atomic_load(&peer->state_seq),
		.own_seq = atomic_load(&own->state_seq),
	};
}

/*
 * L_RECHECK. After wake_arm(): whether nothing of @kinds has changed since @mark was taken, which
 * must have been before the attempt that found nothing to do. False means try again.
 */
static inline bool wake_may_sleep(const struct half_ctl *own, const struct half_ctl *peer,
				  unsigned int kinds, const struct wake_mark *mark)
{
	struct wake_mark now = wake_mark(own, peer);

	if (now.peer_seq != mark->peer_seq || now.own_seq != mark->own_seq)
		return false;
	if ((kinds & WAKE_DATA) && now.prod != mark->prod)
		return false;
	return !(kinds & WAKE_SPACE) || now.cons == mark->cons;
}

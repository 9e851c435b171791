/* SPDX-License-Identifier: MIT */
#pragma once

#include "core/lane.h"

/*
 * Reading the peer's half. Each word is loaded once, checked, and only the local copy is used.
 * A peer may write anything at any time; the worst it can do with it is to lose its connection.
 *
 * All return 0, or -EBADMSG on a violation. Transmit functions under the transmit lock, receive
 * functions under the receive lock.
 */

/* Reload the state words that a sender cares about, if any changed. */
int peer_refresh_tx(struct lane *lane);

/* Reload the state words that a receiver cares about, if any changed. */
int peer_refresh_rx(struct lane *lane);

/* Reload how far the peer has consumed our bytes. */
int peer_refresh_cons(struct lane *lane);

/* Reload how far the peer has produced; after peer_refresh_rx(), for tx_end is loaded before prod.
 */
int peer_refresh_prod(struct lane *lane);

/* Something changed that sleepers of this side must not miss and that no word tells. */
static inline void own_touch(struct half_ctl *own)
{
	/* Sequentially consistent; partner: wake_mark() of a sibling. */
	atomic_fetch_add(&own->state_seq, 1);
}

/* Change a state word of the own half and let the peer's next look see that something changed. */
static inline void own_announce(struct half_ctl *own, _Atomic uint64_t *word, uint64_t value)
{
	/* Sequentially consistent: the word is in place before state_seq tells of it, and both
	 * before the caller looks at the peer's arm (partner: wake_arm()). */
	atomic_store(word, value);
	atomic_fetch_add(&own->state_seq, 1);
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include "core/lane.h"

/*
 * The common case of a lane in mid-segment, without the questions that need a slow answer: a
 * message that fits the ring in one piece, and a read that what is known of the peer's ring covers.
 * Each function does part of what its namesake in core/lane.h does, or nothing; a caller that is
 * told "no" asks there. Pure; under the lock of the direction.
 */

/* Where @len bytes, at least one, go in the own ring, to be followed by lane_tx_commit(@len); or
 * NULL: ask lane_tx_route(). */
static inline uint8_t *lane_tx_fast(const struct lane *lane, uint64_t len)
{
	const typeof(lane->st->tx) *tx = &lane->st->tx;
	uint64_t pos = tx->prod.v & (lane->own_bytes - 1);
	uint64_t used = tx->prod.v - tx->peer_cons.v;

	if (tx->phase != TX_RING || tx->ending || tx->peer_rx_stop != OPT_NONE)
		return NULL;
	if (atomic_load(&lane->peer->state_seq) != tx->peer_seq)
		return NULL;
	/* The shared state may be another uid's work: check before memory depends on it. */
	if (used > lane->own_bytes || len > lane->own_bytes - used || len > lane->own_bytes - pos)
		return NULL;
	return half_ring(lane->own) + pos;
}

/*
 * Where the next @len bytes, at least one, are in the peer's ring, to be followed by
 * lane_rx_consume(@len); or NULL: ask lane_rx_route(). The peer's words are not looked at: what it
 * had produced at the last look is in the ring whatever it has announced since.
 */
static inline const uint8_t *lane_rx_fast(const struct lane *lane, uint64_t len)
{
	const typeof(lane->st->rx) *rx = &lane->st->rx;
	uint64_t pos = rx->cons.v & (lane->peer_bytes - 1);
	uint64_t avail = rx->peer_prod.v - rx->cons.v;

	if (rx->phase != RX_RING || rx->frozen)
		return NULL;
	if (len > avail || avail > lane->peer_bytes || len > lane->peer_bytes - pos)
		return NULL;
	return half_ring_const(lane->peer) + pos;
}

/* Whether nobody sleeps who has to be told of what became due in @wake; nothing is due then. False:
 * lane_bells_due() knows. */
static inline bool lane_wakes_nobody(const struct lane *lane, struct lane_wake *wake)
{
	struct wake_arms seen;

	if (wake->due_self || wake_ring_needed(lane->peer, WAKE_ALL, &wake->rung_peer, &seen))
		return false;
	wake->due_peer = 0;
	return true;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "core/lane_impl.h"
#include "core/peer.h"

void lane_begin(struct lane *lane, uint32_t epoch)
{
	memset(lane->st, 0, sizeof(*lane->st));
	lane->st->epoch = epoch;
	/* No arm has this value: the own bell rings whatever the sleepers have armed, and where. */
	lane->st->tx.wake.rung_self = (struct wake_arms){UINT64_MAX, UINT64_MAX};
	atomic_store(&lane->own->epoch, epoch);
	own_announce(lane->own, &lane->own->ready, 1);
	wake_due_state(&lane->st->tx.wake);
}

void lane_leave(struct lane *lane)
{
	lane->st->tx.leaving = 1;
	if (atomic_load(&lane->own->leave))
		return;
	own_announce(lane->own, &lane->own->leave, 1);
	wake_due_state(&lane->st->tx.wake);
}

void lane_tx_close(struct lane *lane)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;

	if (!atomic_load(&lane->own->shut)) {
		/* Partner: the look at shut behind a start, in tx_ends(). */
		own_announce(lane->own, &lane->own->shut, 1);
		wake_due_state(&tx->wake);
	}
	tx->closed = 1;
	if (tx->phase != TX_ENDED)
		lane_tx_end(lane);
}

int lane_close(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;

	if (!atomic_load(&lane->own->closing))
		own_announce(lane->own, &lane->own->closing, 1);
	wake_due_state(&lane->st->tx.wake);
	lane_tx_close(lane);
	/* Only now: bytes that the peer produced before it could see that we are closing. */
	if (lane_rx_settle(lane) || peer_refresh_prod(lane))
		return -EBADMSG;
	return rx->phase != RX_ENDED && ring_off_lt(rx->cons, rx->peer_prod);
}

int lane_is_done(struct lane *lane)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	int rc;

	if (lane_rx_settle(lane) || peer_refresh_tx(lane))
		return -EBADMSG;
	if (tx->phase != TX_ENDED || lane->st->rx.phase != RX_ENDED)
		return 0;
	if (ring_off_lt(tx->backlog, tx->end))
		return 0;
	if (tx->lost || lane->remote) {
		rc = lane_tx_replayed(lane);
		if (rc <= 0)
			return rc;
		/* Who is through lets go of the halves, and nobody could tell any more what the
		 * other daemon, or a successor of it, has yet to learn from them. */
		if (tx->lost)
			return atomic_load(&lane->peer->settled) != 0;
	}
	if (peer_refresh_cons(lane))
		return -EBADMSG;
	return ring_off_eq(tx->peer_cons, lane_owed(lane));
}

bool lane_bells_due(const struct lane *lane, struct lane_wake *wake, struct lane_bells *ret_bells)
{
	struct lane_bells bells = {.peer_seen = wake->rung_peer, .self_seen = wake->rung_self};

	if (wake->due_peer)
		bells.peer = wake_ring_needed(lane->peer, wake->due_peer, &wake->rung_peer,
					      &bells.peer_seen);
	if (wake->due_self)
		bells.self = wake_ring_needed(lane->own, wake->due_self, &wake->rung_self,
					      &bells.self_seen);
	if (bells.peer || bells.self) {
		*ret_bells = bells;
		return true;
	}
	wake->due_peer = 0;
	wake->due_self = 0;
	return false;
}

void lane_rung(struct lane_wake *wake, const struct lane_bells *bells)
{
	wake_remember(&wake->rung_peer, &bells->peer_seen);
	wake_remember(&wake->rung_self, &bells->self_seen);
	wake->due_peer = 0;
	wake->due_self = 0;
}

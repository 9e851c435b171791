/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "core/lane_impl.h"
#include "core/peer.h"

void lane_tx_end(struct lane *lane)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;

	tx->end = tx->prod;
	tx->backlog = tx->end;
	tx->phase = TX_ENDED;
	own_announce(lane->own, &lane->own->tx_end, opt_some(tx->end.v));
	wake_due_state(&tx->wake);
}

/* --- hand-over: the peer has asked for TCP from an offset on (rx_stop) ------------------------ */

/* Whether the peer waits for an answer, and bytes stand in the ring behind its stop that can still
 * go over TCP in their place. */
static bool tx_stop_is_due(const struct lane *lane)
{
	const typeof(lane->st->tx) *tx = &lane->st->tx;

	return tx->peer_rx_stop != OPT_NONE && tx->peer_resume == RESUME_NONE &&
	       atomic_load(&lane->own->stop_ack) == OPT_NONE && !tx->lost &&
	       opt_value(tx->peer_rx_stop) < tx->end.v;
}

/* Answer: TCP goes on at @from. */
static void tx_answer_stop(struct lane *lane, struct ring_off from)
{
	lane->st->tx.backlog = from;
	own_announce(lane->own, &lane->own->stop_ack, opt_some(from.v));
	wake_due_state(&lane->st->tx.wake);
}

/* TCP goes on behind the ring, with @want bytes or a FIN: no hand-over can change that any more. */
static void tx_go_on(struct lane *lane, uint64_t want)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;

	if (atomic_load(&lane->own->stop_ack) != OPT_NONE)
		return;
	if (want || tx->closed || tx->peer_rx_stop != OPT_NONE)
		tx_answer_stop(lane, tx->end);
}

int lane_tx_stop(struct lane *lane)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	struct ring_off stop = ring_off(opt_value(tx->peer_rx_stop));

	if (tx->phase != TX_ENDED || !tx_stop_is_due(lane))
		return 0;
	if (peer_refresh_cons(lane))
		return -EBADMSG;
	if (!ring_off_eq(tx->peer_cons, stop) && atomic_load(&lane->peer->rx_resume) != RESUME_DONE)
		return -EBADMSG;
	/* Partner: lane_rx_resume() of the peer. It finds the answer, or the next route finds that
	 * it looks for one. */
	tx_answer_stop(lane, stop);
	return 0;
}

/* A backlog that does not fit the ring comes from a forged state. */
static bool tx_backlog_ok(const struct lane *lane, struct ring_off from, struct ring_off end)
{
	return ring_off_dist(from, end) <= lane->own_bytes;
}

int lane_tx_backlog(struct lane *lane, struct tcp_count written, struct lane_plan *ret_plan)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	uint64_t stop = atomic_load(&lane->own->stop_ack);
	struct ring_off end = tx->end, next;

	if (tx->phase != TX_ENDED || stop == OPT_NONE || tcp_count_lt(written, tx->start))
		return -EBADMSG;
	/* From the start on nothing goes to TCP before the backlog. Behind it others may have sent
	 * already, if who sent its last byte died before it could say so. */
	next = ring_off_add(ring_off(opt_value(stop)), tcp_count_dist(tx->start, written));
	if (ring_off_lt(end, next) || tx->peer_resume == RESUME_DONE)
		next = end;
	if (!tx_backlog_ok(lane, next, end))
		return -EBADMSG;
	tx->backlog = next;
	if (ring_off_eq(next, end))
		return TX_VIA_TCP;
	ret_plan->limit = ring_off_dist(next, end);
	ret_plan->spans = ring_range(lane->own_bytes, next, ret_plan->limit);
	return TX_VIA_BACKLOG;
}

/* --- routing ---------------------------------------------------------------------------------- */

int lane_tx_replayed(struct lane *lane)
{
	uint64_t replayed = atomic_load(&lane->peer->replayed);

	if (replayed == OPT_NONE)
		return 0;
	if (opt_value(replayed) > lane->st->tx.end.v)
		return -EBADMSG;
	return opt_value(replayed) == lane->st->tx.end.v;
}

/* No segment yet: is one possible, or has something ruled it out for this epoch? */
static int tx_route_tcp(struct lane *lane)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;

	if (tx->leaving || tx->closed || tx->no_start || tx->fin || tx->lost || tx->peer_leave ||
	    tx->peer_closing || tx->peer_shut || tx->peer_rx_stop != OPT_NONE) {
		lane_tx_end(lane);
		return 0;
	}
	return tx->peer_ready && tx->peer_rx_ready ? TX_VIA_START : TX_VIA_TCP;
}

/* Whether there is no order to keep between the ring and TCP: no byte follows, nobody will read
 * one, or the daemons see to the ring. */
static bool tx_order_is_moot(const struct lane *lane)
{
	const typeof(lane->st->tx) *tx = &lane->st->tx;

	if (tx->closed || tx->peer_closing || tx->lost)
		return true;
	/* Behind a FIN of the peer rx_seen is there or the peer is not. Not so between hosts, where
	 * words travel: but there the daemons tell the end of a peer. */
	return tx->fin && !lane->remote;
}

/* Whether the reader can't run past tx_start any more, or there is nothing that it could miss. */
static bool tx_order_is_kept(const struct lane *lane)
{
	return lane->st->tx.peer_rx_seen || !lane->st->tx.prod.v;
}

/* Whether the segment is to end, and may. */
static bool tx_ends(const struct lane *lane)
{
	const typeof(lane->st->tx) *tx = &lane->st->tx;

	if (tx_order_is_moot(lane))
		return true;
	if (tx->peer_rx_stop != OPT_NONE && tx->peer_resume == RESUME_NONE)
		return true;
	/* The peer's shut is looked at behind every start, before a byte is committed. Partner: the
	 * receive route behind lane_tx_close() of the peer, which has seen the start if this look
	 * does not see that it shuts. */
	return (tx->leaving || tx->peer_leave || tx->peer_shut || tx->fin) &&
	       tx_order_is_kept(lane);
}

static int tx_route_ring(struct lane *lane, uint64_t want, struct lane_plan *ret_plan)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	struct ring_off prod = tx->prod;
	uint64_t space = ring_space(lane->own_bytes, prod, tx->peer_cons);

	if (space < want) {
		if (peer_refresh_cons(lane))
			return -EBADMSG;
		space = ring_space(lane->own_bytes, prod, tx->peer_cons);
	}
	/* The shared state may be another uid's work: check before memory depends on it. */
	if (space > lane->own_bytes)
		return -EBADMSG;
	if (!space)
		return TX_VIA_WAIT;
	ret_plan->limit = want < space ? want : space;
	ret_plan->spans = ring_range(lane->own_bytes, prod, ret_plan->limit);
	return TX_VIA_RING;
}

static int tx_route_ended(struct lane *lane, uint64_t want, struct lane_plan *ret_plan)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	int rc;

	if (!tx_backlog_ok(lane, tx->backlog, tx->end))
		return -EBADMSG;
	/* The peer is about to decide, unless it died in the middle of it. */
	if (tx->peer_resume == RESUME_ASKED && !(tx->fin && !tx->peer_shut))
		return TX_VIA_WAIT;
	if (ring_off_lt(tx->backlog, tx->end))
		return TX_VIA_BACKLOG;
	/* It ended for a hand-over that came to nothing. */
	if (tx->peer_resume == RESUME_DONE && !tx_order_is_moot(lane) && !tx_order_is_kept(lane))
		return TX_VIA_WAIT;
	if (tx->lost || lane->remote) {
		rc = lane_tx_replayed(lane);
		if (rc <= 0)
			return rc ? rc : TX_VIA_WAIT;
	}
	ret_plan->limit = want;
	return TX_VIA_TCP;
}

int lane_tx_route(struct lane *lane, uint64_t want, struct lane_plan *ret_plan)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	int rc;

	for (;;) {
		if (peer_refresh_tx(lane))
			return -EBADMSG;
		switch (tx->phase) {
		case TX_TCP:
			rc = tx_route_tcp(lane);
			if (rc || tx->phase == TX_TCP)
				return rc;
			break; /* ended: look at the peer's words again */
		case TX_RING:
			if (!tx_ends(lane))
				return tx_route_ring(lane, want, ret_plan);
			lane_tx_end(lane);
			break;
		case TX_ENDED:
			if (tx_stop_is_due(lane))
				return TX_VIA_STOP;
			rc = tx_route_ended(lane, want, ret_plan);
			if (rc == TX_VIA_TCP)
				tx_go_on(lane, want);
			return rc;
		default:
			return -EBADMSG;
		}
	}
}

/* --- what the caller does with a route -------------------------------------------------------- */

int lane_tx_start(struct lane *lane, struct tcp_count written, unsigned int sends_in_flight)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;

	if (tx->phase != TX_TCP || !tx->peer_ready || !tx->peer_rx_ready || sends_in_flight)
		return 0;
	tx->start = written;
	tx->phase = TX_RING;
	own_announce(lane->own, &lane->own->tx_start, opt_some(written.v));
	wake_due_state(&tx->wake);
	return 1;
}

void lane_tx_commit(struct lane *lane, uint64_t len)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;

	tx->prod = ring_off_add(tx->prod, len);
	sizes_count(lane->own->sent, len);
	/* Release the bytes; and, being sequentially consistent, before arm is looked at. */
	atomic_store(&lane->own->prod, tx->prod.v);
	tx->wake.due_peer |= WAKE_DATA;
}

int lane_tx_leave(struct lane *lane)
{
	struct lane_plan plan;
	int rc;

	lane->st->tx.leaving = 1;
	rc = lane_tx_route(lane, 1, &plan);
	return rc < 0 ? rc : rc == TX_VIA_TCP;
}

void lane_tx_forbid_start(struct lane *lane)
{
	lane->st->tx.no_start = 1;
}

void lane_tx_fin(struct lane *lane)
{
	lane->st->tx.fin = 1;
}

void lane_tx_recover(struct lane *lane)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	uint64_t start = atomic_load(&lane->own->tx_start);
	uint64_t end = atomic_load(&lane->own->tx_end);

	tx->prod = ring_off(atomic_load(&lane->own->prod));
	tx->phase = TX_TCP;
	if (start != OPT_NONE) {
		tx->start = tcp_count(opt_value(start));
		tx->phase = TX_RING;
	}
	if (end != OPT_NONE) {
		tx->end = ring_off(opt_value(end));
		tx->backlog = lane_owed(lane);
		tx->phase = TX_ENDED;
	}
	if (atomic_load(&lane->own->leave))
		tx->leaving = 1;
	tx->closed = atomic_load(&lane->own->shut) != 0;
	/* A word may have been stored without the count that tells of it. */
	own_touch(lane->own);
	wake_due_state(&tx->wake);
	tx->peer_seq = 0;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "core/lane_impl.h"
#include "core/peer.h"

static void tx_end_now(struct lane *lane)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;

	tx->end = tx->prod;
	tx->phase = TX_ENDED;
	own_announce(lane->own, &lane->own->tx_end, opt_some(tx->end.v));
	wake_due_state(&tx->wake);
}

/*
 * Answer the peer's rx_stop: where TCP goes on. At the offset that it asked for if nothing has gone
 * to TCP behind the ring yet; what stands in the ring from there on becomes the backlog.
 */
static int tx_answer_stop(struct lane *lane)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	struct ring_off stop = ring_off(opt_value(tx->peer_rx_stop));

	if (peer_refresh_cons(lane) || !ring_off_eq(tx->peer_cons, stop))
		return -EBADMSG;
	if (tx->tcp_after || tx->lost) {
		own_announce(lane->own, &lane->own->stop_ack, opt_some(tx->end.v));
	} else {
		tx->backlog = stop;
		tx->backlog_end = tx->prod;
		own_announce(lane->own, &lane->own->stop_ack, opt_some(stop.v));
	}
	wake_due_state(&tx->wake);
	return 0;
}

static bool tx_stop_unanswered(const struct lane *lane)
{
	return lane->st->tx.peer_rx_stop != OPT_NONE &&
	       atomic_load(&lane->own->stop_ack) == OPT_NONE;
}

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

	if (tx->leaving || tx->closed || tx->no_start || tx->lost || tx->peer_leave ||
	    tx->peer_closing || tx->peer_rx_stop != OPT_NONE) {
		tx_end_now(lane);
		return 0;
	}
	return tx->peer_ready && tx->peer_rx_ready ? TX_VIA_START : TX_VIA_TCP;
}

/* Whether the segment is to end, and may. */
static bool tx_ends(const struct lane *lane)
{
	const typeof(lane->st->tx) *tx = &lane->st->tx;

	/* No byte follows, nobody will read one, or the ring is abandoned: no order to keep. */
	if (tx->closed || tx->peer_closing || tx->lost || tx->peer_rx_stop != OPT_NONE)
		return true;
	/* Bytes will follow on TCP: only once the reader cannot run past tx_start any more. */
	return (tx->leaving || tx->peer_leave) && tx->peer_rx_seen;
}

static int tx_route_ring(struct lane *lane, uint64_t want, struct lane_plan *ret_plan)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	uint64_t space = ring_space(lane->own_bytes, tx->prod, tx->peer_cons);

	if (space < want) {
		if (peer_refresh_cons(lane))
			return -EBADMSG;
		space = ring_space(lane->own_bytes, tx->prod, tx->peer_cons);
	}
	if (!space)
		return TX_VIA_WAIT;
	ret_plan->limit = want < space ? want : space;
	ret_plan->spans = ring_range(lane->own_bytes, tx->prod, ret_plan->limit);
	return TX_VIA_RING;
}

static int tx_route_ended(struct lane *lane, uint64_t want, struct lane_plan *ret_plan)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	uint64_t backlog = ring_off_dist(tx->backlog, tx->backlog_end);
	int rc;

	if (backlog > lane->own_bytes)
		return -EBADMSG;
	if (backlog) {
		ret_plan->limit = backlog;
		ret_plan->spans = ring_range(lane->own_bytes, tx->backlog, backlog);
		return TX_VIA_BACKLOG;
	}
	if (tx->lost) {
		rc = lane_tx_replayed(lane);
		if (rc <= 0)
			return rc ? rc : TX_VIA_WAIT;
	}
	if (want)
		tx->tcp_after = 1;
	ret_plan->limit = want;
	return TX_VIA_TCP;
}

int lane_tx_route(struct lane *lane, uint64_t want, struct lane_plan *ret_plan)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	int rc;

	for (;;) {
		/* The shared state may be another uid's work: check before memory depends on it. */
		if (peer_refresh_tx(lane) || tx->prod.v - tx->peer_cons.v > lane->own_bytes)
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
			tx_end_now(lane);
			break;
		case TX_ENDED:
			if (!tx_stop_unanswered(lane))
				return tx_route_ended(lane, want, ret_plan);
			if (tx_answer_stop(lane))
				return -EBADMSG;
			break;
		default:
			return -EBADMSG;
		}
	}
}

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
	/* Release the bytes; and, being sequentially consistent, before arm is looked at. */
	atomic_store(&lane->own->prod, tx->prod.v);
	tx->wake.due_peer |= WAKE_DATA;
}

void lane_tx_backlog_sent(struct lane *lane, uint64_t len)
{
	lane->st->tx.backlog = ring_off_add(lane->st->tx.backlog, len);
}

void lane_tx_close(struct lane *lane)
{
	lane->st->tx.closed = 1;
	if (lane->st->tx.phase != TX_ENDED)
		tx_end_now(lane);
}

int lane_tx_leave(struct lane *lane)
{
	struct lane_plan plan;
	int rc;

	lane->st->tx.leaving = 1;
	rc = lane_tx_route(lane, 0, &plan);
	return rc < 0 ? rc : rc == TX_VIA_TCP;
}

void lane_tx_forbid_start(struct lane *lane)
{
	lane->st->tx.no_start = 1;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "core/lane_impl.h"
#include "core/peer.h"

/* Room is given back by the 16th of a ring. Chosen: a cache line that both ends use is passed to
 * and fro 16 times a ring, which costs nothing, and a writer that waits finds 15 of 16 parts used.
 */
#define RX_ROOM_PARTS 16u

void lane_rx_ready(struct lane *lane, unsigned int uncovered)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;

	if (rx->rx_ready || uncovered)
		return;
	rx->rx_ready = 1;
	own_announce(lane->own, &lane->own->rx_ready, 1);
	wake_due_state(&rx->wake);
}

/* Whether no byte will be added to the peer's ring; its prod must be loaded after this. */
static bool rx_end_known(const struct lane *lane)
{
	return lane->st->rx.peer_tx_end != OPT_NONE || lane->st->rx.peer_lost;
}

/* Whether the segment is over without a byte: started or not, TCP it is, all the way. */
static bool rx_is_empty(const struct lane *lane)
{
	const typeof(lane->st->rx) *rx = &lane->st->rx;

	return rx->peer_tx_end == opt_some(0) ||
	       (rx->peer_tx_start == OPT_NONE && rx_end_known(lane));
}

/* A hand-over that was asked for: has it been answered? */
static void rx_see_stop_ack(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;
	uint64_t stop = atomic_load(&lane->own->rx_stop);

	if (stop == OPT_NONE || rx->peer_stop_ack == OPT_NONE ||
	    atomic_load(&lane->own->rx_resume) == RESUME_DONE)
		return;
	rx->frozen = 0;
	if (rx->peer_stop_ack == stop)
		rx->phase = RX_ENDED;
}

int lane_rx_settle(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;

	if (rx->phase > RX_ENDED || peer_refresh_rx(lane))
		return -EBADMSG;
	if (rx->phase == RX_TCP && rx_is_empty(lane))
		rx->phase = RX_ENDED;
	rx_see_stop_ack(lane);
	if (rx->phase != RX_RING || ring_off_lt(rx->cons, rx->peer_prod))
		return 0;
	/* The end, if known, was loaded before this: what prod says now is all. */
	if (peer_refresh_prod(lane))
		return -EBADMSG;
	if (rx_end_known(lane) && ring_off_eq(rx->peer_prod, rx->cons))
		rx->phase = RX_ENDED;
	return 0;
}

int lane_rx_route(struct lane *lane, uint64_t want, struct lane_plan *ret_plan)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;
	struct ring_off cons, prod;
	uint64_t avail;

	if (lane_rx_settle(lane))
		return -EBADMSG;
	if (rx->phase == RX_TCP && rx->peer_tx_start != OPT_NONE) {
		rx->start = tcp_count(opt_value(rx->peer_tx_start));
		rx->phase = RX_TAIL;
	}
	switch (rx->phase) {
	case RX_TAIL:
		return RX_VIA_COUNT;
	case RX_RING:
		/* The shared state may be another uid's work: check before memory depends on it. */
		cons = rx->cons;
		/* A read that gets less than it asked for means that there is no more: programs
		 * rely on it. */
		if (ring_off_dist(cons, rx->peer_prod) < want && peer_refresh_prod(lane))
			return -EBADMSG;
		prod = rx->peer_prod;
		avail = ring_off_dist(cons, prod);
		if (avail > lane->peer_bytes)
			return -EBADMSG;
		if (!avail || rx->frozen)
			return RX_VIA_WAIT;
		ret_plan->limit = want < avail ? want : avail;
		ret_plan->spans = ring_range(lane->peer_bytes, cons, ret_plan->limit);
		return RX_VIA_RING;
	default:
		ret_plan->limit = RX_NO_LIMIT;
		return RX_VIA_TCP;
	}
}

int lane_rx_tail(struct lane *lane, struct tcp_count consumed, uint64_t want,
		 struct lane_plan *ret_plan)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;

	if (rx->phase != RX_TAIL || tcp_count_lt(rx->start, consumed))
		return -EBADMSG;
	/* The lock is held, so no read runs, and from here on none passes tx_start: the peer may
	 * put bytes on TCP behind the ring. */
	if (!atomic_load(&lane->own->rx_seen)) {
		own_announce(lane->own, &lane->own->rx_seen, 1);
		wake_due_state(&rx->wake);
	}
	if (!tcp_count_eq(consumed, rx->start)) {
		ret_plan->limit = tcp_count_dist(consumed, rx->start);
		return RX_VIA_TCP;
	}
	rx->phase = RX_RING;
	/* Siblings that found nothing on TCP are to look at the ring. */
	own_touch(lane->own);
	wake_due_state(&rx->wake);
	return lane_rx_route(lane, want, ret_plan);
}

/* Give the room of all that was consumed back. */
static void rx_publish(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;

	/* Behind the last read of it; and before arm is looked at. */
	atomic_store(&lane->own->cons, rx->cons.v);
	rx->wake.due_peer |= WAKE_SPACE;
}

/* Whether room is to be given back now: there is much of it, or no more is coming soon, or somebody
 * waits for it. */
static bool rx_publish_is_due(const struct lane *lane)
{
	const typeof(lane->st->rx) *rx = &lane->st->rx;
	uint64_t told = atomic_load_explicit(&lane->own->cons, memory_order_relaxed);

	return ring_off_eq(rx->cons, rx->peer_prod) ||
	       rx->cons.v - told >= lane->peer_bytes / RX_ROOM_PARTS ||
	       atomic_load(&lane->peer->arm_space) != rx->wake.rung_peer.space;
}

void lane_rx_consume(struct lane *lane, uint64_t len)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;

	sizes_count(lane->own->taken, len);
	/* One store: whoever dies behind it has consumed, whoever dies before it has not. */
	rx->cons = ring_off_add(rx->cons, len);
	if (rx_publish_is_due(lane))
		rx_publish(lane);
}

int lane_rx_eof(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;
	uint32_t before = rx->phase;

	/* TCP was looked at first, the words only now: what the peer announced before its FIN is
	 * visible here. */
	if (lane_rx_settle(lane))
		return -EBADMSG;
	if (rx->phase != before || (rx->phase == RX_TCP && rx->peer_tx_start != OPT_NONE))
		return LANE_EOF_NOT_YET;
	if (rx->phase == RX_RING) {
		if (peer_refresh_prod(lane))
			return -EBADMSG;
		if (!ring_off_eq(rx->cons, rx->peer_prod)) {
			/* The peer can answer a hand-over no more, but with its end. */
			rx->frozen = 0;
			own_touch(lane->own);
			wake_due_state(&rx->wake);
			return LANE_EOF_NOT_YET;
		}
		if (lane->remote)
			return LANE_EOF_WAIT;
	} else if (atomic_load(&lane->peer->shut)) {
		return LANE_EOF_TCP;
	}
	/* A FIN that nobody announced: the peer was killed. Bytes that it left in our ring would
	 * have made its kernel reset the connection. Between hosts its daemon sees to that. */
	if (!lane->remote && atomic_load(&lane->peer->cons) != lane_owed(lane).v)
		return LANE_EOF_RESET;
	return rx->phase == RX_RING ? LANE_EOF_KILLED : LANE_EOF_TCP;
}

int lane_rx_stop(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;

	if (lane_rx_settle(lane))
		return -EBADMSG;
	if (rx->phase == RX_ENDED)
		return 1;
	if (atomic_load(&lane->own->rx_stop) == OPT_NONE) {
		rx->frozen = 1;
		rx_publish(lane);
		own_announce(lane->own, &lane->own->rx_stop, opt_some(rx->cons.v));
		wake_due_state(&rx->wake);
	}
	return lane_rx_stop_poll(lane);
}

int lane_rx_stop_poll(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;

	if (lane_rx_settle(lane))
		return -EBADMSG;
	if (rx->phase == RX_ENDED)
		return 1;
	return rx->frozen ? 0 : -EAGAIN;
}

int lane_rx_resume(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;

	if (lane_rx_settle(lane))
		return -EBADMSG;
	if (rx->frozen) {
		/* Partner: lane_tx_stop() of the peer. Its answer is found now or never counts. */
		own_announce(lane->own, &lane->own->rx_resume, RESUME_ASKED);
		if (lane_rx_settle(lane))
			return -EBADMSG;
	}
	if (atomic_load(&lane->own->rx_resume) == RESUME_ASKED) {
		own_announce(lane->own, &lane->own->rx_resume,
			     rx->phase == RX_ENDED ? RESUME_VOID : RESUME_DONE);
		wake_due_state(&rx->wake);
		rx->frozen = 0;
	}
	return rx->phase == RX_ENDED;
}

void lane_rx_recover(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;

	/* The state's word is ahead of what the peer was told, if not forged. */
	if (rx->cons.v < atomic_load(&lane->own->cons))
		rx->cons = ring_off(atomic_load(&lane->own->cons));
	rx_publish(lane);
	rx->rx_ready = atomic_load(&lane->own->rx_ready) != 0;
	rx->frozen = atomic_load(&lane->own->rx_stop) != OPT_NONE &&
		     atomic_load(&lane->own->rx_resume) != RESUME_DONE;
	/* All but the last phase follow from the words and the TCP count. */
	if (rx->phase != RX_ENDED)
		rx->phase = RX_TCP;
	/* A word may have been stored without the count that tells of it. */
	own_touch(lane->own);
	wake_due_state(&rx->wake);
	rx->peer_seq = 0;
	/* The peer may wait for a decision. A fault is for the next call to find. */
	if (atomic_load(&lane->own->rx_resume) == RESUME_ASKED)
		(void)lane_rx_resume(lane);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "client/ready.h"
#include "client/remote.h"
#include "client/turn.h"
#include "os/syswait.h"
#include "os/tcp.h"

#define READY_IN (POLLIN | POLLRDNORM)
#define READY_OUT (POLLOUT | POLLWRNORM)
/* A ring is writable when a quarter of it is free. Chosen: TCP asks for a third of its buffer; a
 * writer that is woken for a few bytes would only be woken again. */
#define READY_SPACE_SHARE 4

/* What TCP has to say of its end. */
static short tcp_end(const struct sock *sock)
{
	struct pollfd tcp = {.fd = sock->fd, .events = POLLRDHUP};

	return sys_poll(&tcp, 1, 0) > 0 ? tcp.revents : 0;
}

/*
 * The route of the own direction. Between hosts a FIN ends the segment, and is nothing to wait for
 * behind it: what is waited for then is the daemons' word. Transmit lock.
 */
static int route_tx(struct sock *sock, struct lane_plan *ret_plan)
{
	struct lane *lane = &sock->lane;
	int route = lane_tx_route(lane, lane->own_bytes, ret_plan);

	if (route != TX_VIA_WAIT || !lane->remote || lane->st->tx.fin || !tcp_end(sock))
		return route;
	lane_tx_fin(lane);
	return lane_tx_route(lane, lane->own_bytes, ret_plan);
}

/* Transmit lock. */
static void look_tx(struct sock *sock, struct ready *ready)
{
	struct lane_plan plan;

	switch (route_tx(sock, &plan)) {
	case TX_VIA_RING:
		if (plan.limit >= sock->lane.own_bytes / READY_SPACE_SHARE) {
			ready->now |= READY_OUT;
			return;
		}
		break;
	case TX_VIA_WAIT:
		if (sock->lane.remote && atomic_load(&sock->sh->tx_shut)) {
			ready->now |= READY_OUT; /* a write fails at once */
			return;
		}
		break;
	default: /* TCP takes the next byte, or says what is wrong */
		ready->ask |= READY_OUT;
		return;
	}
	ready->kinds |= WAKE_SPACE;
	if (sock->sh->lane.rx.phase != RX_ENDED && !(sock->lane.remote && sock->sh->lane.tx.fin))
		ready->ask |= POLLRDHUP;
}

/* The ring of another host is empty: has the stream ended? Receive lock. */
static void look_end(struct sock *sock, struct ready *ready)
{
	short tcp = tcp_end(sock);

	ready->ring = true;
	ready->ask |= POLLRDHUP;
	if (!tcp)
		return;
	if (lane_rx_eof(&sock->lane) == LANE_EOF_WAIT && !(tcp & POLLERR))
		ready->fin = true;
	else
		ready->now |= READY_IN; /* bytes, the end, or an error: the call will find it */
}

/* Receive lock. */
static void look_rx(struct sock *sock, struct ready *ready)
{
	struct lane_plan plan;
	uint64_t consumed;
	int route = lane_rx_route(&sock->lane, 1, &plan);

	if (route == RX_VIA_COUNT && turn_consumed(sock, &consumed) == 0)
		route = lane_rx_tail(&sock->lane, tcp_count(consumed), 1, &plan);
	ready->kinds |= WAKE_DATA;
	if (route == RX_VIA_RING || atomic_load(&sock->sh->rx_shut))
		ready->now |= READY_IN;
	else if (route == RX_VIA_WAIT && sock->lane.remote)
		look_end(sock, ready);
	else if (route == RX_VIA_WAIT)
		ready->ask |= POLLRDHUP;
	else
		ready->ask |= READY_IN;
}

void ready_look(struct sock *sock, short events, bool hold, struct ready *ret_ready)
{
	struct ready ready = {0};
	bool on_lane, due = false;

	do {
		if (due)
			sock_turn(sock);
		ready = (struct ready){0};
		sock_lock_tx(sock);
		sock_lock_rx(sock);
		on_lane = sock->lane.peer && stage_on_lane(sock_stage(sock));
		if (on_lane) {
			ready.mark = wake_mark(sock->lane.own, sock->lane.peer);
			if (events & READY_OUT)
				look_tx(sock, &ready);
			if (events & READY_IN)
				look_rx(sock, &ready);
			remote_watch(sock);
			due = !due && (turn_due_tx(sock) || turn_due_rx(sock));
			sock_ring(sock, &sock->sh->lane.tx.wake);
			sock_ring(sock, &sock->sh->lane.rx.wake);
			if (hold && !due) {
				atomic_fetch_add(&sock->waiters, 1);
				ready.held = true;
			}
		}
		sock_unlock_rx(sock);
		sock_unlock_tx(sock);
	} while (on_lane && due);
	ready.gen = atomic_load(&sock->gen);
	if (!on_lane && hold && (events & READY_IN)) {
		ready.counted = sock_tcp_wait_begin(sock);
		if (!ready.counted) { /* since just now */
			ready_look(sock, events, hold, ret_ready);
			return;
		}
	}
	if (on_lane) {
		ready.now &= events;
		if (sock->lane.remote && atomic_load(&sock->sh->tx_shut) &&
		    atomic_load(&sock->sh->rx_shut))
			ready.now |= POLLHUP; /* TCP may not be shut yet */
		ready.ask |= events & ~(READY_IN | READY_OUT);
		if (ready.fin) /* nothing but the ring's end makes that news */
			ready.ask &= ~POLLRDHUP;
		ready.kinds |= WAKE_DATA; /* a change of state is told to both kinds */
	} else {
		ready.ask = events;
	}
	*ret_ready = ready;
}

short ready_merge(struct sock *sock, short events, const struct ready *ready, short tcp)
{
	struct pollfd fd = {.fd = sock->fd, .events = events};

	if (!ready->kinds)
		return tcp;
	if (tcp & (POLLHUP | POLLERR | POLLNVAL)) {
		/* Nothing more will come: the kernel's own answer is the right one, except that
		 * bytes in the ring are still to be read. */
		sys_poll(&fd, 1, 0);
		return (short)(fd.revents | ready->now);
	}
	/* Behind a FIN there is something to read: ring bytes, or the end of the stream. Between
	 * hosts the next look says which. */
	if (ready->ring)
		tcp &= ~POLLRDHUP;
	else if (tcp & POLLRDHUP)
		tcp |= events & READY_IN;
	return (short)(ready->now | (tcp & events));
}

bool ready_moved(const struct sock *sock, const struct ready *ready)
{
	return ready->held &&
	       !wake_may_sleep(sock->lane.own, sock->lane.peer, ready->kinds, &ready->mark);
}

bool ready_arm(struct sock *sock, const struct ready *ready)
{
	if (!ready->held)
		return true;
	wake_arm(sock->lane.own, ready->kinds);
	return !ready_moved(sock, ready);
}

void ready_release(struct sock *sock, struct ready *ready)
{
	if (ready->held)
		atomic_fetch_sub(&sock->waiters, 1);
	if (ready->counted)
		sock_tcp_wait_end(sock, ready->gen);
	ready->held = ready->counted = false;
}

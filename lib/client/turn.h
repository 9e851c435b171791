/* SPDX-License-Identifier: MIT */
#pragma once

#include "client/sock.h"

/*
 * A turn: what a side does for its lane besides moving the bytes that a call is about. Publish
 * rx_ready, start the own direction, see the peer's start and end, send a backlog, notice that the
 * epoch is over. Nobody waits for it; each call of the program makes one when something is due.
 */

/* Whether a turn is due. Either lock. */
static inline bool turn_due(const struct sock *sock)
{
	return atomic_load_explicit(&sock->lane.peer->state_seq, memory_order_acquire) !=
		       atomic_load_explicit(&sock->turn_seq, memory_order_relaxed) ||
	       atomic_load_explicit(&sock->sh->ended, memory_order_relaxed) == SOCK_BOTH_ENDED;
}

/*
 * The same behind an operation, which may have ended its direction: after the other one, so that
 * the epoch may be over, which no word of the peer's tells. Transmit lock, receive lock.
 */
static inline bool turn_due_tx(struct sock *sock)
{
	if (sock->sh->lane.tx.phase == TX_ENDED)
		atomic_fetch_or(&sock->sh->ended, SOCK_TX_ENDED);
	return turn_due(sock);
}

static inline bool turn_due_rx(struct sock *sock)
{
	if (sock->sh->lane.rx.phase == RX_ENDED)
		atomic_fetch_or(&sock->sh->ended, SOCK_RX_ENDED);
	return turn_due(sock);
}

/* Make a turn. Takes both locks; none may be held. Returns 0, or -EBADMSG after a reset. */
int sock_turn(struct sock *sock);

/* The receive direction's part of a turn. Receive lock. 0 or -EBADMSG. */
int turn_rx(struct sock *sock);

/* In TX_VIA_START: try to start. Transmit lock. False: put off, bytes go over TCP. */
bool turn_start(struct sock *sock);

/*
 * Do what @route, TX_VIA_STOP or TX_VIA_BACKLOG, asks for, without blocking. Transmit lock. 0: ask
 * for the route again; -EAGAIN: TCP takes no more now; or the error of the send, or -EBADMSG.
 */
int turn_backlog(struct sock *sock, int route);

/*
 * In RX_VIA_COUNT: the TCP bytes consumed so far, also when the kernel does not say any more
 * because the connection is closed with bytes unread. Receive lock. 0 or -EAGAIN: try again.
 */
int turn_consumed(struct sock *sock, uint64_t *ret_count);

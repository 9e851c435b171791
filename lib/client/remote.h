/* SPDX-License-Identifier: MIT */
#pragma once

#include "client/sock.h"

/*
 * The library's part of a lane between hosts. The halves are the same as on one host, but the
 * peer's is written by the local daemon, which carries words and bytes to and fro and keeps a
 * duplicate of the TCP socket. What follows from that:
 *
 *  - A FIN must not overtake the ring, and a shut socket can't replay: the library shuts TCP only
 *    when the daemon has vouched for all of the ring, else the daemon does.
 *  - While bytes are in the ring, SO_LINGER is {1, 0} (demote_guard()): if program and daemon die
 *    together, the peer is to see a reset, not the clean end of a short stream.
 *  - A lane that is lost, or has no daemon, stands still. It is waited for, at most
 *    resume_timeout_s, then the connection is reset.
 */

/* Whether the daemon that we have a session with knows the lane of @sock and keeps a duplicate of
 * its socket. Any thread, no lock. */
bool remote_is_held(const struct sock *sock);

/*
 * The own direction is on TCP by its route: the linger guard goes, and a shutdown that the program
 * has asked for is carried out. Transmit lock. No-op on a lane within one host.
 */
void remote_tx_over(struct sock *sock);

/*
 * shutdown(2) of the program on a running lane, behind lane_tx_close() unless @how is SHUT_RD. Both
 * locks. 0, or -ENOTCONN as the kernel says it.
 */
int remote_shutdown(struct sock *sock, int how);

/*
 * The last holder is about to close: let the ring be known to a daemon that goes on with it. Waits
 * at most demote_wait_ms for one, when there is none; if none comes, the close is a reset. No lock
 * may be held.
 */
void remote_close_wait(struct sock *sock);

/*
 * The last holder closes, behind lane_close(), with bytes of the peer @unread. Both locks.
 */
void remote_close(struct sock *sock, bool unread);

/*
 * Note whether the lane of @sock stands still, by an operation or a wait on it. A lock of the
 * socket's, or the session's lock.
 */
void remote_note(struct sock *sock);

static inline void remote_watch(struct sock *sock)
{
	if (sock->lane.remote)
		remote_note(sock);
}

/* Longest time to sleep in one go, as far as lanes between hosts are concerned: UINT64_MAX if all
 * are well. */
uint64_t remote_sleep_ns(void);

/* Reset the connections whose lanes have stood still for too long. Before each sleep; no lock may
 * be held. A load or two, if all are well. */
void remote_check(void);

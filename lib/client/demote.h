/* SPDX-License-Identifier: MIT */
#pragma once

#include "client/sock.h"

/*
 * The ways back to TCP. None of these may be called with one of the socket's locks held, except
 * where "_locked" says that both are; all but demote_leave() may wait, at most demote_wait_ms.
 */

/* Ask both directions to end, for @reason. Each goes on over TCP as soon as its reader allows it;
 * nothing waits. */
void demote_leave(struct sock *sock, enum reason reason);

/* Never promote again, for @reason, and leave a lane that there is. */
void demote_pin(struct sock *sock, enum reason reason);

/*
 * Bring the own direction to TCP and wait until it is there, so that a call which the ring cannot
 * serve can be made on the TCP socket. Pins. 0, or -ETIMEDOUT.
 */
int demote_tx_wait(struct sock *sock, enum reason reason);

/* demote_tx_wait() with the reason that MSG_… @flags stand for. */
int demote_unserved(struct sock *sock, int flags);

/*
 * Hand the socket over to somebody who does not know the ring: both directions on TCP. Pins.
 * 0; -ETIMEDOUT, -EBUSY if the peer has gone on behind the ring already: the lane then stays.
 */
int demote_handover(struct sock *sock, enum reason reason);

/* The lane is corrupt, or lost for good: reset the connection, keep the process. */
void demote_reset(struct sock *sock, enum reason reason);
void demote_reset_locked(struct sock *sock, enum reason reason);

/*
 * While bytes of the ring wait to go to TCP, or are on their way between hosts (@on), a death must
 * reach the peer as a reset, never as the clean end of a short stream: SO_LINGER is {1, 0}, and the
 * program's own value is kept aside. Transmit lock. Whether it is so.
 */
bool demote_guard(struct sock *sock, bool on);

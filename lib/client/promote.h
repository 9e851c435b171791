/* SPDX-License-Identifier: MIT */
#pragma once

#include "client/sock.h"
#include "core/ctl.h"
#include "os/fd.h"

/*
 * From TCP to a lane: registration with the daemon, and what its messages do to a socket.
 *
 *      promote_try ── REGISTER + fd ──> daemon finds the other end
 *      PAIR: map the own half, keep the bells, say MAPPED
 *      PEER: map the peer's half, lane_begin(): from here on the lane switch decides
 *
 * Functions marked "session lock" are called with it held, and take the socket's locks themselves.
 */

/* Register @sock if it is time and nothing speaks against it. */
void promote_try(struct sock *sock);

/* A lane has ended: the next one waits, and longer if this one was short. Both locks. */
void promote_put_off(struct sock *sock);

/* Handle one message about a connection. Descriptors that are kept are taken out of @bag. Session
 * lock. */
void promote_message(const struct ctl_msg *msg, struct fd_bag *bag);

/*
 * Most registrations under way at the same time. Chosen: for each the daemon may send three
 * messages, which wait while the program makes no call; it cuts off a client for which 256 wait.
 */
#define PROMOTE_PENDING_MAX 64u

/*
 * A session is open: tell the daemon of the lanes that live already, beginning with the socket at
 * index @from. Returns where to go on when the daemon has read some, or PROMOTE_ADOPTED. Session
 * lock.
 */
#define PROMOTE_ADOPTED UINT32_MAX
uint32_t promote_adopt(uint32_t from);

/* The session is gone: registrations go with it, lanes stay, and whoever sleeps on one is woken.
 * Returns 1 if there are lanes. Session lock. */
int promote_session_lost(void);

/* Take back a registration that is under way, for @reason. Session lock. */
void promote_cancel(struct sock *sock, enum reason reason);

/* Tell the daemon what became of @sock, if it has not been told: an epoch ended, a state changed.
 * Takes the session lock. */
void promote_report(struct sock *sock);

/* The last descriptor is closing. Session lock. */
void promote_closed(struct sock *sock);

/* The name under which the daemon knows the socket. */
static inline uint64_t promote_token(const struct sock *sock)
{
	return (uint64_t)(atomic_load(&sock->gen) + 1) << 32 | sock->index;
}

static inline struct sock *promote_find(uint64_t token)
{
	return token >> 32 ? sock_find((uint32_t)token, (uint32_t)(token >> 32) - 1) : NULL;
}

/* Unmap the halves and close the bells, if nobody reads them without a lock. Both locks. False:
 * not now. */
bool promote_unmap(struct sock *sock);

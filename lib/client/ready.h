/* SPDX-License-Identifier: MIT */
#pragma once

#include <poll.h>

#include "client/sock.h"

/*
 * Whether a socket is readable or writable, wherever its bytes go at the moment. Part of the answer
 * is the lane's, part is TCP's; the caller asks the kernel for the latter, for many sockets at
 * once.
 */
struct ready {
	short now;	    /* POLL… bits that hold according to the lane */
	short ask;	    /* bits to ask the kernel about; errors and hang-ups always count */
	unsigned int kinds; /* wake_kinds to arm before sleeping; 0: the lane has no part in it */
	bool held;	    /* the halves stay mapped until ready_release() */
	bool counted;	    /* no byte comes by a ring until ready_release() */
	bool ring;	    /* between hosts: the ring is empty, and says itself when it ends */
	bool fin;	    /* … and TCP has ended before it has */
	uint32_t gen;
	struct wake_mark mark;
};

/*
 * Look at @sock for @events (POLL… bits). Makes a turn if one is due. With @hold, and if the socket
 * is on a lane, the halves stay mapped until ready_release(), so that ready_arm() can be used; if
 * it is not, no byte comes by a ring until then, so that the caller may sleep on TCP alone.
 */
void ready_look(struct sock *sock, short events, bool hold, struct ready *ret_ready);

/*
 * What the program is to be shown for @events, given what ready_look() found and the kernel's
 * answer @tcp to `ask`. Asks the kernel again if the connection was reset or hung up.
 */
short ready_merge(struct sock *sock, short events, const struct ready *ready, short tcp);

/* Announce that someone will sleep for what was not ready. True if nothing changed since the look:
 * sleeping is safe. */
bool ready_arm(struct sock *sock, const struct ready *ready);

/* Whether anything changed since the look; for spinning. */
bool ready_moved(const struct sock *sock, const struct ready *ready);

void ready_release(struct sock *sock, struct ready *ready);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <poll.h>
#include <signal.h>

#include "client/signal.h"
#include "client/sock.h"

/*
 * Waiting for the other end: spin for a while if that has paid on this connection, then sleep on
 * everything that can end the wait: the bell, the TCP socket, and while a lane is being set up the
 * daemon's messages.
 */
struct wait_for {
	unsigned int kinds;    /* wake_kinds of the lane; 0: no lane is mapped */
	struct wake_mark mark; /* taken before the attempt that found nothing */
	short tcp_events;      /* POLL… on the TCP socket; errors and hang-ups always count */
	bool spin;	       /* on the ring, by a caller that would block */
	bool more;	/* out of a receive: the stream goes on in another place behind this */
	bool tcp_moved; /* out: TCP has something to tell; the next attempt must look there */
};

#define WAIT_FOREVER UINT64_MAX

/* Longest sleep on a lane while no daemon watches over dying processes: one that dies between a
 * store and the bell, in a side that lives on, is noticed by nobody else. */
#define SLEEP_ALONE_NS 1000000000u

/*
 * Under the direction's lock, before leaving it to wait for a lane: the halves stay mapped until
 * sock_wait() returns.
 */
static inline void wait_enter(struct sock *sock, struct wait_for *wait, unsigned int kinds,
			      short tcp_events, bool spin)
{
	atomic_fetch_add(&sock->waiters, 1);
	wait->kinds = kinds;
	wait->tcp_events = tcp_events;
	wait->spin = spin;
}

/* Undo wait_enter() without waiting. */
static inline void wait_leave(struct sock *sock, struct wait_for *wait)
{
	if (wait->kinds)
		atomic_fetch_sub(&sock->waiters, 1);
	wait->kinds = 0;
}

/*
 * Wait until something may have changed, or until @deadline_ns of clock_now_ns(). Returns 0 (try
 * again; may be spurious), -EAGAIN at the deadline, -EINTR after a signal, -EBADF if the socket was
 * closed meanwhile. No lock may be held. @since: the begin of the call that waits; a handler that
 * has run since then counts as a signal that came in the wait.
 */
int sock_wait(struct sock *sock, struct wait_for *wait, uint64_t deadline_ns,
	      const struct signal_mark *since);

/*
 * For waits on several sockets at once. wait_epoll(): the thread's epoll, watching nothing but the
 * kick, or -1 if there is no descriptor for one. wait_take_edges() returns whether the kick was
 * among them, in this call or an earlier one: then do not sleep, and call wait_attend() when no
 * socket is held. wait_attend() reads what the daemon has sent, if there was a kick.
 */
int wait_epoll(void);
void wait_watch_add(int epfd, int bell);
void wait_watch_remove(int epfd, int bell);
bool wait_take_edges(int epfd);
void wait_attend(void);

/*
 * The sleep itself (L_SLEEP): ppoll(2) on @fds for at most @left_ns (UINT64_MAX: for ever), or for
 * a shorter time where a bell cannot be relied on. @lane: whether bells matter. @epfd: the thread's
 * epoll, one of @fds, whose edge is taken. @since as above. As ppoll(2); 0 does not mean that the
 * time is up.
 */
struct wait_sleep {
	bool lane;
	int epfd;
	uint64_t left_ns;
	const sigset_t *mask;
	const struct signal_mark *since;
};
int wait_ppoll(struct pollfd *fds, unsigned int n, const struct wait_sleep *sleep);

/* At the start, and in a forked child. */
void wait_init(void);
void wait_forked(void);

/* In a child that goes on with its parent's memory as it was, to make one wait: what the daemon has
 * to say is for the parent. */
void wait_apart(void);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/ctl.h"
#include "core/notice.h"
#include "core/policy.h"
#include "os/fd.h"

/*
 * This process's session with its daemon: a SEQPACKET socket that is read when the library is
 * called or one of its waits returns. There is no thread. Without a daemon everything is plain TCP,
 * and one that appears is found at the next attempt.
 *
 * A session belongs to one process: a forked child opens its own. All functions but those that say
 * otherwise take the session's lock themselves; the lock comes before every socket's.
 */

/* How the daemon wants things done; defaults until it has said so. */
struct session_settings {
	_Atomic uint32_t promote_after, backoff_min_ms, backoff_max_ms;
	_Atomic uint32_t spin_us;
	_Atomic uint32_t demote_wait_ms;
	_Atomic uint32_t resume_timeout_s;
};

/* What the fast path looks at, one cache line that hardly ever changes. */
struct session_view {
	_Atomic(const struct notice_page *) page; /* NULL: no session */
	_Atomic uint32_t slot;
	_Atomic uint32_t lost; /* lanes run and no daemon knows of them */
	_Atomic uint64_t mail_seen;
	_Atomic uint64_t next_try_ns; /* no attempt to connect before */
	_Atomic uint32_t adopt_next;  /* index of the next lane to tell of, or PROMOTE_ADOPTED */
	_Atomic uint64_t adopt_last;  /* token of the last one told of, until answered; else 0 */
	_Atomic uint32_t serial;      /* of the session; moves with each WELCOME */
};

extern struct session_view session_view;
extern struct session_settings session_settings;

static inline struct policy session_policy(void)
{
	return (struct policy){
		.promote_after = session_settings.promote_after,
		.backoff_min_ms = session_settings.backoff_min_ms,
		.backoff_max_ms = session_settings.backoff_max_ms,
	};
}

/* Count an operation on TCP; true when it is time to ask for a lane. */
static inline bool session_count(struct policy_state *state)
{
	const struct policy policy = {.promote_after = session_settings.promote_after};

	return policy_count(&policy, state);
}

/* Whether session_poll() has something to do: a few loads. */
static inline bool session_calls(void)
{
	const struct notice_page *page =
		atomic_load_explicit(&session_view.page, memory_order_acquire);

	if (!page)
		return atomic_load_explicit(&session_view.lost, memory_order_relaxed);
	return notice_mail(page, atomic_load_explicit(&session_view.slot, memory_order_relaxed)) !=
		       atomic_load_explicit(&session_view.mail_seen, memory_order_relaxed) ||
	       !notice_alive(page);
}

/* Note where a daemon may be found; reads the environment, so once, at the start. */
void session_init(void);

/*
 * Read and handle what the daemon has sent; connect again if it went away and it is time. Never
 * blocks. Does nothing if another thread is at it.
 */
void session_poll(void);

/*
 * For a sleeper that took an edge of the kick: handle all that the daemon has sent, however long
 * that takes. @hung_up: the serial of a kick that has hung up, so that its session is over; else 0.
 * May wait for another thread that is at it. No lock may be held, nor a socket's mapping.
 */
void session_attend(uint32_t hung_up);

/*
 * Whether a sleeper on a lane that watches the kick of serial @watched may sleep for as long as it
 * likes: a daemon knows of our lanes, watches over those who could have to wake us, and will kick.
 * To be asked before the sleep is announced (L_ARM); if it ends to be true afterwards, the bells of
 * all lanes are rung.
 */
bool session_covers(uint32_t watched);

/* Make sure of a session: 0 if there is one, -EAGAIN if it is being set up or not time to try. */
int session_ensure(void);

/* Send @msg with descriptor @fd (-1: none). 0, -EAGAIN if the daemon does not read, or -ENOTCONN.
 * The session's lock must be held. */
int session_send_locked(const struct ctl_msg *msg, int fd);
int session_send_fds_locked(const struct ctl_msg *msg, const int *fds, size_t n_fds);

/* The same for callers without the lock. */
int session_send(const struct ctl_msg *msg, int fd);

/* The descriptor to watch for POLLIN while a daemon's message is due, or -1. */
int session_fd(void);

/* Drop the session: the daemon learns by it that what it knows of this process is out of date. */
void session_drop_locked(void);

void session_lock(void);
void session_unlock(void);

/* In a forked child: forget the parent's session. The lock was taken before the fork. */
void session_forked(void);

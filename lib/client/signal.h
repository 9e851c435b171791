/* SPDX-License-Identifier: MIT */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "os/syswait.h"

/*
 * The program's signal handlers and the library's own work in the same thread.
 *
 * The kernel calls signal_deliver() instead of a handler. In a short section (a lock of a socket is
 * held) it puts the signal off to the end of the section, since the handler may use the same
 * socket: it notes the one signal, lets the interrupted code go on with all others blocked, and
 * section_leave() queues it again with its siginfo and gives the mask back. Everywhere else the
 * handler runs at once, and what a wait of the library must know is counted: a handler that came
 * just before the kernel was asked to wait must end the wait as one that comes in the middle of it.
 *
 * Faults of the instruction itself are never put off.
 */
struct signal_local {
	uint32_t depth;			   /* of short sections */
	uint32_t handled;		   /* handlers that have run in this thread */
	uint32_t interrupting;		   /* those of them that do not restart calls */
	volatile sig_atomic_t put_off;	   /* a signal waits for the end of the section */
	volatile struct timespec *timeout; /* of the wait that is about to begin */
	uint64_t mask;			   /* of the interrupted code, while put_off */
	siginfo_t info;
};

extern __thread struct signal_local signal_local __attribute__((tls_model("initial-exec")));

/* The end of a section in which a signal was put off. */
void signal_resume(void);

static inline void section_enter(void)
{
	signal_local.depth++;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void section_leave(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	signal_local.depth--;
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(signal_local.put_off, 0) && !signal_local.depth)
		signal_resume();
}

/* What has happened up to now: to be taken at the begin of a call that may wait. */
struct signal_mark {
	uint32_t handled, interrupting;
};

static inline struct signal_mark signal_mark(void)
{
	return (struct signal_mark){signal_local.handled, signal_local.interrupting};
}

/*
 * Whether a call that was interrupted since @mark goes on, as the kernel would restart it: true
 * unless a handler without SA_RESTART has run. Calls that never restart (poll, select, epoll_wait,
 * and reads and writes with a time limit) do not ask.
 */
static inline bool signal_restarts(const struct signal_mark *mark)
{
	return signal_local.interrupting == mark->interrupting;
}

/*
 * ppoll(2) and epoll_pwait2(2) that end with -EINTR if a handler has run since @mark, even before
 * the kernel is there. @timeout NULL: for ever. Result or -errno. Cancellation points.
 */
int signal_ppoll(struct pollfd *fds, unsigned int n, const struct timespec *timeout,
		 const sigset_t *mask, const struct signal_mark *mark);
int signal_epoll_pwait2(int ep, struct epoll_event *ret_events, int n,
			const struct timespec *timeout, const sigset_t *mask,
			const struct signal_mark *mark);

/* In a forked child: @depth sections are open, and what was put off is the parent's. */
void signal_forked(uint32_t depth);

typedef int (*signal_action_fn)(int sig, const struct sigaction *act, struct sigaction *old);

/* The program's signals are served by signal_action(): have faults in the library's own copies come
 * back to it. Any number of times. @real: libc's sigaction(). */
void signal_guard_faults(signal_action_fn real);

/*
 * sigaction(2) of the program, done with libc's @real. @foreign: by a child of vfork(), whose
 * handlers are its own while this table is its parent's. 0 or -errno.
 */
int signal_action(int sig, const struct sigaction *act, struct sigaction *old,
		  signal_action_fn real, bool foreign);

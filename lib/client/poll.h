/* SPDX-License-Identifier: MIT */
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/select.h>
#include <time.h>

/*
 * poll(2) and select(2) over any descriptors, tracked sockets among them. A call without a socket
 * that is on a lane, or about to be, is the kernel's call and nothing else.
 */

/* ppoll(2): a count or -errno. @timeout NULL waits for ever. @mask NULL keeps the signal mask. */
int poll_call(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);

/* pselect(2): a count or -errno. The timeout is not written back. */
int select_call(int n, fd_set *rd, fd_set *wr, fd_set *ex, const struct timespec *timeout,
		const sigset_t *mask);

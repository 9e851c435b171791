/* SPDX-License-Identifier: MIT */
#pragma once

#include <signal.h>
#include <sys/epoll.h>
#include <time.h>

/*
 * epoll over any descriptors, tracked sockets among them. A set without a tracked socket that has a
 * lane is the kernel's alone. See client/epset.h for how the others work.
 */

/* epoll_ctl(2): 0 or -errno. */
int epoll_ctl_call(int ep, int op, int fd, struct epoll_event *event);

/* epoll_pwait2(2): a count or -errno. @timeout NULL waits for ever. */
int epoll_wait_call(int ep, struct epoll_event *events, int max, const struct timespec *timeout,
		    const sigset_t *mask);

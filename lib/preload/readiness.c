/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "client/epoll.h"
#include "client/epset.h"
#include "client/fdtable.h"
#include "client/poll.h"
#include "os/clock.h"
#include "os/syswait.h"
#include "preload/calls.h"
#include "client/cancel.h"

/* poll, select and epoll. */

/* A time limit in the form of ppoll(2); NULL for ever. */
static const struct timespec *from_ms(int ms, struct timespec *ret_timeout)
{
	if (ms < 0)
		return NULL;
	*ret_timeout = (struct timespec){ms / 1000, ms % 1000 * 1000000L};
	return ret_timeout;
}

long call_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	if (!fdtable_top())
		return CANCELLABLE(sys_ppoll(fds, (unsigned int)n, timeout, mask));
	return poll_call(fds, n, timeout, mask);
}

long call_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct timespec timeout;

	return call_ppoll(fds, n, from_ms(timeout_ms, &timeout), NULL);
}

long call_poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t room)
{
	if (room / sizeof(*fds) < n)
		abort();
	return call_poll(fds, n, timeout_ms);
}

long call_ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		    const sigset_t *mask, size_t room)
{
	if (room / sizeof(*fds) < n)
		abort();
	return call_ppoll(fds, n, timeout, mask);
}

long call_pselect(int n, fd_set *rd, fd_set *wr, fd_set *ex, const struct timespec *timeout,
		  const sigset_t *mask)
{
	if (!fdtable_top())
		return CANCELLABLE(sys_pselect6(n, rd, wr, ex, timeout, mask));
	return select_call(n, rd, wr, ex, timeout, mask);
}

/* select(2) of Linux writes back what is left of the time. */
long call_select(int n, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	struct timespec limit;
	uint64_t begin, spent, all;
	long rc;

	if (!timeout)
		return call_pselect(n, rd, wr, ex, NULL, NULL);
	if (timeout->tv_sec < 0 || timeout->tv_usec < 0)
		return -EINVAL;
	limit.tv_sec = timeout->tv_sec + timeout->tv_usec / 1000000;
	limit.tv_nsec = timeout->tv_usec % 1000000 * 1000;
	begin = clock_now_ns();
	rc = call_pselect(n, rd, wr, ex, &limit, NULL);
	spent = (clock_now_ns() - begin) / 1000u;
	if (limit.tv_sec > INT32_MAX)
		return rc;
	all = (uint64_t)limit.tv_sec * 1000000u + (uint64_t)limit.tv_nsec / 1000u;
	all = spent < all && rc ? all - spent : 0;
	timeout->tv_sec = (time_t)(all / 1000000u);
	timeout->tv_usec = (suseconds_t)(all % 1000000u);
	return rc;
}

long call_epoll_create(int size)
{
	return size > 0 ? sys_epoll_create1(0) : -EINVAL;
}

long call_epoll_create1(int flags)
{
	return sys_epoll_create1(flags);
}

long call_epoll_ctl(int ep, int op, int fd, struct epoll_event *event)
{
	return epoll_ctl_call(ep, op, fd, event);
}

long call_epoll_pwait2(int ep, struct epoll_event *events, int max, const struct timespec *timeout,
		       const sigset_t *mask)
{
	if (!epset_get(ep))
		return CANCELLABLE(sys_epoll_pwait2(ep, events, max, timeout, mask));
	return epoll_wait_call(ep, events, max, timeout, mask);
}

long call_epoll_pwait(int ep, struct epoll_event *events, int max, int timeout_ms,
		      const sigset_t *mask)
{
	struct timespec timeout;

	if (!epset_get(ep))
		return CANCELLABLE(sys_epoll_pwait(ep, events, max, timeout_ms, mask));
	return epoll_wait_call(ep, events, max, from_ms(timeout_ms, &timeout), mask);
}

long call_epoll_wait(int ep, struct epoll_event *events, int max, int timeout_ms)
{
	return call_epoll_pwait(ep, events, max, timeout_ms, NULL);
}

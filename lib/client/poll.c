/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/epset.h"
#include "client/cancel.h"
#include "client/fdtable.h"
#include "client/poll.h"
#include "client/ready.h"
#include "client/remote.h"
#include "client/session.h"
#include "client/spin.h"
#include "client/wait.h"
#include "os/clock.h"
#include "os/syswait.h"

/* Descriptors of one call that are kept on the stack; more are allocated. */
#define POLL_ON_STACK 64u

/* One call: what the kernel is asked (two more entries at the end), and the lane's part. */
struct poll_call {
	struct pollfd *user;
	struct pollfd *ask;
	struct ready *ready;
	struct sock **socks; /* NULL: not tracked */
	nfds_t n;
	bool pending; /* a lane is being set up */
	struct signal_mark since;
};

static bool concerns_us(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		struct sock *sock = fds[i].fd >= 0 ? fdtable_get(fds[i].fd) : NULL;

		struct epset *set = !sock && fds[i].fd >= 0 ? epset_get(fds[i].fd) : NULL;

		if (set && !set->outer)
			epset_outer(set);
		if (sock && sock_stage(sock) < CONN_PINNED)
			return true;
	}
	return false;
}

/* Look at every socket. Returns how many are ready without asking the kernel. */
static int look_all(struct poll_call *call)
{
	int found = 0;

	call->pending = false;
	for (nfds_t i = 0; i < call->n; i++) {
		struct sock *sock = call->user[i].fd >= 0 ? fdtable_get(call->user[i].fd) : NULL;

		call->ask[i] =
			(struct pollfd){.fd = call->user[i].fd, .events = call->user[i].events};
		call->socks[i] = sock;
		call->ready[i] = (struct ready){.ask = call->user[i].events};
		if (!sock)
			continue;
		call->pending |= stage_pending(sock_stage(sock));
		if (sock_stage(sock) >= CONN_PINNED)
			continue;
		ready_look(sock, call->user[i].events, true, &call->ready[i]);
		call->ask[i].events = call->ready[i].ask;
		found += call->ready[i].now != 0;
	}
	return found;
}

static void release_all(struct poll_call *call)
{
	for (nfds_t i = 0; i < call->n; i++)
		if (call->socks[i])
			ready_release(call->socks[i], &call->ready[i]);
}

static bool any_moved(void *arg)
{
	const struct poll_call *call = arg;

	for (nfds_t i = 0; i < call->n; i++)
		if (call->socks[i] && ready_moved(call->socks[i], &call->ready[i]))
			return true;
	return false;
}

/* Announce the sleep everywhere; watch every bell. False: something moved. */
static bool arm_all(struct poll_call *call, int epfd)
{
	bool safe;

	for (nfds_t i = 0; i < call->n; i++)
		if (call->ready[i].held)
			wait_watch_add(epfd, call->socks[i]->bell_own);
	/* A bell that was ever rung shows an edge to each new watcher: not one of this sleep. */
	safe = !wait_take_edges(epfd);
	for (nfds_t i = 0; i < call->n; i++)
		if (call->ready[i].held)
			safe &= ready_arm(call->socks[i], &call->ready[i]);
	return safe;
}

static void unwatch_all(struct poll_call *call, int epfd)
{
	for (nfds_t i = 0; i < call->n; i++)
		if (call->ready[i].held)
			wait_watch_remove(epfd, call->socks[i]->bell_own);
}

static int merge_all(struct poll_call *call)
{
	int count = 0;

	for (nfds_t i = 0; i < call->n; i++) {
		short tcp = call->ask[i].revents;

		if (call->socks[i])
			tcp = ready_merge(call->socks[i], call->user[i].events, &call->ready[i],
					  tcp);
		call->user[i].revents = tcp;
		count += tcp != 0;
	}
	return count;
}

/* The kernel's part of one round. Its result, or 0 at once if a lane moved. */
static int ask_kernel(struct poll_call *call, int found, uint64_t deadline, const sigset_t *mask)
{
	uint64_t now = deadline == WAIT_FOREVER ? 0 : clock_now_ns();
	uint64_t left = found || now >= deadline ? 0 : deadline - now;
	bool lanes = false;
	int epfd = -1, rc;

	for (nfds_t i = 0; i < call->n; i++)
		lanes |= call->ready[i].held;
	if (left && lanes) {
		if (spin_for_many(call->n, any_moved, call))
			return 0;
		epfd = wait_epoll();
		if (!arm_all(call, epfd)) {
			unwatch_all(call, epfd);
			return 0;
		}
	}
	call->ask[call->n] = (struct pollfd){.fd = epfd, .events = POLLIN};
	call->ask[call->n + 1] =
		(struct pollfd){.fd = call->pending ? session_fd() : -1, .events = POLLIN};
	rc = wait_ppoll(call->ask, (unsigned int)call->n + 2,
			&(struct wait_sleep){
				.lane = left && lanes,
				.epfd = epfd,
				.left_ns = deadline == WAIT_FOREVER && left ? UINT64_MAX : left,
				.mask = mask,
				.since = &call->since,
			});
	unwatch_all(call, epfd);
	return rc;
}

static int poll_loop(struct poll_call *call, uint64_t deadline, const sigset_t *mask)
{
	int rc, count;

	for (;;) {
		remote_check();
		if (session_calls() || call->pending)
			session_poll();
		rc = ask_kernel(call, look_all(call), deadline, mask);
		if (rc < 0)
			memset(call->ask, 0, sizeof(*call->ask) * call->n);
		count = rc < 0 ? 0 : merge_all(call);
		release_all(call);
		wait_attend();
		if (rc < 0 || count)
			return rc < 0 ? rc : count;
		if (deadline != WAIT_FOREVER && clock_now_ns() >= deadline)
			return 0;
	}
}

int poll_call(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	struct {
		struct pollfd ask[POLL_ON_STACK + 2];
		struct ready ready[POLL_ON_STACK];
		struct sock *socks[POLL_ON_STACK];
	} small;
	struct poll_call call = {.user = fds,
				 .ask = small.ask,
				 .ready = small.ready,
				 .socks = small.socks,
				 .n = n,
				 .since = signal_mark()};
	uint64_t deadline = WAIT_FOREVER;
	void *memory = NULL;
	int rc;

	if (!concerns_us(fds, n))
		return (int)CANCELLABLE(sys_ppoll(fds, (unsigned int)n, timeout, mask));
	if (timeout &&
	    (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000L))
		return -EINVAL;
	if (timeout && timeout->tv_sec < 1000000000L)
		deadline = clock_now_ns() + (uint64_t)timeout->tv_sec * 1000000000u +
			   (uint64_t)timeout->tv_nsec;
	if (n > POLL_ON_STACK) {
		memory = malloc((n + 2) * (sizeof(struct pollfd) + sizeof(struct ready) +
					   sizeof(struct sock *)));
		if (!memory)
			return -ENOMEM;
		call.ready = memory;
		call.socks = (struct sock **)(call.ready + n);
		call.ask = (struct pollfd *)(call.socks + n);
	}
	rc = poll_loop(&call, deadline, mask);
	free(memory);
	return rc;
}

/* The descriptors of the three sets that are open for anything, as poll entries. */
static nfds_t select_to_poll(int n, const fd_set *rd, const fd_set *wr, const fd_set *ex,
			     struct pollfd *ret_fds)
{
	nfds_t count = 0;

	for (int fd = 0; fd < n; fd++) {
		short events = 0;

		events |= rd && FD_ISSET(fd, rd) ? POLLIN : 0;
		events |= wr && FD_ISSET(fd, wr) ? POLLOUT : 0;
		events |= ex && FD_ISSET(fd, ex) ? POLLPRI : 0;
		if (events)
			ret_fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	return count;
}

/* Sets as select(2) leaves them: only what is ready. Returns how many bits are set. */
static int poll_to_select(const struct pollfd *fds, nfds_t count, fd_set *rd, fd_set *wr,
			  fd_set *ex)
{
	int bits = 0;

	for (nfds_t i = 0; i < count; i++) {
		short got = fds[i].revents, want = fds[i].events;
		int fd = fds[i].fd;

		if (got & POLLNVAL)
			return -EBADF;
		if (want & POLLIN && !(got & (POLLIN | POLLHUP | POLLERR)))
			FD_CLR(fd, rd);
		else if (want & POLLIN)
			bits++;
		if (want & POLLOUT && !(got & (POLLOUT | POLLERR)))
			FD_CLR(fd, wr);
		else if (want & POLLOUT)
			bits++;
		if (want & POLLPRI && !(got & POLLPRI))
			FD_CLR(fd, ex);
		else if (want & POLLPRI)
			bits++;
	}
	return bits;
}

int select_call(int n, fd_set *rd, fd_set *wr, fd_set *ex, const struct timespec *timeout,
		const sigset_t *mask)
{
	struct pollfd small[FD_SETSIZE], *fds = small;
	nfds_t count;
	int rc;

	if (n < 0)
		return -EINVAL;
	if (n > (int)FDTABLE_SIZE) /* the kernel, too, looks no further than its table */
		n = FDTABLE_SIZE;
	/* Programs with more descriptors than FD_SETSIZE allocate larger sets themselves. */
	if (n > FD_SETSIZE)
		fds = malloc((size_t)n * sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	count = select_to_poll(n, rd, wr, ex, fds);
	if (concerns_us(fds, count)) {
		rc = poll_call(fds, count, timeout, mask);
		if (rc >= 0)
			rc = poll_to_select(fds, count, rd, wr, ex);
	} else {
		rc = (int)CANCELLABLE(sys_pselect6(n, rd, wr, ex, timeout, mask));
	}
	if (fds != small)
		free(fds);
	return rc;
}

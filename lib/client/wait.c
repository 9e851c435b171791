/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>

#include "client/ownfd.h"
#include "client/session.h"
#include "client/spin.h"
#include "client/wait.h"
#include "os/clock.h"
#include "os/syswait.h"

/* Longest sleep on a lane while no daemon watches over dying processes: one that dies between a
 * store and the bell, in a side that lives on, is noticed by nobody else. */
#define SLEEP_ALONE_NS 1000000000u
/* … and while there is no descriptor to watch the bell with. */
#define SLEEP_BLIND_NS 1000000u

/*
 * What a thread sleeps with: an epoll of its own (a wake-up that goes to an epoll which several
 * sleepers share wakes one of them), watching the socket that the thread waited for last: its bell
 * (tag 0) and TCP (tag 1), both edge-triggered.
 */
struct sleeper {
	int epfd;
	uint32_t forks; /* fork count when it was made: a child must not use its parent's */
	int bell, tcp;
	uint32_t gen, epoch;
	const struct sock *sock;
	bool tcp_moved; /* an edge of TCP was taken and nobody has looked there yet */
};

static __thread struct sleeper sleeper __attribute__((tls_model("initial-exec"))) = {.epfd = -1};
static pthread_key_t sleeper_key;
static uint32_t fork_count = 1;

static void sleeper_exit(void *arg)
{
	struct sleeper *s = arg;

	if (s->forks == fork_count)
		ownfd_close(s->epfd);
	s->epfd = -1;
}

void wait_init(void)
{
	pthread_key_create(&sleeper_key, sleeper_exit);
	spin_init();
}

void wait_forked(void)
{
	fork_count++;
}

/* The thread's epoll as the last wait left it; -1 if there is no descriptor for one. */
static int sleeper_open(struct sleeper *s)
{
	if (s->epfd >= 0 && s->forks != fork_count) {
		ownfd_close(s->epfd);
		s->epfd = -1;
	}
	if (s->epfd >= 0)
		return s->epfd;
	s->epfd = ownfd_take(sys_epoll_create1(EPOLL_CLOEXEC));
	if (s->epfd < 0)
		return s->epfd = -1;
	s->forks = fork_count;
	s->sock = NULL;
	pthread_setspecific(sleeper_key, s);
	return s->epfd;
}

int wait_epoll(void)
{
	struct sleeper *s = &sleeper;

	if (sleeper_open(s) >= 0 && s->sock) {
		wait_watch_remove(s->epfd, s->bell);
		wait_watch_remove(s->epfd, s->tcp);
		s->sock = NULL;
	}
	return s->epfd;
}

static int watch(int epfd, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event event = {.events = events | EPOLLET, .data.u64 = tag};

	return sys_epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event);
}

void wait_watch_add(int epfd, int bell)
{
	if (epfd >= 0)
		watch(epfd, bell, EPOLLIN, 0);
}

void wait_watch_remove(int epfd, int bell)
{
	struct epoll_event event = {0};

	if (epfd >= 0)
		sys_epoll_ctl(epfd, EPOLL_CTL_DEL, bell, &event);
}

void wait_take_edges(int epfd)
{
	struct epoll_event events[16];

	while (epfd >= 0 && sys_epoll_wait(epfd, events, 16, 0) == 16)
		;
}

/* The thread's sleeper, watching @sock and nothing else; NULL if there is no descriptor for it. */
static struct sleeper *sleeper_watch(struct sock *sock)
{
	struct sleeper *s = &sleeper;
	struct sleeper want = {
		.bell = sock->bell_own,
		.tcp = sock->fd,
		.gen = atomic_load(&sock->gen),
		.epoch = sock->lane.st->epoch,
	};

	if (sleeper_open(s) < 0)
		return NULL;
	if (s->sock == sock && s->gen == want.gen && s->epoch == want.epoch &&
	    s->bell == want.bell && s->tcp == want.tcp)
		return s;
	wait_epoll();
	if (watch(s->epfd, want.bell, EPOLLIN, 0) ||
	    watch(s->epfd, want.tcp, EPOLLIN | EPOLLRDHUP, 1)) {
		wait_watch_remove(s->epfd, want.bell);
		return NULL;
	}
	want.epfd = s->epfd;
	want.forks = s->forks;
	want.sock = sock;
	*s = want;
	return s;
}

/* The longest time to sleep in one go; UINT64_MAX: for ever. */
static uint64_t sleep_cap_ns(bool lane, bool blind)
{
	const struct notice_page *page = atomic_load(&session_view.page);

	if (!lane)
		return UINT64_MAX;
	if (blind)
		return SLEEP_BLIND_NS;
	return page && notice_alive(page) ? UINT64_MAX : SLEEP_ALONE_NS;
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u)};
}

int wait_ppoll(struct pollfd *fds, unsigned int n, const struct wait_sleep *sleep)
{
	uint64_t cap = sleep_cap_ns(sleep->lane, sleep->epfd < 0);
	uint64_t ns = sleep->left_ns < cap ? sleep->left_ns : cap;
	struct timespec ts = to_timespec(ns);
	int epfd = sleep->epfd;
	int rc = signal_ppoll(fds, n, ns == UINT64_MAX ? NULL : &ts, sleep->mask, sleep->since);

	/* The edge is taken here, after the wait and before anything is armed again, and nowhere
	 * else (L_WAKE). */
	for (unsigned int i = 0; rc > 0 && epfd >= 0 && i < n; i++)
		if (fds[i].fd == epfd && fds[i].revents)
			wait_take_edges(epfd);
	return rc;
}

/* Sleep on the lane's bell and TCP alone: one system call. */
static int sleep_on_lane(struct sleeper *s, uint64_t left_ns, const struct signal_mark *since)
{
	uint64_t cap = sleep_cap_ns(true, false);
	uint64_t ns = left_ns < cap ? left_ns : cap;
	struct timespec ts = to_timespec(ns);
	struct epoll_event events[2];
	int n = signal_epoll_pwait2(s->epfd, events, 2, ns == UINT64_MAX ? NULL : &ts, NULL, since);

	if (n == -ENOSYS) /* a millisecond's resolution has to do */
		n = sys_epoll_wait(s->epfd, events, 2,
				   ns == UINT64_MAX ? -1 : (int)((ns + 999999) / 1000000));
	for (int i = 0; i < n; i++)
		s->tcp_moved |= events[i].data.u64 == 1;
	return n < 0 ? n : 0;
}

/* Sleep on whatever there is. */
static int sleep_on_all(struct sock *sock, const struct wait_for *wait,
			const struct wait_sleep *sleep)
{
	struct pollfd fds[3] = {
		{.fd = sock->fd, .events = wait->tcp_events},
		{.fd = sleep->epfd, .events = POLLIN},
		{.fd = stage_pending(sock_stage(sock)) ? session_fd() : -1, .events = POLLIN},
	};
	int rc = wait_ppoll(fds, 3, sleep);

	if (rc > 0 && fds[2].revents)
		session_poll();
	return rc < 0 ? rc : 0;
}

struct lane_wait {
	const struct sock *sock;
	const struct wait_for *wait;
};

/* Whether any word that the waiter cares about has moved. */
static bool lane_moved(void *arg)
{
	const struct lane_wait *lane = arg;

	return !wake_may_sleep(lane->sock->lane.own, lane->sock->lane.peer, lane->wait->kinds,
			       &lane->wait->mark);
}

int sock_wait(struct sock *sock, struct wait_for *wait, uint64_t deadline_ns,
	      const struct signal_mark *since)
{
	struct lane_wait lane = {sock, wait};
	struct sleeper *s = NULL;
	uint32_t gen = atomic_load(&sock->gen);
	uint64_t left = UINT64_MAX;
	bool counted = false;
	int rc = 0;

	wait->tcp_moved = false;
	if (wait->kinds && wait->spin && spin_for(&sock->spin, lane_moved, &lane))
		goto out;
	if (wait->kinds) {
		s = sleeper_watch(sock);
		if (s && s->tcp_moved) /* taken by an earlier wait, which had other news */
			goto out;
		wake_arm(sock->lane.own, wait->kinds);
		if (lane_moved(&lane))
			goto out;
	}
	if (deadline_ns != WAIT_FOREVER) {
		uint64_t now = clock_now_ns();

		left = now < deadline_ns ? deadline_ns - now : 0;
		if (!left)
			rc = -EAGAIN;
	}
	if (left && !wait->kinds && (wait->tcp_events & POLLIN)) {
		counted = sock_tcp_wait_begin(sock);
		if (!counted)
			goto out;
	}
	if (left && s && !(wait->tcp_events & POLLOUT))
		rc = sleep_on_lane(s, left, since);
	else if (left)
		rc = sleep_on_all(sock, wait,
				  &(struct wait_sleep){.lane = wait->kinds,
						       .epfd = s ? s->epfd : -1,
						       .left_ns = left,
						       .since = since});
	if (counted)
		sock_tcp_wait_end(sock, gen);
	if (!s)
		wait->tcp_moved = true;
out:
	if (s && s->tcp_moved) {
		wait->tcp_moved = true;
		s->tcp_moved = false;
	}
	wait_leave(sock, wait);
	return atomic_load(&sock->gen) == gen ? rc : -EBADF;
}

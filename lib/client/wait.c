/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>

#include "base/util.h"
#include "client/kick.h"
#include "client/ownfd.h"
#include "client/remote.h"
#include "client/session.h"
#include "client/spin.h"
#include "client/wait.h"
#include "os/clock.h"
#include "os/syswait.h"

/* Longest sleep while there is no descriptor to watch the bell with. */
#define SLEEP_BLIND_NS 1000000u

/* What an event of the thread's epoll is of. */
#define TAG_BELL 0u
#define TAG_TCP 1u
#define TAG_KICK ((uint64_t)1 << 32) /* and the serial */

/*
 * What a thread sleeps with: an epoll of its own (a wake-up that goes to an epoll which several
 * sleepers share wakes one of them), watching the kick and the socket that the thread waited for
 * last: its bell and TCP, all edge-triggered.
 */
struct sleeper {
	int epfd;
	uint32_t forks; /* fork count when it was made: a child must not use its parent's */
	int bell, tcp;
	uint32_t gen, epoch;
	const struct sock *sock;
	bool tcp_moved;	  /* an edge of TCP was taken and nobody has looked there yet */
	bool kicked;	  /* an edge of the kick was taken and nobody has attended to it yet */
	uint32_t hung_up; /* … of that serial, which says that the session is over; else 0 */
	uint32_t watched; /* serial of the kick */
	bool covered;	  /* by the daemon, when this wait began */
};

static __thread struct sleeper sleeper __attribute__((tls_model("initial-exec"))) = {.epfd = -1};
static pthread_key_t sleeper_key;
static uint32_t fork_count = 1;
static bool apart; /* the session is another process's */

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

void wait_apart(void)
{
	wait_forked();
	apart = true;
}

/* The thread's epoll as the last wait left it, with the kick; -1 if there is no descriptor for one.
 * Before anything is armed. */
static int sleeper_open(struct sleeper *s)
{
	if (s->epfd >= 0 && s->forks != fork_count) {
		ownfd_close(s->epfd);
		*s = (struct sleeper){.epfd = -1};
	}
	if (s->epfd < 0) {
		s->epfd = ownfd_take(sys_epoll_create1(EPOLL_CLOEXEC));
		if (s->epfd < 0)
			return s->epfd = -1;
		s->forks = fork_count;
		s->watched = 0;
		s->sock = NULL;
		pthread_setspecific(sleeper_key, s);
	}
	if (!apart)
		kick_watch(s->epfd, TAG_KICK, &s->watched);
	s->covered = session_covers(s->watched);
	return s->epfd;
}

static void wait_forget_sock(struct sleeper *s)
{
	if (!s->sock)
		return;
	wait_watch_remove(s->epfd, s->bell);
	wait_watch_remove(s->epfd, s->tcp);
	s->sock = NULL;
}

int wait_epoll(void)
{
	if (sleeper_open(&sleeper) >= 0)
		wait_forget_sock(&sleeper);
	return sleeper.epfd;
}

static void note_kick(struct sleeper *s, const struct epoll_event *event)
{
	s->kicked = true;
	if (event->events & EPOLLHUP)
		s->hung_up = (uint32_t)event->data.u64;
}

void wait_attend(void)
{
	struct sleeper *s = &sleeper;
	uint32_t hung_up = s->hung_up;

	if (!s->kicked) {
		/* Adoption may have to go on, or a daemon may have come. */
		if (!s->covered && !apart && session_calls())
			session_poll();
		return;
	}
	s->kicked = false;
	s->hung_up = 0;
	session_attend(hung_up);
}

static int watch(int epfd, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event event = {.events = events | EPOLLET, .data.u64 = tag};

	return sys_epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event);
}

void wait_watch_add(int epfd, int bell)
{
	if (epfd >= 0)
		watch(epfd, bell, EPOLLIN, TAG_BELL);
}

void wait_watch_remove(int epfd, int bell)
{
	struct epoll_event event = {0};

	if (epfd >= 0)
		sys_epoll_ctl(epfd, EPOLL_CTL_DEL, bell, &event);
}

bool wait_take_edges(int epfd)
{
	struct epoll_event events[16];
	int n = epfd < 0 ? 0 : 16;

	while (n == 16) {
		n = sys_epoll_wait(epfd, events, 16, 0);
		for (int i = 0; i < n; i++)
			if (kick_is(TAG_KICK, events[i].data.u64))
				note_kick(&sleeper, &events[i]);
	}
	/* A bell that was rung because the session ended may have been among them. */
	sleeper.covered = session_covers(sleeper.watched);
	return sleeper.kicked;
}

/* The thread's sleeper, watching @sock and nothing else; NULL if there is no descriptor for it. */
static struct sleeper *sleeper_watch(struct sock *sock)
{
	struct sleeper *s = &sleeper;
	int bell = sock->bell_own, tcp = sock->fd;
	uint32_t gen = atomic_load(&sock->gen), epoch = sock->lane.st->epoch;

	if (sleeper_open(s) < 0)
		return NULL;
	if (s->sock == sock && s->gen == gen && s->epoch == epoch && s->bell == bell &&
	    s->tcp == tcp)
		return s;
	wait_forget_sock(s);
	if (watch(s->epfd, bell, EPOLLIN, TAG_BELL) ||
	    watch(s->epfd, tcp, EPOLLIN | EPOLLRDHUP, TAG_TCP)) {
		wait_watch_remove(s->epfd, bell);
		return NULL;
	}
	s->bell = bell;
	s->tcp = tcp;
	s->gen = gen;
	s->epoch = epoch;
	s->sock = sock;
	s->tcp_moved = false;
	return s;
}

/* The longest time to sleep in one go; UINT64_MAX: for ever. */
static uint64_t sleep_cap_ns(bool lane, bool blind)
{
	if (!lane)
		return UINT64_MAX;
	if (blind)
		return SLEEP_BLIND_NS;
	return u64_min(remote_sleep_ns(), sleeper.covered ? UINT64_MAX : SLEEP_ALONE_NS);
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

/* Sleep on the lane's bell, the kick and TCP alone: one system call. */
static int sleep_on_lane(struct sleeper *s, uint64_t left_ns, const struct signal_mark *since)
{
	uint64_t cap = sleep_cap_ns(true, false);
	uint64_t ns = left_ns < cap ? left_ns : cap;
	struct timespec ts = to_timespec(ns);
	struct epoll_event events[3];
	int n = signal_epoll_pwait2(s->epfd, events, 3, ns == UINT64_MAX ? NULL : &ts, NULL, since);

	if (n == -ENOSYS) /* a millisecond's resolution has to do */
		n = sys_epoll_wait(s->epfd, events, 3,
				   ns == UINT64_MAX ? -1 : (int)((ns + 999999) / 1000000));
	for (int i = 0; i < n; i++) {
		s->tcp_moved |= events[i].data.u64 == TAG_TCP;
		if (kick_is(TAG_KICK, events[i].data.u64))
			note_kick(s, &events[i]);
	}
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
	remote_check();
	if (wait->kinds && wait->spin && spin_for(&sock->spin, lane_moved, &lane))
		goto out;
	if (wait->kinds) {
		s = sleeper_watch(sock);
		/* Taken by an earlier wait, which had other news. */
		if (s && (s->tcp_moved || s->kicked))
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
	wait_attend();
	return atomic_load(&sock->gen) == gen ? rc : -EBADF;
}

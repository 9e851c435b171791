/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "client/session.h"
#include "client/wait.h"
#include "os/clock.h"
#include "os/syswait.h"

/* Looks at memory between two looks at the clock. Chosen: the clock costs about 25 ns. */
#define SPIN_CLOCK_EVERY 32
/* A gap between two looks at the clock that says we were not running. Chosen: far above an
 * interrupt, below the scheduler's slice. */
#define SPIN_GAP_NS 200000u
/* Window of the adaptive spin, and how rarely a spin that did not pay is tried again. */
#define SPIN_WINDOW 16u
#define SPIN_RETRY 64u

/* What a thread sleeps with: an epoll that watches one bell, kept from wait to wait. */
struct sleeper {
	int epfd;
	uint32_t forks; /* fork count when it was made: a child must not use its parent's */
	int bell;
	uint32_t gen, epoch;
	const struct sock *sock;
};

static __thread struct sleeper sleeper __attribute__((tls_model("initial-exec"))) = {.epfd = -1};
static pthread_key_t sleeper_key;
static uint32_t fork_count = 1;
static bool one_cpu;

static void sleeper_exit(void *arg)
{
	struct sleeper *s = arg;

	if (s->forks == fork_count)
		fd_close(s->epfd);
	s->epfd = -1;
}

void wait_init(void)
{
	pthread_key_create(&sleeper_key, sleeper_exit);
	one_cpu = sysconf(_SC_NPROCESSORS_ONLN) <= 1;
}

void wait_forked(void)
{
	fork_count++;
}

/* Whether any word that the waiter cares about has moved. */
static bool moved(const struct sock *sock, const struct wait_for *wait)
{
	return !wake_may_sleep(sock->lane.own, sock->lane.peer, wait->kinds, &wait->mark);
}

/* Learn from @hit: the budget of the next spin. */
static void spin_learn(struct sock *sock, bool hit, uint64_t max_ns)
{
	sock->spin_tries++;
	sock->spin_hits += hit;
	if (sock->spin_tries < SPIN_WINDOW)
		return;
	if (sock->spin_hits >= SPIN_WINDOW / 4)
		sock->spin_ns = (uint32_t)max_ns;
	else
		sock->spin_ns /= 2;
	sock->spin_tries = sock->spin_hits = 0;
}

static bool spin(struct sock *sock, const struct wait_for *wait)
{
	uint64_t max_ns = (uint64_t)session_settings.spin_us * 1000u;
	uint64_t start = 0, last = 0, now, budget;
	bool hit = false;

	if (!max_ns || one_cpu)
		return false;
	if (!sock->spin_tries && !sock->spin_hits && !sock->spin_ns)
		sock->spin_ns = (uint32_t)max_ns; /* new, or it is time to try again */
	budget = sock->spin_ns < max_ns ? sock->spin_ns : max_ns;
	if (budget < max_ns / 16) { /* it does not pay: sleep at once, most of the time */
		if (++sock->spin_tries >= SPIN_RETRY)
			sock->spin_tries = sock->spin_hits = sock->spin_ns = 0;
		return false;
	}
	for (unsigned int i = 0; !hit; i++) {
		hit = moved(sock, wait);
		if (hit)
			break;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
		if (i % SPIN_CLOCK_EVERY)
			continue;
		now = clock_now_ns();
		if (!start)
			start = last = now;
		if (now - last > SPIN_GAP_NS) /* somebody else needed this CPU */
			sock->spin_ns /= 2;
		last = now;
		if (now - start >= budget)
			break;
	}
	spin_learn(sock, hit, max_ns);
	return hit;
}

/* The thread's epoll, watching @sock's bell; -1 if there is no descriptor for it. */
static int sleeper_watch(struct sock *sock)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	struct sleeper *s = &sleeper;

	if (s->epfd >= 0 && s->forks != fork_count) {
		fd_close(s->epfd);
		s->epfd = -1;
	}
	if (s->epfd < 0) {
		s->epfd = fd_move_high(sys_epoll_create1(EPOLL_CLOEXEC));
		if (s->epfd < 0)
			return -1;
		s->forks = fork_count;
		s->sock = NULL;
		pthread_setspecific(sleeper_key, s);
	}
	if (s->sock == sock && s->gen == atomic_load(&sock->gen) &&
	    s->epoch == sock->lane.st->epoch && s->bell == sock->bell_own)
		return s->epfd;
	if (s->sock)
		sys_epoll_ctl(s->epfd, EPOLL_CTL_DEL, s->bell, &event);
	s->sock = NULL;
	if (sys_epoll_ctl(s->epfd, EPOLL_CTL_ADD, sock->bell_own, &event))
		return -1;
	s->sock = sock;
	s->gen = atomic_load(&sock->gen);
	s->epoch = sock->lane.st->epoch;
	s->bell = sock->bell_own;
	return s->epfd;
}

/* How long to sleep. Without a descriptor to watch the bell with, a millisecond at a time. */
static struct timespec sleep_time(uint64_t deadline_ns, uint64_t now, bool blind)
{
	uint64_t ns = deadline_ns - now;

	if (blind && ns > 1000000u)
		ns = 1000000u;
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u)};
}

static int sleep_on(struct sock *sock, const struct wait_for *wait, int epfd, uint64_t deadline_ns)
{
	bool blind = wait->kinds && epfd < 0;
	uint64_t now = deadline_ns == WAIT_FOREVER && !blind ? 0 : clock_now_ns();
	struct timespec ts;
	struct epoll_event event;
	struct pollfd fds[3] = {
		{.fd = sock->fd, .events = wait->tcp_events},
		{.fd = epfd, .events = POLLIN},
		{.fd = stage_pending(sock_stage(sock)) ? session_fd() : -1, .events = POLLIN},
	};
	int rc;

	if (now >= deadline_ns)
		return -EAGAIN;
	ts = sleep_time(deadline_ns, now, blind);
	rc = sys_ppoll(fds, 3, deadline_ns == WAIT_FOREVER && !blind ? NULL : &ts, NULL);
	if (rc < 0)
		return rc;
	if (fds[1].revents)
		sys_epoll_wait(epfd, &event, 1, 0); /* take the edge */
	if (fds[2].revents)
		session_poll();
	return rc || blind ? 0 : -EAGAIN;
}

int sock_wait(struct sock *sock, struct wait_for *wait, uint64_t deadline_ns)
{
	uint32_t gen = atomic_load(&sock->gen);
	int epfd = -1;
	int rc = 0;

	if (wait->kinds && wait->spin && spin(sock, wait))
		goto out;
	if (wait->kinds) {
		epfd = sleeper_watch(sock);
		wake_arm(sock->lane.own, wait->kinds);
		if (moved(sock, wait))
			goto out;
	}
	rc = sleep_on(sock, wait, epfd, deadline_ns);
out:
	wait_leave(sock, wait);
	return atomic_load(&sock->gen) == gen ? rc : -EBADF;
}

/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/util.h"
#include "fabric/worker_impl.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sys.h"
#include "os/syswait.h"
#include "os/thread.h"

/* Events taken from epoll at once. Chosen: more come at the next look. */
#define EVENTS 64

static void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* --- sleep ------------------------------------------------------------------------------------ */

/* Nothing that an event refers to is freed while events are taken: only mail and links_drain()
 * forget objects. Whether there were any. */
static bool take_events(struct worker *worker, int timeout_ms)
{
	struct epoll_event events[EVENTS];
	int n = sys_epoll_pwait(worker->epoll_fd, events, EVENTS, timeout_ms, NULL);

	worker->unlooked = 0;
	for (int i = 0; i < n; i++) {
		enum worker_source *source = events[i].data.ptr;
		struct worker_lane *lane;

		if (*source == SOURCE_CHANNEL) {
			cqs_events(worker);
		} else if (*source == SOURCE_BELL) {
			lane = container_of(source, struct worker_lane, source);
			/* Its client has taken the arm for rung, up to this edge. */
			lane->armed = 0;
			count_add(&lane->counts.bells, 1);
			lane_heat(lane);
		}
	}
	return n > 0;
}

/* How long to sleep at most; rounded up, so that the deadline has passed then. */
static int timeout_ms(const struct worker *worker, uint64_t now_ns)
{
	uint64_t ms;

	if (worker->next_ns == UINT64_MAX)
		return -1;
	if (worker->next_ns <= now_ns)
		return 0;
	ms = (worker->next_ns - now_ns + 999999) / 1000000;
	return (int)u64_min(ms, INT32_MAX);
}

/* Spinning pays when the sleep that it could have saved is shorter than it would have been. */
static void learn(struct worker *worker, uint64_t slept_ns)
{
	uint64_t most = worker->config.spin_ns, least = most / 16;

	if (slept_ns < most)
		worker->spin_ns = u64_min(most, u64_max(worker->spin_ns * 2, least));
	else
		worker->spin_ns = worker->spin_ns / 2 < least ? 0 : worker->spin_ns / 2;
}

/*
 * With one processor, a client that was rung has not run yet. If it runs now it may answer, and
 * then nobody has to arm, ring and wake. But what else wants to run may be let before us, too: when
 * that takes long, we leave it for a while, and are woken by the client's bell, at once.
 */
static bool made_way(struct worker *worker)
{
	uint64_t begin_ns;

	if (!TAKE(worker->has_rung, false) || !worker->is_alone)
		return false;
	if (worker->ways_spared) {
		worker->ways_spared--;
		return false;
	}
	begin_ns = clock_now_ns();
	sys_sched_yield();
	if (clock_now_ns() - begin_ns > WORKER_WAY_NS)
		worker->ways_spared = WORKER_WAYS_SPARED;
	return true;
}

static void sleep_on_it(struct worker *worker)
{
	uint64_t begin_ns;

	if (made_way(worker))
		return;
	/* Arm, then look again: see the argument in worker.h. */
	if (!lanes_park(worker) || !cqs_arm(worker))
		return;
	begin_ns = clock_now_ns();
	count_add(&worker->counts.sleeps, 1);
	take_events(worker, timeout_ms(worker, begin_ns));
	learn(worker, clock_now_ns() - begin_ns);
}

/* --- turns ------------------------------------------------------------------------------------ */

bool worker_turn(struct worker *worker)
{
	bool any = false;

	count_add(&worker->counts.turns, 1);
	worker->now_ns = clock_now_ns();
	any |= mail_take(worker);
	any |= cqs_poll(worker);
	any |= lanes_poll(worker);
	/* Before more of a stream is posted all lanes are looked at, parked ones by their bells:
	 * the promise of link_send.h. */
	if (worker->n_parked && links_have_bulk(worker) && take_events(worker, 0))
		any |= lanes_poll(worker);
	any |= !list_is_empty(&worker->dirty);
	links_post(worker);
	links_drain(worker);
	if (worker->now_ns >= worker->next_ns)
		links_time(worker);
	return any;
}

static bool has_ended(const struct worker *worker)
{
	if (!worker->is_stopping)
		return false;
	for (uint32_t i = 0; i < WORKER_LINKS_MAX; i++) {
		if (atomic_load(&worker->links[i]))
			return false;
	}
	return true;
}

static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	uint64_t busy_ns = 0;
	bool was_idle = false;

	while (!has_ended(worker)) {
		if (worker_turn(worker)) {
			busy_ns = worker->now_ns;
			count_add(&worker->counts.spins_paid, was_idle ? 1 : 0);
			was_idle = false;
		} else if (worker->now_ns - busy_ns < worker->spin_ns) {
			was_idle = true;
			spin_pause();
		} else {
			was_idle = false;
			sleep_on_it(worker);
		}
		/* Bells of parked lanes, while others keep us awake. */
		if (++worker->unlooked == WORKER_LOOK_TURNS)
			take_events(worker, 0);
	}
	return NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

static int watch(struct worker *worker, int fd, enum worker_source *source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

	return sys_epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int open_fds(struct worker *worker)
{
	int rc;

	worker->mail_source = SOURCE_MAIL;
	worker->channel_source = SOURCE_CHANNEL;
	worker->mail_fd = sys_eventfd2(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (worker->mail_fd < 0)
		return worker->mail_fd;
	worker->out_fd = sys_eventfd2(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (worker->out_fd < 0)
		return worker->out_fd;
	worker->epoll_fd = sys_epoll_create1(EPOLL_CLOEXEC);
	if (worker->epoll_fd < 0)
		return worker->epoll_fd;
	rc = watch(worker, worker->mail_fd, &worker->mail_source);
	return rc < 0 ? rc : watch(worker, worker->config.channel->fd, &worker->channel_source);
}

static void release(struct worker *worker)
{
	fd_close(worker->epoll_fd);
	fd_close(worker->out_fd);
	fd_close(worker->mail_fd);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

int worker_new(const struct worker_config *config, struct worker **ret_worker)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int rc;

	if (!worker)
		return -ENOMEM;
	worker->config = *config;
	worker->mail_fd = worker->out_fd = worker->epoll_fd = -1;
	mail_init(&worker->mail, MAIL_WORKER);
	list_init(&worker->inbox);
	list_init(&worker->outbox);
	list_init(&worker->up);
	list_init(&worker->dirty);
	list_init(&worker->hot);
	worker->next_ns = UINT64_MAX;
	/* With one processor the one that is waited for could not run. */
	worker->is_alone = sysconf(_SC_NPROCESSORS_ONLN) < 2;
	if (worker->is_alone)
		worker->config.spin_ns = 0;
	worker->spin_ns = worker->config.spin_ns;
	pthread_mutex_init(&worker->lock, NULL);
	rc = open_fds(worker);
	if (rc == 0)
		rc = thread_start(worker->config.name, worker_main, worker, &worker->thread);
	if (rc < 0) {
		release(worker);
		return rc;
	}
	*ret_worker = worker;
	return 0;
}

int worker_fd(const struct worker *worker)
{
	return worker->out_fd;
}

void *worker_user(const struct worker *worker)
{
	return worker->config.user;
}

bool worker_has_answered(struct worker *worker)
{
	if (atomic_load(&worker->answers) != atomic_load(&worker->questions))
		return false;
	atomic_fetch_add(&worker->questions, 1);
	mail_ask(worker, &worker->mail, ASK_ANSWER);
	return true;
}

void worker_stop(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	worker->is_stopped = true;
	pthread_mutex_unlock(&worker->lock);
	mail_ask(worker, &worker->mail, ASK_STOP);
}

struct worker *worker_free(struct worker *worker)
{
	if (!worker)
		return NULL;
	worker_stop(worker);
	pthread_join(worker->thread, NULL);
	assert(worker->n_links == 0);
	release(worker);
	return NULL;
}

/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/prng.h"
#include "base/util.h"
#include "loop.h"
#include "os/clock.h"

#include "lib/tap.h"

#define SOURCES 40

struct item {
	struct source source;
	struct timer timer;
	int fd, calls;
};

static struct loop loop;
static struct item items[SOURCES];
static int order[SOURCES], ordered;

static void open_items(void (*fn)(struct source *source, uint32_t events))
{
	CHECK_OK(loop_init(&loop));
	memset(items, 0, sizeof(items));
	for (int i = 0; i < SOURCES; i++) {
		items[i].fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
		CHECK_OK(loop_add(&loop, &items[i].source, items[i].fd, EPOLLIN, fn));
	}
}

static void close_items(void)
{
	for (int i = 0; i < SOURCES; i++) {
		loop_remove(&items[i].source);
		close(items[i].fd);
	}
	loop_deinit(&loop);
}

/* The first to be called removes and poisons all others, whose events were fetched with it. */
static void remove_all(struct source *source, uint32_t events)
{
	struct item *self = container_of(source, struct item, source);

	(void)events;
	self->calls++;
	for (int i = 0; i < SOURCES; i++) {
		loop_remove(&items[i].source);
		if (&items[i] != self)
			items[i].source.fn = NULL; /* a call would crash */
	}
	loop_stop(&loop, 3);
}

TAP_CASE(an_event_of_a_removed_source_is_dropped)
{
	int calls = 0;

	open_items(remove_all);
	CHECK_EQ(loop_run(&loop), 3);
	for (int i = 0; i < SOURCES; i++)
		calls += items[i].calls;
	CHECK_EQ(calls, 1);
	close_items();
}

/* One that is removed and added again, as another object, in the same batch is not called for the
 * old event. */
static void replace_next(struct source *source, uint32_t events)
{
	struct item *self = container_of(source, struct item, source);
	struct item *next = &items[(self - items + 1) % SOURCES];

	(void)events;
	if (self->calls++ == 0 && next->calls == 0) {
		loop_remove(&next->source);
		CHECK_OK(loop_add(&loop, &next->source, next->fd, EPOLLIN, replace_next));
	}
	loop_remove(source);
	ordered++;
	if (ordered == SOURCES)
		loop_stop(&loop, 0);
}

TAP_CASE(a_source_may_be_replaced_inside_a_batch)
{
	ordered = 0;
	open_items(replace_next);
	CHECK_EQ(loop_run(&loop), 0);
	for (int i = 0; i < SOURCES; i++)
		CHECK_EQ(items[i].calls, 1);
	close_items();
}

struct job {
	struct task task;
	int runs;
};

static struct job jobs[2];

static void run_job(struct task *task)
{
	struct job *job = container_of(task, struct job, task);

	job->runs++;
	if (job == &jobs[0]) {
		loop_defer(&loop, &jobs[1].task);
		loop_defer(&loop, &jobs[1].task); /* once only */
	} else {
		loop_stop(&loop, 0);
	}
}

TAP_CASE(tasks_run_once_and_may_defer_others)
{
	CHECK_OK(loop_init(&loop));
	for (int i = 0; i < 2; i++) {
		jobs[i].runs = 0;
		task_init(&jobs[i].task, run_job);
	}
	loop_defer(&loop, &jobs[0].task);
	loop_defer(&loop, &jobs[0].task);
	CHECK_EQ(loop_run(&loop), 0);
	CHECK_EQ(jobs[0].runs, 1);
	CHECK_EQ(jobs[1].runs, 1);
	loop_deinit(&loop);
}

static void note_timer(struct timer *timer)
{
	struct item *item = container_of(timer, struct item, timer);

	order[ordered++] = (int)(item - items);
	if (ordered == SOURCES)
		loop_stop(&loop, 0);
}

TAP_CASE(timers_fire_in_order_and_not_early)
{
	uint64_t start;

	ordered = 0;
	CHECK_OK(loop_init(&loop));
	start = clock_now_ns();
	for (int i = 0; i < SOURCES; i++) {
		timer_init(&items[i].timer, note_timer);
		timer_set(&loop.timers, &items[i].timer,
			  start + (uint64_t)((i * 7) % SOURCES) * 1000000u);
	}
	CHECK_EQ(loop_run(&loop), 0);
	CHECK(clock_now_ns() >= start + (SOURCES - 1) * 1000000u);
	for (int i = 0; i < SOURCES; i++)
		CHECK_EQ((order[i] * 7) % SOURCES, i);
	loop_deinit(&loop);
}

static void never(struct timer *timer)
{
	(void)timer;
	CHECK(false);
}

/* The heap against the simplest model there is: scan all for the earliest. */
TAP_CASE(random_sets_and_clears_keep_the_heap)
{
	enum { TIMERS = 200 };
	static struct timer timers[TIMERS];
	struct timer_heap heap = {NULL};
	struct prng prng;

	prng_init(&prng, 7);
	for (int i = 0; i < TIMERS; i++)
		timer_init(&timers[i], never);
	for (int round = 0; round < 50000; round++) {
		struct timer *timer = &timers[prng_below(&prng, TIMERS)];
		const struct timer *first = NULL;

		if (prng_chance(&prng, 40))
			timer_clear(&heap, timer);
		else if (prng_chance(&prng, 20) && timer_first(&heap))
			timer_clear(&heap, timer_first(&heap));
		else
			timer_set(&heap, timer, prng_below(&prng, 1000));
		for (int i = 0; i < TIMERS; i++) {
			if (timers[i].is_set && (!first || timers[i].due_ns < first->due_ns))
				first = &timers[i];
		}
		if (!timer_first(&heap) != !first ||
		    (first && timer_first(&heap)->due_ns != first->due_ns))
			CHECK_EQ(round, -1);
	}
	CHECK(true);
}

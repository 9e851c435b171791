/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>

#include "loop.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/syswait.h"

int loop_init(struct loop *loop)
{
	*loop = (struct loop){.epoll = sys_epoll_create1(EPOLL_CLOEXEC)};
	if (loop->epoll < 0)
		return loop->epoll;
	list_init(&loop->tasks);
	loop->now_ns = clock_now_ns();
	return 0;
}

void loop_deinit(struct loop *loop)
{
	fd_close(loop->epoll);
	loop->epoll = -1;
}

int loop_add(struct loop *loop, struct source *source, int fd, uint32_t events,
	     void (*fn)(struct source *source, uint32_t events))
{
	struct epoll_event event = {.events = events, .data.ptr = source};
	int rc = sys_epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event);

	if (rc < 0)
		return rc;
	source->fd = fd;
	source->fn = fn;
	source->loop = loop;
	return 0;
}

int loop_change(struct source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	return sys_epoll_ctl(source->loop->epoll, EPOLL_CTL_MOD, source->fd, &event);
}

void loop_remove(struct source *source)
{
	struct loop *loop = source->loop;

	if (!loop)
		return;
	sys_epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
	for (int i = loop->batch_next; i < loop->batch_len; i++) {
		if (loop->batch[i].data.ptr == source)
			loop->batch[i].data.ptr = NULL;
	}
	source->loop = NULL;
}

void task_init(struct task *task, void (*fn)(struct task *task))
{
	list_init(&task->link);
	task->fn = fn;
}

void loop_defer(struct loop *loop, struct task *task)
{
	if (!list_is_linked(&task->link))
		list_push_back(&loop->tasks, &task->link);
}

void loop_set_timer(struct loop *loop, struct timer *timer, uint64_t delay_ms)
{
	timer_set(&loop->timers, timer, clock_now_ns() + delay_ms * 1000000u);
}

/* Tasks may defer others, which run too. */
static void run_tasks(struct loop *loop)
{
	struct list *node;

	while ((node = list_pop_front(&loop->tasks)) != NULL) {
		struct task *task = list_entry(node, struct task, link);

		task->fn(task);
	}
}

/* Only those due at the start, so that a timer that sets itself again can't starve the sources. */
static void run_timers(struct loop *loop)
{
	struct timer *timer;

	while (!loop->stopping && (timer = timer_first(&loop->timers)) != NULL) {
		if (timer->due_ns > loop->now_ns)
			return;
		timer_clear(&loop->timers, timer);
		timer->fn(timer);
		run_tasks(loop);
	}
}

/* Milliseconds until the next timer, rounded up so that it is due then; -1 without one. */
static int wait_ms(const struct loop *loop)
{
	const struct timer *timer = timer_first(&loop->timers);
	uint64_t now = clock_now_ns(), left;

	if (!timer)
		return -1;
	if (timer->due_ns <= now)
		return 0;
	left = (timer->due_ns - now + 999999u) / 1000000u;
	return left > 3600000u ? 3600000 : (int)left;
}

int loop_run(struct loop *loop)
{
	run_tasks(loop);
	while (!loop->stopping) {
		int n = sys_epoll_wait(loop->epoll, loop->batch, LOOP_BATCH, wait_ms(loop));

		if (n < 0 && n != -EINTR)
			return n;
		loop->now_ns = clock_now_ns();
		loop->batch_len = n < 0 ? 0 : n;
		for (loop->batch_next = 0; loop->batch_next < loop->batch_len && !loop->stopping;) {
			struct epoll_event event = loop->batch[loop->batch_next++];
			struct source *source = event.data.ptr;

			if (!source)
				continue;
			source->fn(source, event.events);
			run_tasks(loop);
		}
		loop->batch_len = 0;
		run_timers(loop);
		if (loop->after)
			loop_defer(loop, loop->after);
		run_tasks(loop);
	}
	return loop->exit_code;
}

void loop_stop(struct loop *loop, int exit_code)
{
	loop->stopping = true;
	loop->exit_code = exit_code;
}

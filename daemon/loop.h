/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "timer.h"

/*
 * The daemon's event loop: level-triggered epoll, timers, and deferred tasks. One thread.
 *
 * Callbacks may add, change and remove any source, their own and others' included, set and clear
 * timers and free what they like once it is removed: an event that was already fetched for a
 * removed source is dropped. What must not happen deep inside a callback, such as destroying a
 * session that is being written to, is deferred as a task and runs when the callback has returned.
 * With no timer set the loop sleeps until a descriptor has something to say.
 */

#define LOOP_BATCH 64

struct loop;

struct source {
	int fd;
	struct loop *loop; /* NULL while not in a loop */
	void (*fn)(struct source *source, uint32_t events);
};

struct task {
	struct list link;
	void (*fn)(struct task *task);
};

struct loop {
	int epoll;
	bool stopping;
	int exit_code;
	uint64_t now_ns; /* when the current batch was fetched */
	struct timer_heap timers;
	struct list tasks;
	struct task *after; /* runs behind each batch and its timers; NULL: none */
	struct epoll_event batch[LOOP_BATCH];
	int batch_len, batch_next;
};

/* Make an empty loop. 0, or -errno of epoll_create1. */
int loop_init(struct loop *loop);

/* Release it; sources must have been removed, or are never used again. */
void loop_deinit(struct loop *loop);

/*
 * Watch @fd (which stays the caller's) for @events (EPOLLIN…; HUP and ERR always come).
 * @source: the caller's memory, until loop_remove(). 0, or -errno of epoll_ctl.
 */
int loop_add(struct loop *loop, struct source *source, int fd, uint32_t events,
	     void (*fn)(struct source *source, uint32_t events));

/* Watch for other events. 0, or -errno. The source must be in a loop. */
int loop_change(struct source *source, uint32_t events);

/* Stop watching; to be called before the fd is closed. Harmless if it is in no loop. */
void loop_remove(struct source *source);

/* Prepare @task, to call @fn. */
void task_init(struct task *task, void (*fn)(struct task *task));

/* Run @task once, after the current callback. Harmless if it waits already. */
void loop_defer(struct loop *loop, struct task *task);

/* Monotonic time of the current batch, nanoseconds. */
static inline uint64_t loop_now(const struct loop *loop)
{
	return loop->now_ns;
}

/* Set @timer to @delay_ms from now. */
void loop_set_timer(struct loop *loop, struct timer *timer, uint64_t delay_ms);

/* Run until loop_stop(). The exit code given there, or -errno if epoll fails. */
int loop_run(struct loop *loop);

/* End loop_run() after the current callback. */
void loop_stop(struct loop *loop, int exit_code);

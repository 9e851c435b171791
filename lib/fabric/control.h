/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/*
 * The control thread of a device: whatever may block (probing, creating queue pairs, registering
 * memory, calls of the connection manager) runs there, one job at a time and in the order given,
 * while the daemon's loop goes on.
 *
 *   loop                                    control thread
 *   control_submit(job)         ->          job->run(job)
 *   descriptor becomes readable <-          finished, in order
 *   control_reap() -> job->done(job)
 *
 * A job is the caller's memory, in the caller's structure. From control_submit() until its done()
 * is called it belongs to the queue; run() alone may touch what it works on, so that no lock is
 * needed around it. done() runs on the loop and may submit again or free the job.
 *
 * All functions here are the loop's; only run() is the thread's.
 */

/* Jobs in one queue, finished ones that nobody has reaped included. Chosen: a refill, a probe and
 * a few dozens of registrations and dials; who meets a full queue tries again later. */
#define CONTROL_JOBS_MAX 256u

/* Verdicts of control_submit(): not now; never again. */
#define CONTROL_FULL 1
#define CONTROL_STOPPED 2

struct control_job {
	struct list link;
	void (*run)(struct control_job *job);  /* on the thread; not called when cancelled */
	void (*done)(struct control_job *job); /* on the loop, exactly once */
	bool cancelled;			       /* for done(): the thread stopped before this job */
};

struct control {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct list waiting, finished; /* under the lock, as is all below */
	uint32_t jobs;		       /* submitted and not reaped */
	bool stopping, has_ended;
	int event_fd; /* readable while something is finished, or the thread has ended */
};

/*
 * Start the thread, with all signals blocked.
 * @control: any memory. @name: of the thread, at most 15 bytes are shown.
 * 0, or -errno of eventfd or pthread_create: nothing is left behind then.
 */
int control_init(struct control *control, const char *name);

/* The descriptor to watch for input; it stays the control's. */
int control_fd(const struct control *control);

/*
 * Give @job, with run and done set, to the thread. 0, CONTROL_FULL or CONTROL_STOPPED; then the
 * job stays the caller's and done() is not called. Never blocks for longer than a list operation.
 */
int control_submit(struct control *control, struct control_job *job);

/*
 * Whether another job waits for its turn, so that a long one had better come to its end. The
 * thread's: for run().
 */
bool control_is_wanted(struct control *control);

/* Call done() of whatever is finished. Never blocks. Not from inside a done(). */
void control_reap(struct control *control);

/*
 * Take no more jobs, cancel those that have not begun, let the one that runs come to its end. Does
 * not wait: the descriptor tells when there is something to reap.
 */
void control_stop(struct control *control);

/* Whether the thread has ended and every job's done() was called: control_deinit() won't block. */
bool control_is_idle(struct control *control);

/*
 * Stop if need be, wait for the job that runs, call every done() that is due, release all. Blocks
 * for as long as that job takes; a device's jobs have deadlines of their own.
 */
void control_deinit(struct control *control);

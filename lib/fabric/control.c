/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#include "fabric/control.h"
#include "os/fd.h"
#include "os/sys.h"
#include "os/thread.h"

static void lock(struct control *control)
{
	pthread_mutex_lock(&control->lock);
}

static void unlock(struct control *control)
{
	pthread_mutex_unlock(&control->lock);
}

/* Under the lock, so that a reaper which empties the list can't leave the descriptor readable. */
static void tell_loop(struct control *control)
{
	const uint64_t one = 1;

	/* It is far from its limit of 2^64 - 2, so the write can't fail. */
	sys_write(control->event_fd, &one, sizeof(one));
}

static void finish(struct control *control, struct control_job *job)
{
	list_push_back(&control->finished, &job->link);
	tell_loop(control);
}

static void cancel_waiting(struct control *control)
{
	struct list *node;

	while ((node = list_pop_front(&control->waiting)) != NULL) {
		struct control_job *job = list_entry(node, struct control_job, link);

		job->cancelled = true;
		finish(control, job);
	}
}

static void *control_main(void *arg)
{
	struct control *control = arg;
	struct list *node;

	lock(control);
	while (!control->stopping) {
		node = list_pop_front(&control->waiting);
		if (node) {
			struct control_job *job = list_entry(node, struct control_job, link);

			unlock(control);
			job->run(job);
			lock(control);
			finish(control, job);
		} else {
			pthread_cond_wait(&control->wake, &control->lock);
		}
	}
	cancel_waiting(control);
	control->has_ended = true;
	tell_loop(control);
	unlock(control);
	return NULL;
}

int control_init(struct control *control, const char *name)
{
	int rc;

	memset(control, 0, sizeof(*control));
	list_init(&control->waiting);
	list_init(&control->finished);
	control->event_fd = sys_eventfd2(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (control->event_fd < 0)
		return control->event_fd;
	pthread_mutex_init(&control->lock, NULL);
	pthread_cond_init(&control->wake, NULL);
	rc = thread_start(name, control_main, control, &control->thread);
	if (rc == 0)
		return 0;
	pthread_cond_destroy(&control->wake);
	pthread_mutex_destroy(&control->lock);
	fd_close(control->event_fd);
	return rc;
}

int control_fd(const struct control *control)
{
	return control->event_fd;
}

int control_submit(struct control *control, struct control_job *job)
{
	int rc = 0;

	assert(job->run && job->done);
	lock(control);
	if (control->stopping) {
		rc = CONTROL_STOPPED;
	} else if (control->jobs >= CONTROL_JOBS_MAX) {
		rc = CONTROL_FULL;
	} else {
		job->cancelled = false;
		list_init(&job->link);
		list_push_back(&control->waiting, &job->link);
		control->jobs++;
		pthread_cond_signal(&control->wake);
	}
	unlock(control);
	return rc;
}

static struct control_job *take_finished(struct control *control)
{
	struct list *node;
	uint64_t count;

	lock(control);
	node = list_pop_front(&control->finished);
	if (node)
		control->jobs--;
	else
		sys_read(control->event_fd, &count, sizeof(count));
	unlock(control);
	return node ? list_entry(node, struct control_job, link) : NULL;
}

bool control_is_wanted(struct control *control)
{
	bool is_wanted;

	lock(control);
	is_wanted = !list_is_empty(&control->waiting);
	unlock(control);
	return is_wanted;
}

void control_reap(struct control *control)
{
	struct control_job *job;

	/* done() may submit jobs that finish at once: those wait for the next call, so that other
	 * work of the loop gets its turn. */
	for (uint32_t i = 0; i < CONTROL_JOBS_MAX && (job = take_finished(control)) != NULL; i++)
		job->done(job);
}

void control_stop(struct control *control)
{
	lock(control);
	control->stopping = true;
	pthread_cond_signal(&control->wake);
	unlock(control);
}

bool control_is_idle(struct control *control)
{
	bool idle;

	lock(control);
	idle = control->has_ended && control->jobs == 0;
	unlock(control);
	return idle;
}

void control_deinit(struct control *control)
{
	control_stop(control);
	pthread_join(control->thread, NULL);
	control_reap(control);
	assert(control->jobs == 0);
	pthread_cond_destroy(&control->wake);
	pthread_mutex_destroy(&control->lock);
	fd_close(control->event_fd);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "fabric/control.h"

#include "lib/tap.h"

/* Longest wait for something that comes at once. Chosen: a sanitizer on a busy machine is slow. */
#define WAIT_MS 20000

struct work {
	struct control_job job;
	int number;
	pthread_t ran_on;
	int hold[2]; /* a pipe: run() waits for a byte, if there is one */
};

static struct control control;
static int finished[CONTROL_JOBS_MAX + 8];
static int finished_count, cancelled_count;

static void work_run(struct control_job *job)
{
	struct work *work = container_of(job, struct work, job);
	char byte;

	work->ran_on = pthread_self();
	work->number *= 2;
	if (work->hold[0])
		CHECK_EQ(read(work->hold[0], &byte, 1), 1);
}

static void work_done(struct control_job *job)
{
	struct work *work = container_of(job, struct work, job);

	cancelled_count += job->cancelled;
	finished[finished_count++] = work->number;
}

static void work_init(struct work *work, int number)
{
	*work = (struct work){.job = {.run = work_run, .done = work_done}, .number = number};
}

/* Reap until @count jobs are done in all. */
static bool reap(int count)
{
	struct pollfd wait = {.fd = control_fd(&control), .events = POLLIN};

	while (finished_count < count) {
		int rc = poll(&wait, 1, WAIT_MS);

		if (rc < 0 && errno == EINTR)
			continue;
		if (!CHECK_EQ(rc, 1))
			return false;
		control_reap(&control);
	}
	return true;
}

static bool start(void)
{
	finished_count = cancelled_count = 0;
	return CHECK_OK(control_init(&control, "test of control"));
}

TAP_CASE(jobs_run_elsewhere_in_order_and_are_done_here)
{
	static struct work work[100];

	REQUIRE(start());
	for (int i = 0; i < 100; i++) {
		work_init(&work[i], i);
		CHECK_EQ(control_submit(&control, &work[i].job), 0);
	}
	REQUIRE(reap(100));
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(finished[i], 2 * i);
		CHECK(!pthread_equal(work[i].ran_on, pthread_self()));
	}
	/* Nothing is left to tell. */
	control_reap(&control);
	CHECK_EQ(poll(&(struct pollfd){.fd = control_fd(&control), .events = POLLIN}, 1, 0), 0);
	control_deinit(&control);
}

static int rounds;

static void again(struct control_job *job)
{
	finished_count++;
	if (--rounds > 0)
		CHECK_EQ(control_submit(&control, job), 0);
}

TAP_CASE(done_may_submit_the_same_job_again)
{
	struct work work;

	REQUIRE(start());
	work_init(&work, 1);
	work.job.done = again;
	rounds = 5;
	CHECK_EQ(control_submit(&control, &work.job), 0);
	reap(5);
	CHECK_EQ(work.number, 32);
	control_deinit(&control);
}

TAP_CASE(the_queue_is_bounded)
{
	static struct work work[CONTROL_JOBS_MAX + 1];

	REQUIRE(start());
	for (uint32_t i = 0; i <= CONTROL_JOBS_MAX; i++)
		work_init(&work[i], (int)i);
	REQUIRE_OK(pipe(work[0].hold));
	for (uint32_t i = 0; i < CONTROL_JOBS_MAX; i++)
		CHECK_EQ(control_submit(&control, &work[i].job), 0);
	CHECK_EQ(control_submit(&control, &work[CONTROL_JOBS_MAX].job), CONTROL_FULL);
	CHECK_EQ(write(work[0].hold[1], "x", 1), 1);
	REQUIRE(reap((int)CONTROL_JOBS_MAX));
	CHECK_EQ(control_submit(&control, &work[CONTROL_JOBS_MAX].job), 0);
	REQUIRE(reap((int)CONTROL_JOBS_MAX + 1));
	control_deinit(&control);
	close(work[0].hold[0]);
	close(work[0].hold[1]);
}

/* The one that runs comes to its end, the others are told that they did not run. */
TAP_CASE(stopping_ends_the_running_job_and_cancels_the_rest)
{
	static struct work work[10];
	struct pollfd wait;

	REQUIRE(start());
	for (int i = 0; i < 10; i++)
		work_init(&work[i], i + 1);
	REQUIRE_OK(pipe(work[0].hold));
	for (int i = 0; i < 9; i++)
		CHECK_EQ(control_submit(&control, &work[i].job), 0);
	control_stop(&control);
	CHECK_EQ(control_submit(&control, &work[9].job), CONTROL_STOPPED);
	CHECK(!control_is_idle(&control));
	CHECK_EQ(write(work[0].hold[1], "x", 1), 1);
	REQUIRE(reap(9));
	/* A job that never began leaves its number alone. */
	CHECK(cancelled_count >= 8);
	for (int i = 1; i < 9; i++)
		CHECK_EQ(work[i].number, i + 1);
	wait = (struct pollfd){.fd = control_fd(&control), .events = POLLIN};
	while (!control_is_idle(&control) && CHECK_EQ(poll(&wait, 1, WAIT_MS), 1))
		control_reap(&control);
	control_deinit(&control);
	close(work[0].hold[0]);
	close(work[0].hold[1]);
}

TAP_CASE(deinit_calls_every_done)
{
	static struct work work[50];

	REQUIRE(start());
	for (int i = 0; i < 50; i++) {
		work_init(&work[i], i);
		CHECK_EQ(control_submit(&control, &work[i].job), 0);
	}
	control_deinit(&control);
	CHECK_EQ(finished_count, 50);
}

static atomic_int signals;

static void on_signal(int sig)
{
	(void)sig;
	atomic_fetch_add(&signals, 1);
}

static void run_mask(struct control_job *job)
{
	sigset_t set;

	(void)job;
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	CHECK(sigismember(&set, SIGTERM) == 1 && sigismember(&set, SIGUSR1) == 1);
	kill(getpid(), SIGUSR1);
}

/* A signal to the process is the main thread's, wherever it was raised. */
TAP_CASE(the_thread_takes_no_signals)
{
	struct sigaction action = {.sa_handler = on_signal}, old;
	struct work work;

	REQUIRE_OK(sigaction(SIGUSR1, &action, &old));
	REQUIRE(start());
	work_init(&work, 1);
	work.job.run = run_mask;
	CHECK_EQ(control_submit(&control, &work.job), 0);
	REQUIRE(reap(1));
	control_deinit(&control);
	/* A sanitizer delivers it at one of the next system calls. */
	for (int i = 0; i < 1000 && atomic_load(&signals) == 0; i++)
		usleep(1000);
	CHECK_EQ(atomic_load(&signals), 1);
	CHECK_OK(sigaction(SIGUSR1, &old, NULL));
}

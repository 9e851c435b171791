/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "sim/fiber.h"

/*
 * Virtual time and the choice of who runs next. Everything random in a run comes from one seed.
 *
 * A step is what a task does between two points at which it gives way. Time is counted in ticks:
 * one per step, and when nobody can run it jumps to the next thing that is due. An instant at which
 * only idle tasks (a program that computes, a daemon that has nothing to do) are due is a quiet
 * one: whatever is blocked then must have a reason.
 */

#define SCHED_TASKS_MAX 32
#define SCHED_FOREVER UINT64_MAX
/* Ticks with nothing due but idle system tasks, after which no program will ever run again. Chosen:
 * longer than any daemon stays away. */
#define SCHED_DULL_TICKS 40000u
/* A run that takes more steps than this is going round in circles. Chosen: 20 times the longest
 * seen. */
#define SCHED_STEPS_MAX 4000000u

enum task_state { TASK_UNUSED, TASK_READY, TASK_WAITING, TASK_DONE, TASK_DEAD };

struct task {
	struct fiber fiber;
	char name[16];
	void (*main)(void *arg);
	void *main_arg;
	enum task_state state;
	bool system;		 /* not waited for at the end of the run */
	bool idle;		 /* its pause is its own will, not a wait for something */
	uint64_t not_before;	 /* tick before which it does not run */
	const uint64_t *stopped; /* tick until which its process is stopped */
	/* While waiting. */
	bool (*ready)(void *arg);
	void *ready_arg;
	uint64_t deadline;
	bool noticed, timed_out;
};

struct sched {
	struct prng prng;
	uint64_t now, steps;
	struct task task[SCHED_TASKS_MAX];
	struct task *current; /* NULL outside of tasks */
	struct task *last;
	uint64_t dull_since;	       /* tick at which anything but an idle system task was due */
	unsigned int fine_pct;	       /* chance to give way at an atomic access */
	unsigned int sticky_pct;       /* chance that the same task goes on */
	unsigned int preempt_permille; /* chance that a task stands still for a while at a step */
	unsigned int lag_pct;	       /* chance that a wake-up is late */
	unsigned int spurious_pct; /* chance that a wait gets a time limit that nobody asked for */
	bool whole;		   /* the running task is not to be interrupted */
	bool may_stall;		   /* a run that stalls is over, and no worse for it */
	bool trace;
	char failure[400]; /* empty: none so far */
	uint64_t failed_step;
};

extern struct sched sched;

/* Start over with @seed; stacks are kept. */
void sched_init(uint64_t seed);
/* Add a task; it does not run before the next step. */
struct task *sched_spawn(const char *name, void (*fn)(void *arg), void *arg);
/* Run until every task that is not a system task has ended, or something failed. */
void sched_run(void);

/* The running task, for code that is called both inside and outside of tasks. */
static inline bool sched_in_task(void)
{
	return sched.current != NULL;
}

/* Report a failure and end the run; returns only outside of tasks. */
__attribute__((format(printf, 1, 2))) void sim_fail(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void sim_trace(const char *fmt, ...);

#define SIM_REQUIRE(cond, ...)                                                                     \
	do {                                                                                       \
		if (!(cond))                                                                       \
			sim_fail(__VA_ARGS__);                                                     \
	} while (0)

/* --- inside a task --------------------------------------------------------------------------- */

/* Give way: others may run now. */
void sim_step(void);
/* Sleep for @ticks; @idle as in struct task. */
void sim_pause(uint64_t ticks, bool idle);
/* Wait until @ready(@arg), at most @ticks: true, or false when time ran out. */
bool sim_wait(bool (*ready)(void *arg), void *arg, uint64_t ticks);
/* sim_wait() that may end early for no reason, as a wait of a program may. */
bool sim_wait_spurious(bool (*ready)(void *arg), void *arg, uint64_t ticks);

static inline uint64_t sim_below(uint64_t limit)
{
	return prng_below(&sched.prng, limit);
}

static inline bool sim_chance(unsigned int pct)
{
	return pct && prng_chance(&sched.prng, pct);
}

/* In [lo, hi], every order of magnitude equally likely. */
uint64_t sim_log(uint64_t lo, uint64_t hi);

/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "sim/hook.h"
#include "sim/oracle.h"
#include "sim/sched.h"

struct sched sched;

void sched_init(uint64_t seed)
{
	struct task *task;

	prng_init(&sched.prng, seed);
	sched.now = sched.steps = sched.failed_step = 0;
	sched.dull_since = 0;
	sched.whole = false;
	sched.current = sched.last = NULL;
	sched.failure[0] = 0;
	sched.may_stall = false;
	for (task = sched.task; task < sched.task + SCHED_TASKS_MAX; task++)
		task->state = TASK_UNUSED;
}

static void task_main(void *arg)
{
	struct task *task = arg;

	task->main(task->main_arg);
	task->state = TASK_DONE;
}

struct task *sched_spawn(const char *name, void (*fn)(void *arg), void *arg)
{
	static const uint64_t never_stopped;
	struct task *task = sched.task;

	while (task->state != TASK_UNUSED)
		if (++task == sched.task + SCHED_TASKS_MAX)
			__builtin_trap();
	fiber_init(&task->fiber, task_main, task);
	snprintf(task->name, sizeof(task->name), "%s", name);
	task->state = TASK_READY;
	task->system = task->idle = false;
	task->not_before = 0;
	task->stopped = &never_stopped;
	task->main = fn;
	task->main_arg = arg;
	return task;
}

static void print_tasks(void)
{
	static const char *const states[] = {"unused", "ready", "waits", "done", "dead"};
	const struct task *task;

	for (task = sched.task; task < sched.task + SCHED_TASKS_MAX; task++)
		if (task->state == TASK_READY || task->state == TASK_WAITING)
			printf("# %8lu %-8s %s%s\n", sched.now, task->name, states[task->state],
			       task->idle ? " idle" : "");
}

static void report(const char *fmt, va_list args)
{
	if (sched.failure[0])
		return;
	vsnprintf(sched.failure, sizeof(sched.failure), fmt, args);
	sched.failed_step = sched.steps;
	if (sched.trace)
		print_tasks();
}

void sim_fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	report(fmt, args);
	va_end(args);
	while (sched.current)
		fiber_yield(&sched.current->fiber);
}

void sim_trace(const char *fmt, ...)
{
	va_list args;

	if (!sched.trace)
		return;
	printf("# %8lu %-8s ", (unsigned long)sched.now, sched.current ? sched.current->name : "-");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

static void give_way(void)
{
	if (sched.preempt_permille && sim_below(1000) < sched.preempt_permille)
		sched.current->not_before = sched.now + sim_log(1, 1500);
	fiber_yield(&sched.current->fiber);
}

void sim_access(void)
{
	if (!sched.current)
		return;
	oracle_look();
	oracle_touched();
	if (!sched.whole && sim_chance(sched.fine_pct))
		give_way();
}

void sim_step(void)
{
	give_way();
}

void sim_pause(uint64_t ticks, bool idle)
{
	struct task *self = sched.current;

	self->not_before = sched.now + ticks;
	self->idle = idle;
	give_way();
	self->idle = false;
}

bool sim_wait(bool (*ready)(void *arg), void *arg, uint64_t ticks)
{
	struct task *self = sched.current;

	self->ready = ready;
	self->ready_arg = arg;
	self->deadline = ticks < SCHED_FOREVER - sched.now ? sched.now + ticks : SCHED_FOREVER;
	self->noticed = self->timed_out = false;
	self->state = TASK_WAITING;
	give_way();
	return !self->timed_out;
}

bool sim_wait_spurious(bool (*ready)(void *arg), void *arg, uint64_t ticks)
{
	if (sim_chance(sched.spurious_pct))
		ticks = u64_min(ticks, 1 + sim_below(3000));
	return sim_wait(ready, arg, ticks);
}

uint64_t sim_log(uint64_t lo, uint64_t hi)
{
	unsigned int bits = 0;

	while ((hi - lo) >> bits)
		bits++;
	return u64_min(hi, lo + sim_below((uint64_t)1 << sim_below(bits + 1)));
}

/* --- the choice ------------------------------------------------------------------------------- */

/* Whether @task can run now. A wake-up may be late. */
static bool task_can_run(struct task *task)
{
	if (task->state == TASK_WAITING) {
		if (!task->noticed && task->ready(task->ready_arg)) {
			task->noticed = true;
			if (sim_chance(sched.lag_pct))
				task->not_before = sched.now + sim_log(1, 2000);
		} else if (!task->noticed && task->deadline <= sched.now) {
			task->noticed = task->timed_out = true;
		}
		if (!task->noticed)
			return false;
	} else if (task->state != TASK_READY) {
		return false;
	}
	return u64_max(task->not_before, *task->stopped) <= sched.now;
}

/* When @task will run by itself, if nothing else happens. */
static uint64_t task_due(const struct task *task)
{
	uint64_t floor;

	if (task->state != TASK_READY && task->state != TASK_WAITING)
		return SCHED_FOREVER;
	floor = u64_max(task->not_before, *task->stopped);
	if (task->state == TASK_READY || (task->state == TASK_WAITING && task->noticed))
		return floor;
	if (task->deadline != SCHED_FOREVER)
		return u64_max(floor, task->deadline);
	return SCHED_FOREVER;
}

/* Nobody can run: move on to what is due next. False if nothing is. */
static bool sched_jump(void)
{
	uint64_t due = SCHED_FOREVER;
	bool quiet = true;
	struct task *task;

	for (task = sched.task; task < sched.task + SCHED_TASKS_MAX; task++) {
		if (task_due(task) == SCHED_FOREVER)
			continue;
		due = u64_min(due, task_due(task));
		if (!task->system || !task->idle)
			sched.dull_since = sched.now;
		if (task->state == TASK_READY ? !task->idle : task->noticed)
			quiet = false;
	}
	if (quiet)
		oracle_quiet();
	if (due == SCHED_FOREVER || sched.now - sched.dull_since > SCHED_DULL_TICKS)
		return false;
	sched.now = u64_max(sched.now, due);
	return true;
}

static struct task *sched_pick(void)
{
	struct task *can[SCHED_TASKS_MAX], *task;
	unsigned int n = 0;
	bool last = false;

	for (task = sched.task; task < sched.task + SCHED_TASKS_MAX; task++) {
		if (!task_can_run(task))
			continue;
		can[n++] = task;
		last |= task == sched.last;
	}
	if (!n)
		return NULL;
	if (last && sim_chance(sched.sticky_pct))
		return sched.last;
	return can[sim_below(n)];
}

static bool sched_over(void)
{
	const struct task *task;

	for (task = sched.task; task < sched.task + SCHED_TASKS_MAX; task++)
		if (!task->system && (task->state == TASK_READY || task->state == TASK_WAITING))
			return false;
	return true;
}

void sched_run(void)
{
	struct task *task;

	while (!sched.failure[0] && !sched_over()) {
		task = sched_pick();
		if (!task) {
			if (sched_jump() || sched.failure[0])
				continue;
			if (sched.may_stall)
				return;
			sim_fail("stalled: nothing is due, but not all have ended");
			continue;
		}
		sched.steps++;
		sched.now++;
		sched.last = sched.current = task;
		task->state = TASK_READY;
		fiber_resume(&task->fiber);
		sched.current = NULL;
		oracle_look();
		if (sched.steps > SCHED_STEPS_MAX)
			sim_fail("going round in circles: too many steps");
	}
}

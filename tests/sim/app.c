/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "base/util.h"
#include "sim/app.h"
#include "sim/daemon.h"
#include "sim/io.h"
#include "sim/oracle.h"
#include "sim/oracle_words.h"
#include "sim/plan.h"

/* What the threads of a program share. */
struct program {
	uint64_t claimed; /* bytes that writers have taken on */
	bool quit;	  /* wants no more */
	bool maimed;	  /* a process of it was killed: the others see the rest through */
};

#define THREAD_CONTROL PLAN_THREADS_MAX
#define THREAD_JANITOR (PLAN_THREADS_MAX + 1)

static struct program programs[2];

static struct program *program_of(const struct thread *thread)
{
	return &programs[thread->side->id];
}

static const struct side_plan *plan_of(const struct thread *thread)
{
	return &plan.side[thread->side->id];
}

/* How many threads of the program still send, receive. */
static unsigned int writers(const struct thread *thread)
{
	unsigned int i, n = 0;

	for (i = 0; i < SIDE_THREADS_MAX; i++)
		n += thread->side->thread[i].alive && thread->side->thread[i].writes;
	return n;
}

static unsigned int readers(const struct thread *thread)
{
	unsigned int i, n = 0;

	for (i = 0; i < SIDE_THREADS_MAX; i++)
		n += thread->side->thread[i].alive && thread->side->thread[i].reads;
	return n;
}

static void app_pause(const struct thread *thread)
{
	const struct side_plan *p = plan_of(thread);

	if (sim_chance(p->pause_pct))
		sim_pause(sim_log(1, p->pause_ticks), true);
}

/* Bytes of the next send; 0 when all are taken. */
static size_t claim(const struct thread *thread)
{
	const struct side_plan *p = plan_of(thread);
	struct program *program = program_of(thread);
	uint64_t n = p->send_lo + sim_below(p->send_hi - p->send_lo + 1);

	n = u64_min(n, p->total_bytes - program->claimed);
	if (program->quit)
		n = 0;
	program->claimed += n;
	return n;
}

static size_t receive_size(const struct thread *thread)
{
	const struct side_plan *p = plan_of(thread);

	return p->receive_lo + sim_below(p->receive_hi - p->receive_lo + 1);
}

static bool in_use(void *arg)
{
	const struct side *side = arg;

	return side->lane_on;
}

/* Nothing more to send for this thread: the last one does what the program's end demands. */
static void written_all(struct thread *thread)
{
	struct program *program = program_of(thread);

	thread->writes = false;
	if (writers(thread) || kernel.sock[thread->side->id].shut)
		return;
	if (plan_of(thread)->shut_at_start && sim_wait(in_use, thread->side, 5000))
		sim_pause(sim_below(150), false);
	if (!program->maimed && (plan_of(thread)->finish != FINISH_SHUT || program->quit))
		return;
	io_shutdown(thread);
}

/* Whether the program wants no more bytes. */
static bool read_enough(const struct thread *thread)
{
	const struct side_plan *p = plan_of(thread);
	uint64_t got = oracle_got(thread->side->id);

	if (got >= p->quit_bytes) {
		program_of(thread)->quit = true;
		oracle_excuse();
		return true;
	}
	return p->finish == FINISH_COUNT && got >= plan.side[!thread->side->id].total_bytes;
}

/* --- roles ------------------------------------------------------------------------------------ */

static void run_writer(struct thread *thread)
{
	size_t n;
	int rc = 0;

	while (!rc && (n = claim(thread))) {
		rc = io_send(thread, n);
		if (rc)
			oracle_send_failed(thread->side->id, rc);
		app_pause(thread);
	}
	thread->writes = false;
	if (!rc)
		written_all(thread);
}

static void run_reader(struct thread *thread)
{
	while (!read_enough(thread) && io_receive(thread, receive_size(thread)) > 0)
		app_pause(thread);
	thread->reads = false;
}

static void run_loop(struct thread *thread)
{
	bool moved;
	struct need need, more;
	struct mark mark;
	size_t left = 0;
	ssize_t n;

	while (thread->writes || thread->reads) {
		mark = thread_mark(thread);
		need = (struct need){0};
		moved = false;
		if (thread->writes && !left)
			left = claim(thread);
		if (thread->writes && !left) {
			written_all(thread);
			moved = true;
		}
		if (thread->writes) {
			n = io_send_try(thread, left, &more);
			if (n > 0)
				left -= (size_t)n;
			else if (n != -EAGAIN) {
				oracle_send_failed(thread->side->id, (int)n);
				thread->writes = false;
			}
			moved |= n != -EAGAIN;
			need.kinds |= more.kinds;
			need.events |= more.events;
		}
		if (thread->reads && read_enough(thread)) {
			thread->reads = false;
			moved = true;
		}
		if (thread->reads) {
			n = io_receive_try(thread, receive_size(thread), &more);
			if (n <= 0 && n != -EAGAIN) {
				oracle_end_told(thread->side->id, (int)n);
				thread->reads = false;
			}
			moved |= n != -EAGAIN;
			need.kinds |= more.kinds;
			need.events |= more.events;
		}
		app_pause(thread);
		if (moved || io_maintain(thread, &need))
			continue;
		thread->wants = (thread->writes ? KERNEL_OUT : 0) | (thread->reads ? KERNEL_IN : 0);
		thread_sleep(thread, &mark, &need, SCHED_FOREVER);
		thread->wants = 0;
	}
}

static void run_turns(struct thread *thread)
{
	unsigned int round;
	uint64_t left;
	ssize_t n = 1;
	int rc = 0;

	for (round = 0; round < plan.rounds && !rc && n > 0; round++) {
		left = plan.round_bytes[round];
		if (round % 2 == thread->side->id) {
			rc = io_send(thread, left);
			if (rc)
				oracle_send_failed(thread->side->id, rc);
		} else {
			while (left && (n = io_receive(thread, u64_min(left, 65536))) > 0)
				left -= (uint64_t)n;
		}
		app_pause(thread);
	}
	thread->writes = false;
	if (!rc && n > 0) {
		written_all(thread);
		while (plan_of(thread)->finish != FINISH_COUNT && io_receive(thread, 100) > 0)
			;
	}
	thread->reads = false;
}

/* --- life and death --------------------------------------------------------------------------- */

/* The process of a thread that is through closes when it has no other thread. */
static void thread_over(struct thread *thread)
{
	struct side *side = thread->side;
	struct thread *control = &side->thread[THREAD_CONTROL];
	unsigned int i;

	thread->alive = thread->writes = thread->reads = false;
	for (i = 0; i < SIDE_THREADS_MAX; i++)
		if (side->thread[i].alive && &side->thread[i] != control &&
		    side->thread[i].proc == thread->proc)
			return;
	/* Where it stands, as threads do when their process ends. */
	if (control->alive && control->proc == thread->proc) {
		control->alive = false;
		control->task->state = TASK_DEAD;
	}
	side->proc_alive[thread->proc] = false;
	if (side_is_alive(side)) {
		sim_step();
		kernel_close(side->id);
		return;
	}
	/* The last one closes; its own calls still count. */
	thread->alive = true;
	side->proc_alive[thread->proc] = true;
	io_close(thread);
	thread->alive = false;
	side->proc_alive[thread->proc] = false;
}

static void thread_main(void *arg)
{
	struct thread *thread = arg;
	unsigned int index = (unsigned int)(thread - thread->side->thread);

	switch (plan_of(thread)->role[index]) {
	case ROLE_WRITE:
		run_writer(thread);
		break;
	case ROLE_READ:
		run_reader(thread);
		break;
	case ROLE_LOOP:
		run_loop(thread);
		break;
	case ROLE_TURNS:
		run_turns(thread);
		break;
	}
	thread_over(thread);
}

/* What a program's survivors do when they find half of it gone. */
static void janitor_main(void *arg)
{
	struct thread *thread = arg;

	sim_pause(sim_log(1, 20000), true);
	if (!writers(thread) && !kernel.sock[thread->side->id].shut)
		io_shutdown(thread);
	if (!readers(thread))
		while (io_receive(thread, receive_size(thread)) > 0)
			;
	thread_over(thread);
}

static void spawn(struct side *side, unsigned int index, unsigned int proc, void (*fn)(void *arg))
{
	struct thread *thread = &side->thread[index];
	char name[16];

	snprintf(name, sizeof(name), "%c%u.%u", 'A' + side->id, index, proc);
	thread->proc = proc;
	thread->alive = true;
	thread->task = sched_spawn(name, fn, thread);
	thread->task->stopped = &side->stopped;
}

/* All threads of a process end here and now. */
static void kill_proc(struct side *side, unsigned int proc)
{
	unsigned int i;

	sim_trace("kills process %u of side %u", proc, side->id);
	for (i = 0; i < SIDE_THREADS_MAX; i++) {
		struct thread *thread = &side->thread[i];

		if (!thread->alive || thread->proc != proc)
			continue;
		thread->alive = false;
		thread->task->state = TASK_DEAD;
	}
	side->proc_alive[proc] = false;
	programs[side->id].maimed = true;
	oracle_excuse();
	cover(side_is_alive(side) ? COVER_KILL_PROC : COVER_KILL_SIDE);
	if (!side_is_alive(side))
		oracle_killed(side->id);
	kernel_close(side->id);
	daemon_hear_death();
	if (side_is_alive(side))
		spawn(side, THREAD_JANITOR, !proc, janitor_main);
}

static bool on_ring(void *arg)
{
	const struct side *side = arg;

	return words_ring_open(side) || words_readable(side);
}

static bool left_unread(void *arg)
{
	const struct side *side = arg;

	return words_readable(side) && words_peer_shut(side);
}

/* Let some time pass before the next thing that is done to @side. */
static void wait_event(struct side *side, uint64_t ticks)
{
	if (plan.side[side->id].on_ring)
		sim_wait(on_ring, side, 20000);
	sim_pause(sim_log(1, ticks), true);
}

static bool moment_has_come(void *arg)
{
	const struct side *side = arg;
	enum moment moment = plan.side[side->id].kill_moment;
	unsigned int i;

	if ((moment == MOMENT_UNTOLD && !words_untold(side)) ||
	    (moment == MOMENT_RINGING && !side->ringing))
		return false;

	for (i = 0; i < SIDE_THREADS_MAX; i++) {
		const struct thread *thread = &side->thread[i];

		if (thread->alive && thread->proc == plan.side[side->id].kill_proc &&
		    (side->tx_lock.owner == thread->task || side->rx_lock.owner == thread->task))
			return true;
	}
	return false;
}

static void killer_main(void *arg)
{
	struct side *side = arg;
	const struct side_plan *p = &plan.side[side->id];

	wait_event(side, p->kill_tick);
	if (p->kill_moment != MOMENT_ANY)
		sim_wait(moment_has_come, side, 20000);
	if (p->kill_moment == MOMENT_LOCK)
		sim_pause(sim_below(12), false);
	if (side->proc_alive[p->kill_proc])
		kill_proc(side, p->kill_proc);
}

/* Whatever changes lanes and schedules, beside the threads that do the work. */
static void control_main(void *arg)
{
	struct thread *thread = arg;
	struct side *side = thread->side;
	const struct side_plan *p = plan_of(thread);
	unsigned int leaves = p->leaves, stops = p->stops, freezes = p->freezes;

	while (leaves + stops + freezes) {
		uint64_t what = sim_below(leaves + stops + freezes);

		wait_event(side, p->event_ticks);
		if (what < leaves) {
			leaves--;
			io_leave(thread);
		} else if (what < leaves + stops) {
			stops--;
			if (p->stop_late)
				sim_wait(left_unread, side, 10000);
			io_hand_over(thread, 1 + sim_below(p->stop_ticks));
		} else {
			freezes--;
			side->stopped = sched.now + sim_log(1, 30000);
			cover(COVER_FREEZE);
		}
	}
}

static void side_start(struct side *side)
{
	const struct side_plan *p = &plan.side[side->id];
	unsigned int i;

	programs[side->id] = (struct program){0};
	kernel.sock[side->id].holders = p->procs;
	for (i = 0; i < p->procs; i++)
		side->proc_alive[i] = true;
	for (i = 0; i < p->threads; i++) {
		side->thread[i].writes = p->role[i] != ROLE_READ;
		side->thread[i].reads = p->role[i] != ROLE_WRITE;
		side->thread[i].blocking = p->blocking && p->role[i] != ROLE_LOOP;
		spawn(side, i, p->proc[i], thread_main);
	}
	spawn(side, THREAD_CONTROL, 0, control_main);
	side->thread[THREAD_CONTROL].task->system = true;
	if (p->kill_tick)
		sched_spawn("killer", killer_main, side)->system = true;
}

void app_start(void)
{
	side_start(&sides[0]);
	side_start(&sides[1]);
}

/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "core/lane_fast.h"
#include "sim/oracle.h"
#include "sim/plan.h"
#include "sim/side.h"

struct side sides[2];
static uint8_t buffers[2][SIDE_THREADS_MAX][THREAD_BUFFER_BYTES];

void side_init(struct side *side, unsigned int id)
{
	unsigned int i;

	memset(side, 0, sizeof(*side));
	side->id = id;
	for (i = 0; i < SIDE_THREADS_MAX; i++) {
		side->thread[i].side = side;
		side->thread[i].buffer = buffers[id][i];
	}
}

bool side_is_alive(const struct side *side)
{
	return side->proc_alive[0] || side->proc_alive[1];
}

void side_ring(struct side *side)
{
	sim_step();
	side->bell++;
	sim_trace("rings the bell of side %u", side->id);
}

/* --- locks ------------------------------------------------------------------------------------ */

static bool lock_is_free(void *arg)
{
	const struct side_lock *lock = arg;

	return !lock->owner || lock->owner->state == TASK_DEAD;
}

/* True if the last holder died with it. */
static bool lock_take(struct side_lock *lock)
{
	bool died;

	sim_step();
	while (!lock_is_free(lock))
		sim_wait(lock_is_free, lock, SCHED_FOREVER);
	died = lock->owner != NULL;
	lock->owner = sched.current;
	return died;
}

void side_lock_tx(struct side *side)
{
	if (lock_take(&side->tx_lock) && side->lane_on) {
		sim_trace("recovers the transmit lock");
		cover(COVER_RECOVERED);
		lane_tx_recover(&side->lane);
	}
}

void side_lock_rx(struct side *side)
{
	if (lock_take(&side->rx_lock) && side->lane_on) {
		sim_trace("recovers the receive lock");
		cover(COVER_RECOVERED);
		lane_rx_recover(&side->lane);
	}
}

static void ring_due(struct side *side, struct lane_wake *wake)
{
	struct lane_bells bells;

	if (sched.steps % 4 && lane_wakes_nobody(&side->lane, wake))
		return;
	if (!lane_bells_due(&side->lane, wake, &bells))
		return;
	side->ringing = bells.peer;
	if (bells.peer)
		side_ring(side_peer(side));
	side->ringing = false;
	if (bells.self)
		side_ring(side);
	sim_step();
	lane_rung(wake, &bells);
}

void side_unlock_tx(struct side *side)
{
	if (side->lane_on)
		ring_due(side, &side->lane.st->tx.wake);
	sim_step();
	side->tx_lock.owner = NULL;
}

void side_unlock_rx(struct side *side)
{
	if (side->lane_on)
		ring_due(side, &side->lane.st->rx.wake);
	sim_step();
	side->rx_lock.owner = NULL;
}

/* --- in-flight slots -------------------------------------------------------------------------- */

unsigned int side_sends_in_flight(const struct side *side)
{
	unsigned int i, n = 0;

	for (i = 0; i < SIDE_THREADS_MAX; i++)
		n += side->thread[i].alive && side->thread[i].in_send;
	return n;
}

unsigned int side_uncovered(const struct side *side)
{
	unsigned int i, n = 0;

	for (i = 0; i < SIDE_THREADS_MAX; i++)
		n += side->thread[i].alive && side->thread[i].uncovered;
	return n;
}

/* --- epochs ----------------------------------------------------------------------------------- */

void side_read_mail(struct thread *thread)
{
	struct side *side = thread->side;

	if (!side->mail || side->bare || side->pinned)
		return;
	side_lock_tx(side);
	side_lock_rx(side);
	if (side->mail && !side->pinned && !side->bare) {
		sim_trace("begins epoch %u", side->mail_epoch);
		oracle_begin(side->id);
		side->mail_lane.st = &side->state[side->mail_epoch & 1];
		lane_begin(&side->mail_lane, side->mail_epoch);
		if (side->shut)
			lane_tx_close(&side->mail_lane);
		/* One store in a real library: whoever dies before it has begun nothing. */
		side->lane = side->mail_lane;
		side->lane_on = true;
		side->mail = false;
		lane_rx_ready(&side->lane, side_uncovered(side));
	}
	side_unlock_rx(side);
	side_unlock_tx(side);
}

void side_broken(struct side *side)
{
	oracle_broken(side->id);
	side->lane_on = false;
	kernel_abort(side->id);
}

void side_saw_fin(struct side *side)
{
	side->fin_seen = true;
}

/* --- sleeping --------------------------------------------------------------------------------- */

static const struct half_ctl *side_half(const struct side *side)
{
	return side->lane_on ? side->lane.own : NULL;
}

struct mark thread_mark(const struct thread *thread)
{
	const struct side *side = thread->side;
	struct mark mark = {.own = side_half(side)};

	if (mark.own)
		mark.words = wake_mark(mark.own, side->lane.peer);
	return mark;
}

static bool thread_may_run(void *arg)
{
	const struct thread *thread = arg;

	return thread->bell_seen != thread->side->bell ||
	       (kernel_events(thread->side->id) & thread->wake_events);
}

static bool thread_has_events(void *arg)
{
	const struct thread *thread = arg;

	return kernel_events(thread->side->id) & thread->wake_events;
}

bool thread_block(struct thread *thread, unsigned int events)
{
	thread->wake_events = events;
	return sim_wait_spurious(thread_has_events, thread, SCHED_FOREVER);
}

void thread_sleep(struct thread *thread, const struct mark *mark, const struct need *need,
		  uint64_t ticks)
{
	struct side *side = thread->side;

	if (mark->own && mark->own == side_half(side)) {
		wake_arm(side->lane.own, need->kinds);
		if (!wake_may_sleep(side->lane.own, side->lane.peer, need->kinds, &mark->words))
			return;
	}
	/* What is to be waited for is another thing in another epoch. */
	if (mark->own != side_half(side))
		return;
	sim_step();
	thread->wake_events = need->events;
	sim_trace("sleeps for kinds %u, events %u", need->kinds, need->events);
	sim_wait_spurious(thread_may_run, thread, ticks);
	sim_trace("wakes");
	thread->bell_seen = side->bell;
	sim_step();
}

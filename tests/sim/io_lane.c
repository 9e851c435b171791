/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "sim/io.h"
#include "sim/oracle.h"
#include "sim/oracle_words.h"
#include "sim/plan.h"
#include "sim/remote.h"

/* The epoch may be over: tell the daemon, and perhaps forget the lane. */
static int report_drained(struct side *side)
{
	int rc;

	if (side->drained == side->lane.st->epoch || side->lane.st->tx.phase != TX_ENDED ||
	    side->lane.st->rx.phase != RX_ENDED)
		return 0;
	side_lock_tx(side);
	side_lock_rx(side);
	rc = side->drained == side->lane.st->epoch ? 0 : lane_is_done(&side->lane);
	if (rc == 1) {
		sim_trace("side %u has drained epoch %u", side->id, side->lane.st->epoch);
		side->drained = side->lane.st->epoch;
		if (side->lane.remote)
			kernel.sock[side->id].linger0 = false;
		/* The daemon may have died before it did. */
		if (side->lane.remote && side->shut)
			kernel_shutdown(side->id);
		cover(COVER_DRAINED);
		if (sim_chance(50)) {
			side->lane_on = false;
			side_ring(side); /* sleepers go on to TCP */
		}
	}
	if (rc < 0)
		side_broken(side);
	side_unlock_rx(side);
	side_unlock_tx(side);
	return rc < 0 ? rc : 0;
}

int io_maintain(struct thread *thread, struct need *need)
{
	struct side *side = thread->side;
	struct need more;
	ssize_t n;

	if (!side->lane_on || side->bare)
		return 0;
	/* Errors of the connection are for the call itself to find. */
	if (io_receive_try(thread, 0, &more) == -EBADMSG)
		return -EBADMSG;
	n = io_send_try(thread, 0, &more);
	if (n == -EBADMSG)
		return -EBADMSG;
	if (n == -EAGAIN)
		need->events |= more.events & KERNEL_OUT;
	return side->lane_on ? report_drained(side) : 0;
}

/* Until the own direction is on TCP, for @len bytes: 1; 0 when @until has passed; -errno. */
static int wait_tcp(struct thread *thread, size_t len, uint64_t until)
{
	struct side *side = thread->side;
	struct lane_plan lane_plan;
	struct mark mark;
	struct need need, more;
	int rc;

	for (;;) {
		mark = thread_mark(thread);
		side_lock_tx(side);
		rc = side->lane_on ? io_tx_route(side, len, &lane_plan) : TX_VIA_TCP;
		side_unlock_tx(side);
		if (rc < 0 || rc == TX_VIA_TCP)
			return rc < 0 ? rc : 1;
		if (kernel.sock[side->id].err)
			return -kernel.sock[side->id].err;
		if (sched.now >= until)
			return 0;
		if (!side->fin_seen && (kernel_events(side->id) & KERNEL_GONE)) {
			side_saw_fin(side);
			continue;
		}
		need.kinds = WAKE_ALL;
		need.events = side->fin_seen ? KERNEL_ERR : KERNEL_GONE;
		if (rc == TX_VIA_BACKLOG)
			need.events |= KERNEL_OUT;
		if (io_receive_try(thread, 0, &more) < 0)
			return -EBADMSG;
		thread_sleep(thread, &mark, &need, until - sched.now);
	}
}

/* How long a shutdown or a close waits for a backlog. */
#define SHUT_TICKS 20000u

/* Between hosts the daemon shuts, when all has arrived: a FIN must not overtake the ring. */
static bool daemon_shuts(const struct side *side)
{
	return side->lane.remote && remote.host[side->id].holds &&
	       side->lane.st->epoch == daemons.epochs;
}

void io_shutdown(struct thread *thread)
{
	struct side *side = thread->side;
	struct need more;
	bool on;
	int rc = 0;

	side_read_mail(thread);
	side_lock_tx(side);
	side_lock_rx(side);
	/* Under the lock: an epoch that begins from here on begins closed. */
	side->shut = true;
	on = side->lane_on && !side->bare;
	if (on)
		lane_tx_close(&side->lane);
	side_unlock_rx(side);
	side_unlock_tx(side);
	/* A start of the peer is acknowledged before the FIN. */
	if (on && io_receive_try(thread, 0, &more) == -EBADMSG)
		return;
	if (on && daemon_shuts(side)) {
		oracle_shut(side->id);
		return;
	}
	if (on)
		rc = wait_tcp(thread, 0, sched.now + SHUT_TICKS);
	if (on && !rc) {
		/* Not all of a backlog went in time, and a FIN must not stand in its place. */
		oracle_excuse();
		kernel_abort(side->id);
		return;
	}
	if (rc == -EBADMSG)
		side_broken(side);
	sim_step();
	sim_trace("side %u shuts", side->id);
	oracle_shut(side->id);
	kernel_shutdown(side->id);
	cover(COVER_SHUTDOWN);
}

void io_close(struct thread *thread)
{
	struct side *side = thread->side;
	uint64_t before;
	int rc = 0, unread = 0;

	side_read_mail(thread);
	if (side->lane_on && !side->bare) {
		side_lock_tx(side);
		side_lock_rx(side);
		before = plan.remote ? 0 : words_unread(side->id);
		unread = lane_close(&side->lane);
		SIM_REQUIRE(unread || !before || !words_unread(side->id) || plan.hostile,
			    "side %u closes quietly with %lu bytes unread", side->id, before);
		side_unlock_rx(side);
		side_unlock_tx(side);
		rc = unread < 0 ? unread : 0;
		if (!rc && !daemon_shuts(side))
			rc = wait_tcp(thread, 0, sched.now + SHUT_TICKS);
		/* Not all of a backlog went in time: the close will be a reset. */
		if (!rc && !daemon_shuts(side))
			oracle_excuse();
	}
	if (unread == 1) {
		kernel.sock[side->id].linger0 = true;
		cover(COVER_CLOSE_UNREAD);
	}
	if (rc == -EBADMSG)
		side_broken(side);
	sim_step();
	sim_trace("side %u closes", side->id);
	oracle_shut(side->id);
	/* Nobody is left who could bring what is on its way. */
	if (side->lane.remote && !daemon_shuts(side))
		oracle_excuse();
	kernel_close(side->id);
}

void io_leave(struct thread *thread)
{
	struct side *side = thread->side;

	if (!side->lane_on || side->bare)
		return;
	side_lock_tx(side);
	side_lock_rx(side);
	lane_leave(&side->lane);
	side_unlock_rx(side);
	side_unlock_tx(side);
	cover(COVER_LEAVE);
}

/* Ask for the rest on TCP and wait for the answer. */
static int hand_over_receive(struct thread *thread, uint64_t until)
{
	struct need need = {WAKE_ALL, KERNEL_GONE}, more;
	struct side *side = thread->side;
	struct mark mark;
	int rc;

	side_lock_rx(side);
	rc = lane_rx_stop(&side->lane);
	side_unlock_rx(side);
	while (!rc && sched.now < until) {
		mark = thread_mark(thread);
		side_lock_rx(side);
		rc = lane_rx_stop_poll(&side->lane);
		side_unlock_rx(side);
		if (rc)
			break;
		if (kernel_events(side->id) & KERNEL_GONE)
			return -ECONNRESET;
		if (io_send_try(thread, 0, &more) == -EBADMSG)
			return -EBADMSG;
		thread_sleep(thread, &mark, &need, until - sched.now);
	}
	if (rc)
		return rc;
	side_lock_rx(side);
	rc = lane_rx_resume(&side->lane);
	side_unlock_rx(side);
	cover(COVER_STOP_RESUMED);
	return rc;
}

int io_hand_over(struct thread *thread, uint64_t ticks)
{
	uint64_t until = sched.now + ticks;
	struct side *side = thread->side;
	int rc;

	if (side->bare)
		return 0;
	side_lock_tx(side);
	side->pinned = side->lane_on;
	side_unlock_tx(side);
	if (!side->pinned)
		return 0;
	cover(COVER_STOP_ASKED);
	rc = hand_over_receive(thread, until);
	if (rc == -EAGAIN)
		cover(COVER_STOP_REFUSED);
	if (rc == 1) {
		cover(COVER_STOP_ANSWERED);
		side_lock_tx(side);
		rc = lane_tx_leave(&side->lane);
		side_unlock_tx(side);
		if (rc >= 0)
			rc = wait_tcp(thread, 1, until);
	}
	if (rc == 1 && plan.side[side->id].bare) {
		side->bare = true;
		cover(COVER_BARE);
	}
	if (rc == -EBADMSG)
		side_broken(side);
	side->pinned = false;
	return rc;
}

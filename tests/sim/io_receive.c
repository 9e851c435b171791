/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "core/lane_fast.h"
#include "sim/io.h"
#include "sim/oracle.h"
#include "sim/plan.h"

int io_consumed(struct side *side)
{
	const typeof(side->lane.st->rx) *rx = &side->lane.st->rx;

	if (!kernel_consumed(side->id, &side->consumed)) {
		side->counted = side->lane.st->epoch;
		return 0;
	}
	if (side->counted == side->lane.st->epoch)
		return 0;
	/* After a reset bytes before the ring may be missing. */
	if (kernel.sock[side->id].err)
		return -ENOTCONN;
	/* All that came before the ring is here, and nothing else yet. */
	side->consumed = tcp_count(rx->start.v - kernel_readable(side->id));
	side->counted = side->lane.st->epoch;
	return 0;
}

static ssize_t receive_ring(struct thread *thread, const struct lane_plan *route)
{
	struct side *side = thread->side;
	const uint8_t *ring = half_ring_const(side->lane.peer);
	size_t done = 0;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		SIM_REQUIRE(route->spans.pos[i] + route->spans.len[i] <= side->lane.peer_bytes,
			    "side %u is to read outside of the ring", side->id);
		memcpy(thread->buffer + done, ring + route->spans.pos[i], route->spans.len[i]);
		done += route->spans.len[i];
		sim_step();
	}
	oracle_received(side->id, thread->buffer, done);
	lane_rx_consume(&side->lane, done);
	oracle_consumed(side->id);
	sim_trace("consumes %zu", done);
	return (ssize_t)done;
}

/*
 * TCP has come to an end, with @tcp as its result (0 or -errno). What the program is told: 0,
 * -errno; or -EAGAIN when there is more to read after all, -EALREADY when there may be.
 */
static ssize_t receive_eof(struct side *side, ssize_t tcp)
{
	sim_step();
	switch (lane_rx_eof(&side->lane)) {
	case LANE_EOF_NOT_YET:
		return -EAGAIN;
	case LANE_EOF_TCP:
	case LANE_EOF_KILLED:
		return tcp;
	case LANE_EOF_WAIT:
		return tcp ? tcp : -EALREADY;
	case LANE_EOF_RESET:
		cover(COVER_RESET_VERDICT);
		return -ECONNRESET;
	default:
		return -EBADMSG;
	}
}

/* The end of a connection as the socket shows it: 0 a FIN, -errno. */
static ssize_t kernel_end(unsigned int side)
{
	if (kernel_events(side) & KERNEL_RDHUP)
		return 0;
	return -kernel.sock[side].err;
}

/* The connection was reset and the ring can't be reached: what is left on TCP, then the error. */
static ssize_t receive_cut(struct thread *thread, size_t len)
{
	unsigned int side = thread->side->id;
	ssize_t n = len ? kernel_receive(side, thread->buffer, len) : 0;

	return n || !len ? n : -kernel.sock[side].err;
}

/* The long way would have said the same. */
static void check_fast(const struct side *side, const struct lane_plan *fast)
{
	struct lane_state state = *side->lane.st;
	struct lane lane = side->lane;
	struct lane_plan slow;

	lane.st = &state;
	SIM_REQUIRE(plan.hostile ||
			    (lane_rx_route(&lane, fast->limit, &slow) == RX_VIA_RING &&
			     slow.limit == fast->limit && slow.spans.pos[0] == fast->spans.pos[0]),
		    "side %u reads where it should not", side->id);
}

/* Now and then the short way is tried first. Receive lock. Bytes, or 0. */
static ssize_t receive_fast(struct thread *thread, size_t len)
{
	struct lane *lane = &thread->side->lane;
	const uint8_t *at = len && sched.steps % 2 ? lane_rx_fast(lane, len) : NULL;
	struct lane_plan lane_plan = {.limit = len, .spans.len = {len}};

	if (!at)
		return 0;
	cover(COVER_FAST);
	lane_plan.spans.pos[0] = (size_t)(at - half_ring_const(lane->peer));
	check_fast(thread->side, &lane_plan);
	return receive_ring(thread, &lane_plan);
}

/* Receive lock. As io_receive_try(). */
static ssize_t receive_routed(struct thread *thread, size_t len, struct need *ret_need)
{
	struct side *side = thread->side;
	struct lane *lane = &side->lane;
	struct lane_plan lane_plan;
	ssize_t n = receive_fast(thread, len);
	int rc;

	if (n)
		return n;
	rc = lane_rx_route(lane, len, &lane_plan);
	for (;;) {
		if (rc == RX_VIA_COUNT && io_consumed(side))
			return receive_cut(thread, len);
		if (rc == RX_VIA_COUNT)
			rc = lane_rx_tail(lane, side->consumed, len, &lane_plan);
		if (rc < 0)
			return rc;
		if (!len)
			return 0;
		if (rc == RX_VIA_RING)
			return receive_ring(thread, &lane_plan);
		sim_step();
		if (rc == RX_VIA_TCP) {
			*ret_need = (struct need){WAKE_DATA, KERNEL_IN};
			n = kernel_receive(side->id, thread->buffer, u64_min(len, lane_plan.limit));
			if (n == -EAGAIN)
				return n;
			if (n > 0)
				side->consumed = tcp_count_add(side->consumed, (uint64_t)n);
			if (n > 0 && (uint64_t)n == lane_plan.limit)
				rc = lane_rx_tail(lane, side->consumed, 0, &lane_plan);
			if (n > 0)
				return rc < 0 ? rc : n;
		} else {
			*ret_need = (struct need){WAKE_DATA, KERNEL_GONE};
			if (!(kernel_events(side->id) & KERNEL_GONE))
				return -EAGAIN;
			n = kernel_end(side->id);
		}
		side_saw_fin(side);
		n = receive_eof(side, n);
		if (n == -EALREADY)
			*ret_need = (struct need){WAKE_DATA, KERNEL_ERR};
		if (n != -EAGAIN)
			return n == -EALREADY ? -EAGAIN : n;
		rc = lane_rx_route(lane, len, &lane_plan);
	}
}

static ssize_t receive_on_lane(struct thread *thread, size_t len, struct need *ret_need)
{
	struct side *side = thread->side;
	ssize_t n;

	side_lock_rx(side);
	lane_rx_ready(&side->lane, side_uncovered(side));
	n = receive_routed(thread, len, ret_need);
	if (n == -EBADMSG)
		side_broken(side);
	side_unlock_rx(side);
	return n;
}

/* A kernel receive that knows of no lane. */
static ssize_t receive_kernel(struct thread *thread, size_t len, struct need *ret_need)
{
	bool blocks = thread->blocking && sim_chance(70);
	struct side *side = thread->side;
	ssize_t n;

	for (;;) {
		sim_step();
		n = kernel_receive(side->id, thread->buffer, len);
		if (n != -EAGAIN)
			return n;
		if (!blocks) {
			*ret_need = (struct need){WAKE_DATA, KERNEL_IN};
			return n;
		}
		thread->wants = KERNEL_IN;
		thread_block(thread, KERNEL_IN);
		thread->wants = 0;
	}
}

ssize_t io_receive_try(struct thread *thread, size_t len, struct need *ret_need)
{
	struct side *side = thread->side;
	ssize_t n;

	*ret_need = (struct need){0};
	side_read_mail(thread);
	if (!side->lane_on || side->bare) {
		thread->uncovered = true;
		sim_step();
		if (!side->lane_on || side->bare) {
			thread->deaf = true;
			n = len ? receive_kernel(thread, len, ret_need) : 0;
			thread->deaf = false;
			thread->uncovered = false;
			/* Before an end is believed, the words are asked. */
			if (n > 0 || n == -EAGAIN || !len || !side->lane_on || side->bare)
				return n;
		}
		thread->uncovered = false;
	}
	return receive_on_lane(thread, len, ret_need);
}

ssize_t io_receive(struct thread *thread, size_t len)
{
	struct mark mark;
	struct need need;
	ssize_t n;
	int rc;

	for (;;) {
		mark = thread_mark(thread);
		n = io_receive_try(thread, len, &need);
		if (n != -EAGAIN)
			break;
		rc = io_maintain(thread, &need);
		if (rc) {
			n = rc;
			break;
		}
		thread->wants = KERNEL_IN;
		thread_sleep(thread, &mark, &need, SCHED_FOREVER);
		thread->wants = 0;
	}
	if (n <= 0)
		oracle_end_told(thread->side->id, (int)n);
	return n;
}

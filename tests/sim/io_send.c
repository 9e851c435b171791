/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "core/lane_fast.h"
#include "sim/io.h"
#include "sim/oracle.h"
#include "sim/plan.h"

/* Send what the plan shows of the own ring over TCP. True if all of it went. */
static bool send_backlog(struct side *side, const struct lane_plan *route)
{
	const uint8_t *ring = half_ring_const(side->lane.own);
	unsigned int i;
	ssize_t n;

	for (i = 0; i < 2 && route->spans.len[i]; i++) {
		sim_step();
		n = kernel_send(side->id, ring + route->spans.pos[i], route->spans.len[i]);
		if (n < 0 || (size_t)n < route->spans.len[i])
			return n < 0; /* an error is for the next send to find */
	}
	return true;
}

int io_tx_route(struct side *side, size_t len, struct lane_plan *ret_plan)
{
	struct lane *lane = &side->lane;
	int rc;

	for (;;) {
		if (side->fin_seen)
			lane_tx_fin(lane);
		rc = lane_tx_route(lane, len, ret_plan);
		if (rc == TX_VIA_START) {
			/* If this end and its daemon die together, the stream is not to look whole.
			 */
			if (lane->remote)
				kernel.sock[side->id].linger0 = true;
			if (!lane_tx_start(lane, kernel_written(side->id),
					   side_sends_in_flight(side)))
				return TX_VIA_TCP;
		} else if (rc == TX_VIA_STOP) {
			kernel.sock[side->id].linger0 = true;
			sim_step();
			if (lane_tx_stop(lane))
				return -EBADMSG;
		} else if (rc == TX_VIA_BACKLOG) {
			rc = lane_tx_backlog(lane, kernel_written(side->id), ret_plan);
			if (rc < 0)
				return rc;
			if (rc == TX_VIA_TCP) {
				kernel.sock[side->id].linger0 = false;
				continue;
			}
			cover(COVER_BACKLOG);
			if (kernel.sock[side->id].err)
				return TX_VIA_TCP;
			if (!send_backlog(side, ret_plan))
				return TX_VIA_BACKLOG;
		} else {
			if (rc == TX_VIA_TCP && lane->remote)
				kernel.sock[side->id].linger0 = false;
			return rc;
		}
	}
}

/* The kernel send itself, as a system call that others may overtake, and that may block. */
static ssize_t send_kernel(struct thread *thread, size_t len, struct need *ret_need)
{
	bool blocks = thread->blocking && sim_chance(70);
	struct side *side = thread->side;
	size_t sent = 0;
	ssize_t n;

	for (;;) {
		sim_step();
		n = kernel_send_stream(side->id, len - sent);
		if (n < 0)
			return sent ? (ssize_t)sent : n;
		sent += (size_t)n;
		if (sent == len || (sent && !blocks))
			return (ssize_t)sent;
		if (!blocks) {
			*ret_need = (struct need){WAKE_SPACE, KERNEL_OUT};
			return -EAGAIN;
		}
		thread->wants = KERNEL_OUT;
		if (!thread_block(thread, KERNEL_OUT) && sent)
			return (ssize_t)sent; /* a signal */
		thread->wants = 0;
	}
}

static ssize_t send_ring(struct side *side, const struct lane_plan *route)
{
	uint8_t *ring = half_ring(side->lane.own);
	uint64_t at = oracle_sent(side->id);
	const uint8_t *bytes;
	unsigned int i;
	size_t done, part;

	for (i = 0; i < 2; i++) {
		SIM_REQUIRE(route->spans.pos[i] + route->spans.len[i] <= side->lane.own_bytes,
			    "side %u is to write outside of its ring", side->id);
		for (done = 0; done < route->spans.len[i]; done += part, at += part) {
			part = route->spans.len[i] - done;
			bytes = oracle_bytes(side->id, at, &part);
			memcpy(ring + route->spans.pos[i] + done, bytes, part);
		}
		sim_step();
	}
	lane_tx_commit(&side->lane, route->limit);
	sim_trace("commits %lu", route->limit);
	return (ssize_t)route->limit;
}

/* The long way would have said the same, unless there is news that came just now. */
static void check_fast(const struct side *side, const struct lane_plan *fast)
{
	struct lane_state state = *side->lane.st;
	struct half_ctl own = *side->lane.own;
	struct lane lane = side->lane;
	struct lane_plan slow;
	uint64_t known_seq = state.tx.peer_seq;
	int rc;

	lane.st = &state;
	lane.own = &own;
	rc = lane_tx_route(&lane, fast->limit, &slow);
	if (plan.hostile || state.tx.peer_seq != known_seq)
		return;
	SIM_REQUIRE(rc == TX_VIA_RING && slow.limit == fast->limit &&
			    slow.spans.pos[0] == fast->spans.pos[0],
		    "side %u writes where it should not", side->id);
}

/* Now and then the short way is tried first. Transmit lock. A route, or -1: not here. */
static int fast_route(struct side *side, size_t len, struct lane_plan *ret_plan)
{
	struct lane *lane = &side->lane;
	uint64_t seq = atomic_load_explicit(&lane->peer->state_seq, memory_order_relaxed);
	const uint8_t *at = len && sched.steps % 2 ? lane_tx_fast(lane, len) : NULL;

	if (!at)
		return -1;
	cover(COVER_FAST);
	SIM_REQUIRE(seq == lane->st->tx.peer_seq, "side %u writes without a look for news",
		    side->id);
	*ret_plan = (struct lane_plan){.limit = len, .spans.len = {len}};
	ret_plan->spans.pos[0] = (size_t)(at - half_ring(lane->own));
	check_fast(side, ret_plan);
	return TX_VIA_RING;
}

static ssize_t send_on_lane(struct thread *thread, size_t len, struct need *ret_need)
{
	struct side *side = thread->side;
	struct lane_plan lane_plan;
	ssize_t n = -EAGAIN;
	int rc;

	side_lock_tx(side);
	rc = fast_route(side, len, &lane_plan);
	if (rc < 0)
		rc = io_tx_route(side, len, &lane_plan);
	if (rc == TX_VIA_WAIT && !side->fin_seen && (kernel_events(side->id) & KERNEL_GONE)) {
		side_saw_fin(side);
		rc = io_tx_route(side, len, &lane_plan);
	}
	switch (rc) {
	case TX_VIA_TCP:
		thread->in_send = thread->sending = len != 0;
		side_unlock_tx(side);
		if (len)
			n = send_kernel(thread, len, ret_need);
		thread->wants = 0;
		thread->in_send = thread->sending = false;
		return len ? n : 0;
	case TX_VIA_RING:
		n = len ? send_ring(side, &lane_plan) : 0;
		break;
	case TX_VIA_BACKLOG:
		*ret_need = (struct need){WAKE_SPACE, KERNEL_OUT};
		break;
	case TX_VIA_WAIT:
		if (kernel.sock[side->id].err)
			n = -kernel.sock[side->id].err;
		*ret_need = (struct need){WAKE_SPACE, side->fin_seen ? KERNEL_ERR : KERNEL_GONE};
		break;
	default:
		side_broken(side);
		n = rc;
	}
	side_unlock_tx(side);
	return n;
}

ssize_t io_send_try(struct thread *thread, size_t len, struct need *ret_need)
{
	struct side *side = thread->side;
	ssize_t n;

	*ret_need = (struct need){0};
	side_read_mail(thread);
	/* Who shut the direction may have died before it could tell the kernel. */
	if (len && side->shut)
		return -EPIPE;
	if (!side->lane_on || side->bare) {
		/* The slot first, then the look: a start sees the one, or we the lane. */
		thread->in_send = true;
		sim_step();
		if (!side->lane_on || side->bare) {
			thread->sending = true;
			n = len ? send_kernel(thread, len, ret_need) : 0;
			thread->wants = 0;
			thread->in_send = thread->sending = false;
			return n;
		}
		thread->in_send = false;
	}
	return send_on_lane(thread, len, ret_need);
}

int io_send(struct thread *thread, size_t len)
{
	struct mark mark;
	struct need need;
	ssize_t n;
	int rc;

	while (len) {
		mark = thread_mark(thread);
		n = io_send_try(thread, len, &need);
		if (n > 0) {
			len -= (size_t)n;
			continue;
		}
		if (n != -EAGAIN)
			return (int)n;
		rc = io_maintain(thread, &need);
		if (rc)
			return rc;
		thread->wants = KERNEL_OUT;
		thread_sleep(thread, &mark, &need, SCHED_FOREVER);
		thread->wants = 0;
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "os/bell.h"

#include "lib/tap.h"
#include "stub.h"

/* Operations per step, and bytes of one read of who is gentle. */
#define STEPS 64
#define GENTLE_BYTES 16384u

uint8_t stub_byte(uint8_t seed, uint64_t offset)
{
	return (uint8_t)(seed + offset * 7 + (offset >> 8) * 31 + (offset >> 16) * 101);
}

static void ring_bells(struct stub *stub, struct lane_wake *wake)
{
	struct lane_bells bells;

	if (!lane_bells_due(&stub->lane, wake, &bells))
		return;
	if (bells.peer)
		bell_ring(stub->their_bell);
	if (bells.self)
		bell_ring(stub->own_bell);
	lane_rung(wake, &bells);
}

void stub_begin(struct stub *stub, uint32_t epoch)
{
	stub->lane.st = &stub->state;
	stub->lane.remote = true;
	lane_begin(&stub->lane, epoch);
	lane_rx_ready(&stub->lane, 0);
	ring_bells(stub, &stub->state.tx.wake);
	ring_bells(stub, &stub->state.rx.wake);
}

static bool fail(struct stub *stub, const char *what)
{
	if (!stub->has_failed)
		tap_check(false, __FILE__, __LINE__, "%s (sent %llu, received %llu)", what,
			  (unsigned long long)stub->sent, (unsigned long long)stub->received);
	stub->has_failed = true;
	return false;
}

/* --- sending ---------------------------------------------------------------------------------- */

static uint64_t wanted(const struct stub *stub)
{
	uint64_t most = stub->target, unit = stub->unit ? stub->unit : UINT64_MAX;

	if (stub->role == STUB_MUTE)
		return 0;
	if (stub->is_mixed)
		unit = 1 + stub->sent * 2654435761u / 65536 % 3000;
	if (stub->role == STUB_ECHO)
		most = stub->received;
	if (stub->role == STUB_PING && stub->sent != stub->received)
		return 0;
	return stub->sent < most ? u64_min(most - stub->sent, unit) : 0;
}

static void put(struct stub *stub, const struct lane_plan *plan)
{
	uint8_t *ring = half_ring(stub->lane.own);
	uint64_t at = stub->sent;

	for (int i = 0; i < 2; i++) {
		for (size_t j = 0; j < plan->spans.len[i]; j++)
			ring[plan->spans.pos[i] + j] = stub_byte(stub->seed_out, at++);
	}
	if (stub->on_send)
		stub->on_send(stub, false);
	lane_tx_commit(&stub->lane, plan->limit);
	stub->sent += plan->limit;
}

/* One operation of a sender. Whether anything was done. */
static bool send_step(struct stub *stub)
{
	uint64_t want = wanted(stub);
	struct lane_plan plan;
	bool did = false, sent = false;

	if (!want || stub->tx_ended)
		return false;
	switch (lane_tx_route(&stub->lane, want, &plan)) {
	case TX_VIA_START:
		did = lane_tx_start(&stub->lane, tcp_count(0), 0) == 1;
		break;
	case TX_VIA_RING:
		/* A message is whole, or waits. */
		if (stub->unit && plan.limit < want)
			break;
		put(stub, &plan);
		did = sent = true;
		break;
	case TX_VIA_WAIT:
	case TX_VIA_TCP:
		break;
	default:
		return fail(stub, "the lane breaks when sending");
	}
	ring_bells(stub, &stub->state.tx.wake);
	if (sent && stub->on_send)
		stub->on_send(stub, true);
	return did;
}

void stub_close(struct stub *stub)
{
	struct lane_plan plan;

	lane_tx_close(&stub->lane);
	if (lane_tx_route(&stub->lane, 0, &plan) < 0)
		fail(stub, "the lane breaks when it ends");
	ring_bells(stub, &stub->state.tx.wake);
	stub->tx_ended = atomic_load(&stub->lane.own->tx_end) != OPT_NONE;
}

/* --- receiving -------------------------------------------------------------------------------- */

static bool compare(struct stub *stub, const struct lane_plan *plan)
{
	const uint8_t *ring = half_ring_const(stub->lane.peer);
	uint64_t at = stub->received;

	for (int i = 0; i < 2; i++) {
		for (size_t j = 0; j < plan->spans.len[i]; j++, at++) {
			if (ring[plan->spans.pos[i] + j] != stub_byte(stub->seed_in, at))
				return fail(stub, "a wrong byte");
		}
	}
	lane_rx_consume(&stub->lane, plan->limit);
	stub->received += plan->limit;
	return true;
}

static bool receive_step(struct stub *stub)
{
	uint64_t want = stub->is_gentle ? GENTLE_BYTES : UINT64_MAX;
	struct lane_plan plan;
	bool did = false;
	int route;

	if (stub->reads_nothing || stub->rx_ended)
		return false;
	route = lane_rx_route(&stub->lane, want, &plan);
	if (route == RX_VIA_COUNT)
		route = lane_rx_tail(&stub->lane, tcp_count(0), want, &plan);
	if (route == RX_VIA_RING)
		did = compare(stub, &plan);
	else if (route < 0)
		fail(stub, "the lane breaks when receiving");
	ring_bells(stub, &stub->state.rx.wake);
	if (stub->state.rx.phase == RX_ENDED)
		stub->rx_ended = true;
	return did;
}

bool stub_step(struct stub *stub)
{
	bool any = false;

	stub->mark = wake_mark(stub->lane.own, stub->lane.peer);
	if (stub->has_failed)
		return false;
	for (int i = 0; i < (stub->is_gentle ? 1 : STEPS); i++) {
		bool did = receive_step(stub);

		did |= send_step(stub);
		if (!did)
			break;
		any = true;
	}
	return any;
}

bool stub_may_sleep(struct stub *stub)
{
	wake_arm(stub->lane.own, WAKE_ALL);
	return wake_may_sleep(stub->lane.own, stub->lane.peer, WAKE_ALL, &stub->mark);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "core/lane.h"

#include "fuzz/fuzz.h"

/*
 * A peer that writes anything into its half, at any moment, against an honest side that follows
 * the lane switch. Promised: each call returns a known route or -EBADMSG, spans lie in their ring,
 * nothing outside the two rings is touched (their memory has its exact size, for a sanitizer), and
 * the peer's half is never written. The input is a script; each step is one byte and what it takes.
 */

#define RING_BYTES RING_SIZE_MIN_BYTES

struct script {
	const uint8_t *at;
	size_t left;
};

struct side {
	struct lane lane;
	struct lane_state state;
	struct half_ctl *peer; /* writable, for the hostile side */
	struct half_ctl *shadow;
	uint64_t written, consumed; /* TCP bytes */
	bool is_dead;
};

static void promise(bool kept)
{
	if (!kept)
		abort();
}

static uint8_t next_byte(struct script *script)
{
	if (script->left == 0)
		return 0;
	script->left--;
	return *script->at++;
}

/* Small numbers mostly: they are the ones that matter. */
static uint64_t next_value(struct script *script)
{
	uint8_t first = next_byte(script);
	uint64_t value = 0;

	if (first < 160)
		return first;
	if (first < 224)
		return (uint64_t)(first - 160) << 8 | next_byte(script);
	for (int i = 0; i < 8; i++)
		value = value << 8 | next_byte(script);
	return value;
}

static void check_spans(const struct ring_spans *spans, uint64_t total, uint64_t want)
{
	promise(spans->len[0] <= RING_BYTES && spans->len[1] <= RING_BYTES);
	promise(spans->pos[0] + spans->len[0] <= RING_BYTES);
	promise(spans->len[1] == 0 || spans->pos[1] + spans->len[1] <= RING_BYTES);
	promise(spans->len[0] + spans->len[1] == total && total <= want && total > 0);
}

/* Touch the bytes of @spans, as a copy would. */
static void touch(uint8_t *ring, const struct ring_spans *spans, bool write)
{
	static volatile uint8_t sink;

	for (int s = 0; s < 2; s++) {
		for (size_t i = 0; i < spans->len[s]; i++) {
			if (write)
				ring[spans->pos[s] + i] = (uint8_t)i;
			else
				sink = ring[spans->pos[s] + i];
		}
	}
	(void)sink;
}

/* The result of a call: true to go on. */
static bool alive(struct side *side, int rc, int most)
{
	promise(rc == -EBADMSG || (rc >= 0 && rc <= most));
	side->is_dead |= rc < 0;
	return rc >= 0;
}

static void transmit(struct side *side, struct script *script)
{
	uint64_t want = next_value(script) % (2 * RING_BYTES);
	struct lane_plan plan = {0};
	int rc = lane_tx_route(&side->lane, want, &plan);

	if (!alive(side, rc, TX_VIA_WAIT))
		return;
	switch (rc) {
	case TX_VIA_TCP:
		side->written += want;
		break;
	case TX_VIA_START:
		alive(side, lane_tx_start(&side->lane, tcp_count(side->written), want & 1), 1);
		break;
	case TX_VIA_RING:
		if (want == 0)
			break;
		check_spans(&plan.spans, plan.limit, want);
		touch(half_ring(side->lane.own), &plan.spans, true);
		lane_tx_commit(&side->lane, plan.limit - next_value(script) % plan.limit);
		break;
	case TX_VIA_STOP:
		alive(side, lane_tx_stop(&side->lane), 0);
		break;
	case TX_VIA_BACKLOG:
		rc = lane_tx_backlog(&side->lane, tcp_count(side->written), &plan);
		promise(rc == -EBADMSG || rc == TX_VIA_BACKLOG || rc == TX_VIA_TCP);
		if (alive(side, rc, TX_VIA_BACKLOG) && rc == TX_VIA_BACKLOG) {
			check_spans(&plan.spans, plan.limit, RING_BYTES);
			touch(half_ring(side->lane.own), &plan.spans, false);
			side->written += next_value(script) % (plan.limit + 1);
		}
		break;
	default:
		break;
	}
}

static void receive(struct side *side, struct script *script)
{
	uint64_t want = 1 + next_value(script) % (2 * RING_BYTES);
	struct lane_plan plan = {0};
	int rc = lane_rx_route(&side->lane, want, &plan);

	if (!alive(side, rc, RX_VIA_WAIT))
		return;
	if (rc == RX_VIA_COUNT) {
		rc = lane_rx_tail(&side->lane, tcp_count(side->consumed), want, &plan);
		if (!alive(side, rc, RX_VIA_WAIT))
			return;
	}
	if (rc == RX_VIA_TCP) {
		promise(plan.limit > 0);
		side->consumed += next_value(script) % (u64_min(plan.limit, want) + 1);
	} else if (rc == RX_VIA_RING) {
		check_spans(&plan.spans, plan.limit, want);
		touch((uint8_t *)(uintptr_t)half_ring_const(side->lane.peer), &plan.spans, false);
		lane_rx_consume(&side->lane, plan.limit - next_value(script) % plan.limit);
	}
}

/* The hostile side writes one of the words of its half, and says so or not. */
static void scribble(struct side *side, struct script *script, uint8_t op)
{
	static const size_t words[] = {
#define WORD(name) offsetof(struct half_ctl, name)
		WORD(prod),	WORD(cons),	WORD(arm_data),	 WORD(arm_space), WORD(ready),
		WORD(rx_ready), WORD(tx_start), WORD(rx_seen),	 WORD(tx_end),	  WORD(leave),
		WORD(rx_stop),	WORD(stop_ack), WORD(closing),	 WORD(shut),	  WORD(lost),
		WORD(replayed), WORD(epoch),	WORD(state_seq),
#undef WORD
	};
	size_t word = words[(op >> 1) % ARRAY_SIZE(words)];
	uint64_t value = next_value(script);

	atomic_store((_Atomic uint64_t *)((char *)side->peer + word), value);
	if (op & 1)
		atomic_fetch_add(&side->peer->state_seq, 1);
	memcpy(side->shadow, side->peer, sizeof(*side->shadow));
}

static void act(struct side *side, struct script *script, uint8_t op)
{
	struct lane *lane = &side->lane;
	struct lane_bells bells;
	int rc;

	switch (op % 16) {
	case 0 ... 4:
		transmit(side, script);
		break;
	case 5 ... 9:
		receive(side, script);
		break;
	case 10:
		lane_rx_ready(lane, op & 64);
		break;
	case 11:
		if (op & 64)
			lane_leave(lane);
		else
			alive(side, lane_tx_leave(lane), 1);
		break;
	case 12:
		if (op & 64)
			lane_tx_close(lane);
		else
			alive(side, lane_close(lane), 1);
		break;
	case 13:
		alive(side, op & 64 ? lane_rx_eof(lane) : lane_is_done(lane), LANE_EOF_WAIT);
		break;
	case 14:
		if (op & 128)
			rc = lane_rx_resume(lane);
		else
			rc = op & 64 ? lane_rx_stop(lane) : lane_rx_stop_poll(lane);
		if (rc != -EAGAIN) /* the peer can't stop there: the ring goes on */
			alive(side, rc, 1);
		break;
	default:
		if (op & 64)
			lane_tx_fin(lane);
		if (lane_bells_due(lane, &side->state.tx.wake, &bells))
			lane_rung(&side->state.tx.wake, &bells);
		if (lane_bells_due(lane, &side->state.rx.wake, &bells))
			lane_rung(&side->state.rx.wake, &bells);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct script script = {data, len};
	struct side side = {.written = 0};

	/* Aligned as a page is, and not a byte longer than a half. */
	side.lane.own = aligned_alloc(HALF_CTL_BYTES, half_bytes(RING_BYTES));
	side.peer = aligned_alloc(HALF_CTL_BYTES, half_bytes(RING_BYTES));
	side.shadow = aligned_alloc(HALF_CTL_BYTES, HALF_CTL_BYTES);
	promise(side.lane.own && side.peer && side.shadow);
	memset(side.lane.own, 0, half_bytes(RING_BYTES));
	memset(side.peer, 0, half_bytes(RING_BYTES));
	memset(side.shadow, 0, HALF_CTL_BYTES);
	side.lane.st = &side.state;
	side.lane.peer = side.peer;
	side.lane.own_bytes = side.lane.peer_bytes = RING_BYTES;
	lane_begin(&side.lane, 1);
	while (script.left > 0 && !side.is_dead) {
		uint8_t op = next_byte(&script);

		if (op & 128)
			scribble(&side, &script, op & 127);
		else
			act(&side, &script, op);
		promise(memcmp(side.peer, side.shadow, sizeof(*side.shadow)) == 0);
	}
	free(side.lane.own);
	free(side.peer);
	free(side.shadow);
	return 0;
}

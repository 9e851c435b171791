/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/util.h"
#include "sim/daemon.h"
#include "sim/oracle.h"
#include "sim/oracle_words.h"
#include "sim/remote.h"
#include "sim/side.h"

/* The stream is this table over and over; a prime length, so that no ring size divides it. */
#define PATTERN_BYTES 65521u

static uint8_t pattern[PATTERN_BYTES];

static struct {
	bool excused;	    /* errors may be seen */
	bool reset_sent;    /* by a kernel */
	bool shut[2];	    /* of its own will */
	bool killed[2];	    /* all of it */
	uint64_t got[2];    /* stream bytes that it had read at its last look */
	uint64_t unread[2]; /* bytes that a killed side had not read from its peer's ring */
} seen;

static void pattern_fill(void)
{
	struct prng prng;
	size_t i;

	if (pattern[0])
		return;
	prng_init(&prng, 1);
	for (i = 0; i < PATTERN_BYTES; i++)
		pattern[i] = (uint8_t)prng_next(&prng);
	pattern[0] = 1;
}

void oracle_init(void)
{
	pattern_fill();
	memset(&seen, 0, sizeof(seen));
	words_init();
}

/* --- the stream ------------------------------------------------------------------------------- */

static uint64_t word(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

uint64_t oracle_sent(unsigned int side)
{
	uint64_t n = kernel.pipe[side].stream_bytes;
	unsigned int i;

	for (i = 0; i < daemons.epochs; i++)
		n += word(&daemons.epoch[i].half[side]->prod);
	return n;
}

/* What @side has read of its peer's ring in an epoch: of the one in use its state says so, which is
 * ahead of what the peer was told. */
static uint64_t consumed(const struct epoch *epoch, unsigned int side)
{
	const struct lane *lane = &sides[side].lane;

	if (sides[side].lane_on && lane->own == epoch->half[side])
		return lane->st->rx.cons.v;
	return word(&epoch->half[side]->cons);
}

uint64_t oracle_got(unsigned int side)
{
	uint64_t n = kernel.pipe[!side].consumed;
	unsigned int i;

	for (i = 0; i < daemons.epochs; i++)
		n += consumed(&daemons.epoch[i], side);
	return n;
}

const uint8_t *oracle_bytes(unsigned int side, uint64_t at, size_t *len)
{
	/* The two directions are unlike each other. */
	size_t pos = (at + side * 31337) % PATTERN_BYTES;

	*len = size_min(*len, PATTERN_BYTES - pos);
	return pattern + pos;
}

void oracle_received(unsigned int side, const void *bytes, size_t len)
{
	uint64_t got = oracle_got(side), sent = oracle_sent(!side);
	const uint8_t *have = bytes, *want;
	size_t done, part;

	if (plan.hostile)
		return;
	SIM_REQUIRE(got >= seen.got[side], "side %u reads again from %lu on, having read %lu", side,
		    got, seen.got[side]);
	seen.got[side] = got;
	SIM_REQUIRE(got + len <= sent, "side %u receives bytes %lu to %lu, but %lu were sent", side,
		    got, got + len, sent);
	for (done = 0; done < len; done += part) {
		part = len - done;
		want = oracle_bytes(!side, got + done, &part);
		SIM_REQUIRE(!memcmp(have + done, want, part),
			    "side %u receives wrong bytes at %lu (length %zu)", side, got + done,
			    part);
	}
}

void oracle_consumed(unsigned int side)
{
	const struct lane *lane = &sides[side].lane;
	const typeof(lane->st->rx) *rx = &lane->st->rx;

	SIM_REQUIRE(word(&lane->own->cons) == rx->cons.v ||
			    word(&lane->peer->arm_space) == rx->wake.rung_peer.space,
		    "side %u keeps room back that its peer sleeps for", side);
}

void oracle_tcp_send(unsigned int side)
{
	words_tcp_send(side);
}

void oracle_end_told(unsigned int side, int rc)
{
	uint64_t got = oracle_got(side), sent = oracle_sent(!side);

	sim_trace("side %u is told of the end: %d", side, rc);
	if (plan.hostile || rc > 0)
		return;
	if (rc) {
		cover(COVER_RESET);
		SIM_REQUIRE(seen.excused, "side %u gets error %d on a clean connection", side, rc);
		return;
	}
	cover(COVER_EOF);
	SIM_REQUIRE(got == sent, "side %u gets EOF at %lu, but %lu were sent", side, got, sent);
	SIM_REQUIRE(kernel.pipe[!side].fin_delivered, "side %u gets EOF without a FIN", side);
	SIM_REQUIRE(!seen.killed[!side] || seen.shut[!side] || !seen.unread[!side] ||
			    words_excuse_eof(side) || sides[side].bare,
		    "side %u gets EOF, but its peer was killed with %lu bytes unread", side,
		    seen.unread[!side]);
}

void oracle_send_failed(unsigned int side, int rc)
{
	sim_trace("side %u cannot send: %d", side, rc);
	SIM_REQUIRE(plan.hostile || seen.excused, "side %u fails to send on a clean connection: %d",
		    side, rc);
}

/* --- events ----------------------------------------------------------------------------------- */

void oracle_reset_sent(void)
{
	seen.reset_sent = true;
	SIM_REQUIRE(seen.excused || plan.hostile, "a clean connection is reset");
}

void oracle_excuse(void)
{
	seen.excused = true;
}

void oracle_killed(unsigned int side)
{
	seen.killed[side] = true;
	seen.unread[side] = plan.remote ? 0 : words_unread(side);
}

void oracle_shut(unsigned int side)
{
	seen.shut[side] = true;
}

void oracle_broken(unsigned int side)
{
	sim_trace("side %u finds the protocol broken", side);
	if (!side)
		cover(COVER_BROKEN);
	SIM_REQUIRE(plan.hostile, "side %u finds the protocol broken", side);
}

void oracle_begin(unsigned int side)
{
	words_begin(side);
}

/* --- quiet ------------------------------------------------------------------------------------ */

static void quiet_receiver(const struct side *side, const struct thread *thread)
{
	const char *name = thread->task->name;

	if (words_frozen(side))
		return;
	SIM_REQUIRE(!words_readable(side), "%s sleeps with bytes on the ring", name);
	SIM_REQUIRE(!kernel_readable(side->id), "%s sleeps with bytes on TCP", name);
	SIM_REQUIRE(!(kernel_events(side->id) & KERNEL_GONE), "%s sleeps through the end", name);
}

static void quiet_sender(const struct side *side, const struct thread *thread)
{
	const char *name = thread->task->name;

	if (words_awaits(side))
		return;
	if (words_ring_open(side))
		SIM_REQUIRE(!words_room(side), "%s sleeps with room on the ring", name);
	else
		SIM_REQUIRE(!(kernel_events(side->id) & KERNEL_OUT), "%s sleeps with room on TCP",
			    name);
	SIM_REQUIRE(!(kernel_events(side->id) & KERNEL_ERR), "%s sleeps through an error", name);
}

/*
 * A thread died in the middle, nobody has taken its lock since, and no daemon is there to ring for
 * it: then others may wait for what it left undone.
 */
static bool death_unnoticed(void)
{
	unsigned int s;

	for (s = 0; s < 2; s++)
		if (daemons.left &&
		    ((sides[s].tx_lock.owner && sides[s].tx_lock.owner->state == TASK_DEAD) ||
		     (sides[s].rx_lock.owner && sides[s].rx_lock.owner->state == TASK_DEAD)))
			return true;
	return false;
}

void oracle_quiet(void)
{
	const struct thread *thread;
	unsigned int s, i;

	/* The daemon has yet to ring for a death. */
	if (daemons.deaths && !daemons.left)
		return;
	if (death_unnoticed()) {
		sched.may_stall = true;
		return;
	}
	for (s = 0; s < 2; s++) {
		if (sides[s].stopped > sched.now || plan.hostile)
			continue;
		/* Between hosts only the daemon can tell what has come of a ring. */
		if (sides[s].lane_on && sides[s].lane.remote && !remote.host[s].alive)
			continue;
		for (i = 0; i < SIDE_THREADS_MAX; i++) {
			thread = &sides[s].thread[i];
			if (!thread->alive || thread->task->state != TASK_WAITING)
				continue;
			if (thread->wants & KERNEL_IN)
				quiet_receiver(&sides[s], thread);
			if (thread->wants & KERNEL_OUT)
				quiet_sender(&sides[s], thread);
		}
	}
}

void oracle_end(void)
{
	unsigned int s;

	for (s = 0; s < 2; s++) {
		uint64_t got = oracle_got(!s), sent = oracle_sent(s);

		if (kernel.pipe[s].stream_bytes < sent) {
			cover(COVER_RING_BYTES);
			if (kernel.pipe[s].stream_bytes)
				cover(COVER_BOTH_LANES);
		}
		if (seen.excused || plan.hostile)
			continue;
		SIM_REQUIRE(sent == plan.side[s].total_bytes, "side %u sent %lu of %lu bytes", s,
			    sent, plan.side[s].total_bytes);
		SIM_REQUIRE(got == sent, "of %lu bytes that side %u sent %lu were received", sent,
			    s, got);
	}
}

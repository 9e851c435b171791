/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "core/peer.h"
#include "core/wake.h"
#include "sim/oracle.h"
#include "sim/remote.h"
#include "sim/side.h"

struct remote remote;

/* --- the relay: words and bytes of side s on their way to the daemon of the other ------------- */

static struct relay {
	unsigned int side;
	unsigned int generation; /* of the remote, when it set out */
	struct wake_arms rung;
} relays[2];

static uint64_t word(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

/* The state words that travel, in the order in which they are set there; the end comes last. */
#define STATES 9
static void states_of(struct half_ctl *half, _Atomic uint64_t *ret_words[STATES])
{
	_Atomic uint64_t *const words[STATES] = {
		&half->epoch, &half->ready,   &half->rx_ready, &half->tx_start, &half->rx_seen,
		&half->leave, &half->closing, &half->shut,     &half->tx_end,
	};

	memcpy(ret_words, words, sizeof(words));
}

static bool relay_is_up(void)
{
	return remote_epoch() && !remote.lost && remote.host[0].alive && remote.host[1].alive;
}

static bool relay_has_work(void *arg)
{
	const struct relay *relay = arg;
	_Atomic uint64_t *from[STATES], *to[STATES];
	struct half_ctl *half, *copy;
	unsigned int i;

	if (!relay_is_up())
		return false;
	half = remote_epoch()->half[relay->side];
	copy = remote_epoch()->copy[relay->side];
	states_of(half, from);
	states_of(copy, to);
	for (i = 0; i < STATES; i++)
		if (word(from[i]) != word(to[i]))
			return true;
	return word(&half->prod) != word(&copy->prod) || word(&half->cons) != word(&copy->cons);
}

/* Others may run, and the link may be cut: false then. */
static bool relay_goes_on(const struct relay *relay)
{
	sim_step();
	return relay->generation == remote.generation;
}

/* Change a word of the copy. The link cannot be cut between the look and the store: both are one
 * daemon's. */
static bool relay_word(const struct relay *relay, struct half_ctl *copy, _Atomic uint64_t *at,
		       uint64_t value)
{
	sched.whole = true;
	if (at == &copy->prod || at == &copy->cons)
		atomic_store(at, value);
	else
		own_announce(copy, at, value);
	sched.whole = false;
	return relay_goes_on(relay);
}

/* Bytes first, then prod, as every writer of a ring does. */
static bool relay_bytes(const struct relay *relay, struct epoch *epoch, uint64_t prod)
{
	struct half_ctl *half = epoch->half[relay->side], *copy = epoch->copy[relay->side];
	uint64_t size = epoch->ring_bytes[relay->side], at = word(&copy->prod);
	uint8_t bytes[PLAN_RING_MAX_BYTES];

	SIM_REQUIRE(prod - at <= size, "the ring of side %u runs over", relay->side);
	if (prod == at)
		return true;
	ring_copy_out(half_ring_const(half), size, ring_off(at), bytes, prod - at);
	ring_copy_in(half_ring(copy), size, ring_off(at), bytes, prod - at);
	return relay_goes_on(relay) && relay_word(relay, copy, &copy->prod, prod);
}

static void relay_carry(struct relay *relay)
{
	struct epoch *epoch = remote_epoch();
	struct half_ctl *half = epoch->half[relay->side], *copy = epoch->copy[relay->side];
	_Atomic uint64_t *from[STATES], *to[STATES];
	uint64_t states[STATES], prod, cons;
	struct wake_arms seen;
	unsigned int i;

	states_of(half, from);
	states_of(copy, to);
	for (i = STATES; i--;)
		states[i] = word(from[i]);
	prod = word(&half->prod);
	cons = word(&half->cons);
	for (i = 0; i < STATES; i++) {
		if (i == STATES - 1 && !relay_bytes(relay, epoch, prod))
			return;
		if (states[i] == word(to[i]))
			continue;
		if (!relay_word(relay, copy, to[i], states[i]))
			return;
	}
	if (!relay_word(relay, copy, &copy->cons, cons))
		return;
	if (wake_ring_needed(epoch->half[!relay->side], WAKE_ALL, &relay->rung, &seen)) {
		side_ring(&sides[!relay->side]);
		wake_remember(&relay->rung, &seen);
	}
}

static void relay_main(void *arg)
{
	struct relay *relay = arg;

	for (;;) {
		sim_wait(relay_has_work, relay, SCHED_FOREVER);
		sim_pause(sim_below(plan.link_ticks + 1), false);
		relay->generation = remote.generation;
		if (relay_has_work(relay))
			relay_carry(relay);
	}
}

void remote_lose(void)
{
	if (remote.lost || !remote_epoch())
		return;
	sim_trace("the link is lost");
	remote.lost = true;
	remote.generation++;
}

/* --- the daemons' lives ----------------------------------------------------------------------- */

static bool host_has_work(void *arg)
{
	const unsigned int *side = arg;

	return host_next(*side) != HOST_NOTHING;
}

static void host_main(void *arg)
{
	unsigned int *side = arg;
	enum host_task what;

	/* A predecessor may have died before it rang. */
	if (remote_epoch())
		side_ring(&sides[*side]);
	for (;;) {
		sim_wait(host_has_work, side, SCHED_FOREVER);
		sim_pause(sim_below(plan.link_ticks + 1), false);
		what = host_next(*side);
		if (what != HOST_NOTHING)
			host_do(*side, what);
	}
}

static unsigned int host_sides[2] = {0, 1};
static struct task *host_tasks[2];

static void host_spawn(unsigned int side)
{
	host_tasks[side] = sched_spawn(side ? "host1" : "host0", host_main, &host_sides[side]);
	host_tasks[side]->system = true;
	remote.host[side].alive = true;
}

static void host_die(unsigned int side)
{
	sim_trace("the daemon of side %u dies", side);
	cover(COVER_HOST_DEATH);
	host_tasks[side]->state = TASK_DEAD;
	remote.host[side].alive = false;
	remote.host[side].knows = false;
	remote.host[side].wanted = OPT_NONE;
	remote.host[side].settled = false;
	remote_lose();
	if (remote.host[side].holds) {
		remote.host[side].holds = false;
		/* What its client had left to it is lost. */
		if (!side_is_alive(&sides[side]))
			oracle_excuse();
		kernel_close(side);
	}
}

/* The successor gets the socket from the client again, if there still is one. */
static void host_return(unsigned int side)
{
	struct side *client = &sides[side];

	sim_trace("the daemon of side %u returns", side);
	host_spawn(side);
	if (!side_is_alive(client) || !remote_epoch() || client->drained == daemons.epochs ||
	    kernel.sock[side].closed)
		return;
	kernel.sock[side].holders++;
	remote.host[side].holds = true;
	remote.host[side].knows = true;
}

static bool epoch_there(void *arg)
{
	(void)arg;
	return remote_epoch() && word(&remote_epoch()->half[0]->tx_start);
}

static void fate_main(void *arg)
{
	unsigned int deaths = plan.host_deaths, side;

	sim_wait(epoch_there, NULL, 20000);
	if (plan.link_loss_tick) {
		sim_pause(plan.link_loss_tick, true);
		remote_lose();
		cover(COVER_LOST);
	}
	while (deaths--) {
		sim_pause(sim_log(1, plan.host_death_ticks), true);
		side = (unsigned int)sim_below(2);
		host_die(side);
		sim_pause(sim_log(1, 5000), true);
		host_return(side);
	}
	(void)arg;
}

void remote_start(void)
{
	unsigned int s;

	memset(&remote, 0, sizeof(remote));
	memset(relays, 0, sizeof(relays));
	for (s = 0; s < 2; s++) {
		relays[s].side = s;
		sched_spawn(s ? "relay1" : "relay0", relay_main, &relays[s])->system = true;
		host_spawn(s);
	}
	sched_spawn("fate", fate_main, NULL)->system = true;
}

bool remote_may_pair(void)
{
	return remote.host[0].alive && remote.host[1].alive && !remote.host[0].holds &&
	       !remote.host[1].holds;
}

void remote_pair(void)
{
	unsigned int s;

	remote.lost = false;
	remote.generation++;
	for (s = 0; s < 2; s++) {
		relays[s].rung = (struct wake_arms){0};
		kernel.sock[s].holders++;
		remote.host[s].holds = true;
		remote.host[s].knows = true;
		remote.host[s].wanted = OPT_NONE;
		remote.host[s].settled = false;
	}
}

/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "sim/daemon.h"
#include "sim/remote.h"
#include "sim/side.h"

struct daemon daemons;

static struct half_ctl *half_new(uint64_t ring_bytes)
{
	struct half_ctl *half = aligned_alloc(HALF_CTL_BYTES, half_bytes(ring_bytes));

	if (!half)
		abort();
	memset(half, 0, half_bytes(ring_bytes));
	return half;
}

void daemon_free(void)
{
	unsigned int i;

	for (i = 0; i < daemons.epochs; i++) {
		free(daemons.epoch[i].half[0]);
		free(daemons.epoch[i].half[1]);
		free(daemons.epoch[i].copy[0]);
		free(daemons.epoch[i].copy[1]);
	}
	memset(&daemons, 0, sizeof(daemons));
}

void daemon_hear_death(void)
{
	daemons.deaths++;
}

/* Whether both ends may begin an epoch. */
static bool may_pair(void)
{
	unsigned int s;

	if (daemons.epochs == plan.epochs || (plan.remote && !remote_may_pair()))
		return false;
	for (s = 0; s < 2; s++)
		if (!side_is_alive(&sides[s]) || sides[s].bare || sides[s].pinned ||
		    kernel.pipe[s].fin_queued ||
		    (daemons.epochs && sides[s].drained != daemons.epochs))
			return false;
	return true;
}

static void hand_out(struct epoch *epoch, unsigned int s)
{
	struct side *side = &sides[s];

	side->mail_lane = (struct lane){
		.own = epoch->half[s],
		.peer = plan.remote ? epoch->copy[!s] : epoch->half[!s],
		.remote = plan.remote,
		.own_bytes = epoch->ring_bytes[s],
		.peer_bytes = epoch->ring_bytes[!s],
	};
	side->mail_epoch = daemons.epochs;
	side->mail = true;
	if (plan.mail_rings)
		side_ring(side);
}

static void pair(void)
{
	struct epoch *epoch = &daemons.epoch[daemons.epochs++];
	unsigned int s, first = (unsigned int)sim_below(2);

	for (s = 0; s < 2; s++) {
		epoch->ring_bytes[s] = plan.ring_bytes[s];
		epoch->half[s] = half_new(epoch->ring_bytes[s]);
		epoch->copy[s] = plan.remote ? half_new(epoch->ring_bytes[s]) : NULL;
	}
	if (plan.remote)
		remote_pair();
	cover(daemons.epochs > 1 ? COVER_EPOCHS : COVER_PROMOTED);
	hand_out(epoch, first);
	sim_pause(sim_log(1, 1000), true);
	hand_out(epoch, !first);
}

/* Dead for a while; then the successor rings for whatever happened in between. */
static void die(void)
{
	cover(COVER_DAEMON_DEATH);
	sim_pause(sim_log(1, 30000), daemons.deaths == 0);
	daemons.deaths++;
}

static void ring_for_deaths(void)
{
	while (daemons.deaths) {
		daemons.deaths--;
		side_ring(&sides[0]);
		side_ring(&sides[1]);
	}
}

static void daemon_main(void *arg)
{
	unsigned int deaths = plan.daemon_deaths;

	sim_pause(1 + sim_below(plan.promote_ticks), true);
	for (;;) {
		ring_for_deaths();
		if (may_pair())
			pair();
		if (plan.daemon_leaves && daemons.epochs && !plan.remote) {
			daemons.left = true;
			cover(COVER_DAEMON_LEFT);
			return;
		}
		if (deaths && sim_chance(30)) {
			deaths--;
			die();
		}
		sim_pause(1 + sim_below(plan.again_ticks), daemons.deaths == 0);
	}
	(void)arg;
}

void daemon_start(void)
{
	sched_spawn("daemon", daemon_main, NULL)->system = true;
}

/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "sim/kernel.h"
#include "sim/plan.h"
#include "sim/sched.h"

struct plan plan;
bool covered[COVER_COUNT];

static const char *const cover_names[COVER_COUNT] = {
	[COVER_PROMOTED] = "promotion",
	[COVER_RING_BYTES] = "bytes on a ring",
	[COVER_BOTH_LANES] = "both lanes in one direction",
	[COVER_EPOCHS] = "a further epoch",
	[COVER_DRAINED] = "an epoch drained",
	[COVER_LEAVE] = "demotion",
	[COVER_STOP_ASKED] = "hand-over asked for",
	[COVER_STOP_ANSWERED] = "hand-over answered",
	[COVER_STOP_REFUSED] = "hand-over refused",
	[COVER_STOP_RESUMED] = "hand-over taken back",
	[COVER_BACKLOG] = "backlog over TCP",
	[COVER_BARE] = "reader that does not know the ring",
	[COVER_SHUTDOWN] = "half-close",
	[COVER_CLOSE_UNREAD] = "close with unread ring bytes",
	[COVER_KILL_PROC] = "one process of two killed",
	[COVER_KILL_SIDE] = "last process killed",
	[COVER_RECOVERED] = "lock recovered",
	[COVER_RESET_VERDICT] = "reset told by the lane",
	[COVER_FREEZE] = "a side that makes no call",
	[COVER_DAEMON_DEATH] = "death of the daemon",
	[COVER_REMOTE] = "a lane between hosts",
	[COVER_LOST] = "loss of the link",
	[COVER_REPLAY] = "replay over TCP",
	[COVER_HOST_DEATH] = "death of a host's daemon",
	[COVER_EOF] = "EOF",
	[COVER_RESET] = "reset",
	[COVER_BROKEN] = "broken protocol found out",
};

void cover(enum cover what)
{
	covered[what] = true;
}

const char *cover_name(enum cover what)
{
	return cover_names[what];
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* What the operations of a program look like. */
static void draw_sizes(uint64_t ring, uint64_t *ret_lo, uint64_t *ret_hi)
{
	switch (sim_below(6)) {
	case 0: /* single bytes */
		*ret_lo = *ret_hi = 1;
		break;
	case 1: /* tiny, and nothing at all */
		*ret_lo = 1;
		*ret_hi = 8;
		break;
	case 2: /* about a ring */
		*ret_lo = ring - 1;
		*ret_hi = ring + 1;
		break;
	case 3: /* a message */
		*ret_lo = 16;
		*ret_hi = 600;
		break;
	case 4: /* larger than any buffer */
		*ret_lo = 20000;
		*ret_hi = 60000;
		break;
	default: /* anything */
		*ret_lo = 1;
		*ret_hi = sim_log(1, 40000);
	}
}

static void draw_threads(struct side_plan *p)
{
	static const enum role roles[][PLAN_THREADS_MAX] = {
		{ROLE_LOOP},
		{ROLE_WRITE, ROLE_READ},
		{ROLE_WRITE, ROLE_READ, ROLE_READ},
		{ROLE_WRITE, ROLE_WRITE, ROLE_READ},
		{ROLE_LOOP, ROLE_LOOP},
		{ROLE_LOOP, ROLE_READ},
		{ROLE_LOOP, ROLE_WRITE, ROLE_READ},
	};
	static const unsigned int counts[] = {1, 2, 3, 3, 2, 2, 3};
	uint64_t kind = sim_below(ARRAY_SIZE(counts));
	unsigned int i;

	memcpy(p->role, roles[kind], sizeof(p->role));
	p->threads = counts[kind];
	p->procs = p->threads > 1 && sim_chance(50) ? 2 : 1;
	for (i = 0; i < p->threads; i++)
		p->proc[i] = p->procs == 2 ? (i + 1) % 2 : 0;
}

static void draw_side(struct side_plan *p, uint64_t ring)
{
	draw_threads(p);
	p->blocking = sim_chance(40);
	draw_sizes(ring, &p->send_lo, &p->send_hi);
	draw_sizes(ring, &p->receive_lo, &p->receive_hi);
	p->pause_pct = sim_chance(50) ? (unsigned int)sim_below(60) : 0;
	p->pause_ticks = sim_log(1, 5000);
	p->quit_bytes = UINT64_MAX;
	p->event_ticks = sim_log(10, 10000);
	p->on_ring = sim_chance(60);
	p->leaves = sim_chance(50) ? (unsigned int)sim_below(4) : 0;
	p->stops = sim_chance(25) ? 1 + (unsigned int)sim_below(2) : 0;
	p->bare = sim_chance(50);
	p->freezes = sim_chance(20) ? 1 + (unsigned int)sim_below(3) : 0;
}

/* Many small operations or few large ones, about as much work. */
static void draw_total(struct side_plan *p, const struct side_plan *peer)
{
	uint64_t op = u64_min(p->send_hi, peer->receive_hi);

	p->total_bytes = sim_chance(10) ? sim_below(3) : sim_log(1, u64_min(100 * op, 150000));
}

/* Whether only one thread of the program receives: no other would sleep on when it has enough. */
static bool reads_alone(const struct side_plan *p)
{
	unsigned int i, n = 0;

	for (i = 0; i < p->threads; i++)
		n += p->role[i] != ROLE_WRITE;
	return n == 1;
}

/* A side may close early, with bytes unread, or be killed. */
static void draw_violence(void)
{
	struct side_plan *p = &plan.side[sim_below(2)];

	switch (sim_below(8)) {
	case 0:
		if (reads_alone(p))
			p->quit_bytes = sim_below(plan.side[p == plan.side].total_bytes + 1);
		break;
	case 1:
	case 2:
		p->kill_tick = sim_log(1, p->on_ring ? 1500 : 30000);
		p->kill_proc = (unsigned int)sim_below(p->procs);
		break;
	default:
		break;
	}
}

static void draw_finish(void)
{
	uint64_t kind = sim_below(6);

	plan.side[0].finish = (enum finish)(kind % 3);
	plan.side[1].finish = kind < 3 ? FINISH_SHUT : FINISH_COUNT;
	if (sim_chance(50)) {
		enum finish finish = plan.side[0].finish;

		plan.side[0].finish = plan.side[1].finish;
		plan.side[1].finish = finish;
	}
	for (kind = 0; kind < 2; kind++)
		if (plan.side[kind].finish == FINISH_COUNT && !reads_alone(&plan.side[kind]))
			plan.side[kind].finish = FINISH_SHUT;
}

/* Question and answer: whoever misses a wake-up stalls both. */
static void draw_turns(void)
{
	unsigned int i;

	plan.turns = sim_chance(25);
	if (!plan.turns)
		return;
	plan.side[0].total_bytes = plan.side[1].total_bytes = 0;
	plan.rounds = 1 + (unsigned int)sim_below(PLAN_ROUNDS_MAX);
	for (i = 0; i < plan.rounds; i++) {
		plan.round_bytes[i] = sim_chance(50) ? 1 + sim_below(4) : sim_log(1, 20000);
		plan.side[i % 2].total_bytes += plan.round_bytes[i];
	}
	for (i = 0; i < 2; i++) {
		plan.side[i].threads = plan.side[i].procs = 1;
		plan.side[i].role[0] = ROLE_TURNS;
		plan.side[i].proc[0] = 0;
		plan.side[i].quit_bytes = UINT64_MAX;
	}
}

static void draw_remote(void)
{
	plan.remote = sim_chance(20);
	if (!plan.remote)
		return;
	cover(COVER_REMOTE);
	plan.link_ticks = sim_log(0, 300);
	plan.link_loss_tick = sim_chance(60) ? sim_log(1, 2000) : 0;
	plan.host_deaths = sim_chance(40) ? 1 + (unsigned int)sim_below(3) : 0;
}

void plan_draw(uint64_t seed)
{
	unsigned int s;

	memset(&plan, 0, sizeof(plan));
	plan.seed = seed;
	sched.fine_pct = sim_chance(30) ? 0 : (unsigned int)sim_log(1, 60);
	sched.sticky_pct = sim_chance(50) ? 0 : 30 + (unsigned int)sim_below(65);
	sched.lag_pct = sim_chance(50) ? 0 : (unsigned int)sim_below(40);
	sched.spurious_pct = sim_chance(70) ? 0 : (unsigned int)sim_below(40);
	for (s = 0; s < 2; s++) {
		plan.ring_bytes[s] = 4096u << sim_below(3);
	}
	kernel.delay_ticks = sim_log(0, 500);
	for (s = 0; s < 2; s++)
		draw_side(&plan.side[s], plan.ring_bytes[s]);
	for (s = 0; s < 2; s++)
		draw_total(&plan.side[s], &plan.side[!s]);
	draw_finish();
	draw_violence();
	draw_turns();
	for (s = 0; s < 2; s++) {
		uint64_t least = 1 + plan.side[s].total_bytes / 200;

		kernel.pipe[s].send_bytes = (uint32_t)sim_log(least, 30000);
		kernel.pipe[s].receive_bytes = (uint32_t)sim_log(least, 30000);
	}
	plan.epochs = sim_chance(5) ? 0 : 1 + (unsigned int)sim_below(PLAN_EPOCHS_MAX);
	plan.promote_ticks = sim_log(1, sim_chance(70) ? 200 : 10000);
	plan.again_ticks = sim_log(1, sim_chance(70) ? 200 : 3000);
	draw_remote();
	plan.hostile = sched.may_stall = !plan.remote && sim_chance(6);
	plan.daemon_deaths = sim_chance(20) ? 1 + (unsigned int)sim_below(3) : 0;
}

void plan_print(void)
{
	static const char *const roles[] = {"write", "read", "loop", "turns"};
	static const char *const finishes[] = {"shut", "count", "eof"};
	unsigned int s, i;

	printf("# %s, link %lu, loss %lu, deaths %u\n", plan.remote ? "remote" : "local",
	       plan.link_ticks, plan.link_loss_tick, plan.host_deaths);
	printf("# seed %lu: epochs %u, rings %lu %lu, fine %u%%, sticky %u%%, lag %u%%, "
	       "spurious %u%%\n",
	       plan.seed, plan.epochs, plan.ring_bytes[0], plan.ring_bytes[1], sched.fine_pct,
	       sched.sticky_pct, sched.lag_pct, sched.spurious_pct);
	for (s = 0; s < 2; s++) {
		const struct side_plan *p = &plan.side[s];

		printf("# side %u:", s);
		for (i = 0; i < p->threads; i++)
			printf(" %s/%u", roles[p->role[i]], p->proc[i]);
		printf(", %lu bytes, sends %lu..%lu, receives %lu..%lu, ends by %s%s, leaves %u, "
		       "stops %u%s, freezes %u, kill %lu/%u, quit %ld, queues %u %u\n",
		       p->total_bytes, p->send_lo, p->send_hi, p->receive_lo, p->receive_hi,
		       finishes[p->finish], p->blocking ? ", blocking" : "", p->leaves, p->stops,
		       p->bare ? " bare" : "", p->freezes, p->kill_tick, p->kill_proc,
		       (long)p->quit_bytes, kernel.pipe[s].send_bytes,
		       kernel.pipe[s].receive_bytes);
	}
}

/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "sim/kernel.h"
#include "sim/plan.h"
#include "sim/sched.h"

struct plan plan;

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
	p->stops = sim_chance(40) ? 1 + (unsigned int)sim_below(2) : 0;
	p->stop_ticks = sim_log(1, 20000);
	p->bare = sim_chance(50);
	p->kill_moment = sim_chance(60) ? MOMENT_LOCK : MOMENT_ANY;
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

	switch (sim_below(10)) {
	case 0:
		if (reads_alone(p))
			p->quit_bytes = sim_below(plan.side[p == plan.side].total_bytes + 1);
		break;
	case 1:
	case 2:
	case 3:
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

/* --- themes: where two things have to meet in a few steps, chance alone seldom brings them there -
 */

/* Every access is a step, and steps take their time. */
static void theme_fine(void)
{
	sched.fine_pct = 100;
	sched.preempt_permille = 20 + (unsigned int)sim_below(100);
}

static void theme_small(struct side_plan *p)
{
	p->send_lo = 1;
	p->send_hi = 1 + sim_below(300);
	p->total_bytes = u64_min(p->total_bytes, 1 + sim_below(20 * p->send_hi));
}

/* A process dies inside a lock while another one goes on. */
static void theme_death(void)
{
	struct side_plan *p = &plan.side[sim_below(2)], *peer = &plan.side[p == plan.side];
	bool loops = sim_chance(50);
	unsigned int i;

	theme_fine();
	p->send_lo = 1;
	p->send_hi = 1 + sim_below(300);
	p->total_bytes = 12 * p->send_hi;
	p->threads = 3;
	p->procs = 2;
	for (i = 0; i < 3; i++) {
		p->role[i] = loops ? ROLE_LOOP : i ? ROLE_READ : ROLE_WRITE;
		p->proc[i] = i % 2;
	}
	p->finish = FINISH_SHUT;
	p->quit_bytes = UINT64_MAX;
	p->kill_tick = sim_log(1, 300);
	p->kill_proc = (unsigned int)sim_below(2);
	p->kill_moment = MOMENT_LOCK + (enum moment)sim_below(3);
	p->pause_pct = 60;
	p->pause_ticks = 5000;
	p->on_ring = p->kill_moment == MOMENT_RINGING || sim_chance(30);
	/* Small bites, so that room is kept back. */
	p->receive_lo = 1;
	p->receive_hi = 1 + sim_below(50);
	peer->total_bytes = u64_min(peer->total_bytes, 40 * p->receive_hi);
	plan.daemon_leaves = sim_chance(80);
}

/* A side shuts while the other starts. */
static void theme_shut(void)
{
	unsigned int s = (unsigned int)sim_below(2);

	theme_fine();
	theme_small(&plan.side[s]);
	plan.side[s].finish = FINISH_SHUT;
	plan.side[s].shut_at_start = true;
	plan.promote_ticks = 50;
}

/* Hand-overs that cross with their answers, or come late. */
static void theme_hand_over(void)
{
	unsigned int s;

	theme_fine();
	for (s = 0; s < 2; s++) {
		plan.side[s].freezes = 0;
		plan.side[s].stops = 1 + (unsigned int)sim_below(2);
		plan.side[s].stop_ticks = 50 + sim_below(500);
		plan.side[s].stop_late = sim_chance(25);
		plan.side[s].on_ring = true;
		plan.side[s].event_ticks = 20;
		plan.side[s].leaves = 0;
	}
}

/* Several readers, of whom one gets the last bytes before the ring and then does other things. */
static void theme_readers(void)
{
	struct side_plan *p = &plan.side[sim_below(2)], *peer = &plan.side[p == plan.side];
	unsigned int i;

	theme_fine();
	p->role[0] = ROLE_WRITE;
	p->role[1] = p->role[2] = ROLE_READ;
	p->threads = 3;
	p->procs = 1;
	memset(p->proc, 0, sizeof(p->proc));
	p->finish = FINISH_SHUT;
	p->quit_bytes = UINT64_MAX;
	p->blocking = false;
	p->receive_lo = p->receive_hi = 1000;
	peer->threads = peer->procs = 1;
	peer->role[0] = ROLE_LOOP;
	peer->proc[0] = 0;
	peer->finish = FINISH_EOF;
	peer->send_lo = 1;
	peer->send_hi = 50;
	peer->total_bytes = 1 + sim_below(200);
	for (i = 0; i < 2; i++) {
		plan.side[i].pause_pct = 80;
		plan.side[i].pause_ticks = 5000;
		plan.side[i].leaves = plan.side[i].stops = 0;
	}
	plan.promote_ticks = 50;
	kernel.delay_ticks = sim_log(100, 1000);
}

/* The link is lost as soon as it carries something, and daemons die. */
static void theme_loss(void)
{
	theme_fine();
	theme_small(&plan.side[0]);
	theme_small(&plan.side[1]);
	plan.remote = true;
	cover(COVER_REMOTE);
	plan.link_ticks = sim_log(0, 50);
	plan.link_loss_tick = sim_chance(50) ? sim_log(1, 100) : 0;
	plan.host_deaths = (unsigned int)sim_below(3);
	plan.host_death_ticks = 100;
}

static void draw_theme(void)
{
	if (plan.hostile || plan.turns)
		return;
	switch (sim_below(10)) {
	case 0:
		theme_death();
		break;
	case 1:
		theme_shut();
		break;
	case 2:
		theme_hand_over();
		break;
	case 3:
		theme_readers();
		break;
	case 4:
		theme_loss();
		break;
	case 5:
		theme_death();
		break;
	case 6:
		theme_hand_over();
		break;
	default:
		break;
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
	plan.host_death_ticks = 1000;
	plan.host_deaths = sim_chance(40) ? 1 + (unsigned int)sim_below(3) : 0;
}

void plan_draw(uint64_t seed)
{
	unsigned int s;

	memset(&plan, 0, sizeof(plan));
	plan.seed = seed;
	sched.fine_pct = sim_chance(30) ? 0 : (unsigned int)sim_log(1, 60);
	sched.sticky_pct = sim_chance(50) ? 0 : 30 + (unsigned int)sim_below(65);
	sched.preempt_permille = sim_chance(50) ? 0 : (unsigned int)sim_log(1, 40);
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
	plan.mail_rings = sim_chance(50);
	plan.daemon_leaves = sim_chance(10);
	plan.daemon_deaths = sim_chance(20) ? 1 + (unsigned int)sim_below(3) : 0;
	draw_theme();
	if (plan.hostile && sim_chance(60)) {
		/* Something to overrun a ring with. */
		plan.side[0].send_lo = 20000;
		plan.side[0].send_hi = 60000;
		plan.side[0].total_bytes = plan.turns ? plan.side[0].total_bytes : 150000;
		kernel.pipe[0].send_bytes = kernel.pipe[0].receive_bytes = 30000;
		plan.side[1].receive_hi = u64_max(plan.side[1].receive_hi, 5000);
	}
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

/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "sim/link_world.h"

/*
 * shunt-linksim [--seed N] [--runs K] [--seeds FILE] [--cover]
 *
 * Runs the seeds of FILE, then N … N+K-1, then the cases whose figures are promised: work requests
 * per message, and how long a ping-pong waits beside a bulk stream. Prints TAP. The first failure
 * ends the runs, in one line with its seed and tick; --cover makes it a failure if something was
 * never seen.
 */

/* lo … hi, each order of magnitude as likely as another. */
static uint64_t log_below(struct prng *prng, uint64_t lo, uint64_t hi)
{
	uint64_t doublings = prng_below(prng, (uint64_t)(64 - __builtin_clzll(hi / lo)));
	uint64_t from = lo << doublings;

	return from + prng_below(prng, u64_min(from, hi - from + 1));
}

static void draw_limits(struct prng *prng, struct link_limits *limits)
{
	/* Those of INLINE.md's providers, and none. */
	static const uint32_t inlines[] = {0, 31, 32, 48, 80, 96, 101, 216, 236, 512, 1024, 2048};
	uint32_t chunk = prng_chance(prng, 50) ? LINK_CHUNK_BYTES
					       : (uint32_t)log_below(prng, 512, LINK_CHUNK_BYTES);
	bool tight = prng_chance(prng, 40);

	*limits = (struct link_limits){
		.depth = tight ? LINK_DEPTH_MIN + (uint32_t)prng_below(prng, 8)
			       : LINK_DEPTH_MIN + (uint32_t)prng_below(prng, WORLD_DEPTH_MAX - 15),
		.inline_bytes = inlines[prng_below(prng, ARRAY_SIZE(inlines))],
		.chunk_bytes = chunk,
		.lane_bytes = chunk * (1 + (uint32_t)prng_below(prng, 3)),
		.own_credits = LINK_CREDITS_MIN + (uint32_t)log_below(prng, 1, 120) - 1,
	};
	limits->link_bytes = limits->lane_bytes + (uint32_t)prng_below(prng, chunk * 2);
}

static void draw_lane(struct prng *prng, struct world_plan *plan, unsigned int i)
{
	typeof(plan->lane[0]) *lane = &plan->lane[i];
	uint64_t share = (1u << 20) / plan->lanes;

	lane->use = (enum world_use)prng_below(prng, 3);
	lane->epochs = 1 + (uint32_t)prng_below(prng, 3);
	lane->freeze_tick = prng_chance(prng, 20) ? log_below(prng, 1, 100000) : UINT64_MAX;
	lane->read_most = (uint32_t)log_below(prng, 1, WORLD_RING_MAX_BYTES);
	for (unsigned int side = 0; side < 2; side++) {
		unsigned int shift = (unsigned int)prng_below(prng, 9);

		lane->ring_bytes[side] = RING_SIZE_MIN_BYTES << shift;
		lane->fed_bytes[side] = prng_chance(prng, 60)
						? lane->ring_bytes[side]
						: RING_SIZE_MIN_BYTES << prng_below(prng, 9);
		lane->total[side] = log_below(prng, 1, share) - prng_below(prng, 2);
	}
	lane->size = (uint32_t)log_below(prng, 1, 3000);
	if (lane->use == WORLD_PING_PONG)
		lane->total[0] = lane->total[1] = lane->size * log_below(prng, 1, 200);
	/* In the time that there is. */
	for (unsigned int side = 0; side < 2; side++)
		lane->total[side] = u64_min(lane->total[side],
					    lane->read_most * 1000ull / lane->size * lane->size);
	if (lane->use == WORLD_RANDOM)
		for (unsigned int side = 0; side < 2; side++)
			lane->total[side] = u64_min(lane->total[side], lane->size * 300ull);
}

void world_draw(struct world_plan *plan, uint64_t seed)
{
	struct prng prng;

	*plan = (struct world_plan){.seed = seed};
	prng_init(&prng, seed ^ 0x6c696e6b);
	plan->lanes = (uint32_t)log_below(&prng, 1, WORLD_LANES);
	plan->rate = (uint32_t)log_below(&prng, 16, 4096);
	plan->latency = (uint32_t)log_below(&prng, 1, 2000);
	plan->poll_ticks = (uint32_t)log_below(&prng, 1, 500);
	plan->app_ticks = (uint32_t)log_below(&prng, 1, 500);
	plan->repost_ticks = prng_chance(&prng, 50);
	for (unsigned int side = 0; side < 2; side++)
		draw_limits(&prng, &plan->limits[side]);
	for (unsigned int i = 0; i < plan->lanes; i++)
		draw_lane(&prng, plan, i);
	plan->cut_tick = prng_chance(&prng, 30) ? log_below(&prng, 1, 200000) : UINT64_MAX;
	/* Each step of each party may take its longest time, some of them a few times. */
	plan->still_ticks = 100ull * (plan->poll_ticks + plan->app_ticks + plan->latency) +
			    2 * LINK_CHUNK_BYTES / plan->rate;
}

/* --- what was seen ---------------------------------------------------------------------------- */

static struct link_counts sum;
static uint64_t cuts, ticks;

static void count(void)
{
	uint64_t *to = (uint64_t *)&sum;

	for (unsigned int side = 0; side < 2; side++) {
		const uint64_t *from = (const uint64_t *)&world.end[side].send.counts;

		for (size_t i = 0; i < sizeof(sum) / sizeof(*to); i++)
			to[i] += from[i];
	}
	cuts += world.is_cut;
	ticks += world.tick;
}

static bool seen(const char *what, uint64_t times)
{
	printf("# %12lu %s\n", times, what);
	return times;
}

static bool report(void)
{
	bool all = true;

	all &= seen("links cut", cuts);
	all &= seen("messages eager", sum.eager);
	all &= seen("messages written inline", sum.write_inline);
	all &= seen("messages by reference", sum.by_reference);
	all &= seen("offsets alone", sum.updates);
	all &= seen("messages of words", sum.states);
	all &= seen("lanes done", sum.dones);
	all &= seen("credits alone", sum.credits);
	all &= seen("times blocked", sum.blocked);
	all &= seen("bytes discarded", sum.discarded_bytes);
	return all;
}

/* --- what is promised ------------------------------------------------------------------------- */

static const struct link_limits usual = {
	.depth = 128,
	.inline_bytes = 236,
	.chunk_bytes = LINK_CHUNK_BYTES,
	.lane_bytes = LANE_OUT_CHUNKS * LINK_CHUNK_BYTES,
	.link_bytes = LINK_OUT_CHUNKS * LINK_CHUNK_BYTES,
	.own_credits = 128,
};

/* A ping-pong of 64 bytes on lane 0, beside @bulks streams. */
static void usual_plan(struct world_plan *plan, uint32_t bulks, uint32_t inline_bytes)
{
	*plan = (struct world_plan){
		.seed = 1,
		.lanes = 1 + bulks,
		.rate = 64,
		.latency = 50,
		.poll_ticks = 1,
		.app_ticks = 1,
		.limits = {usual, usual},
		.cut_tick = UINT64_MAX,
		.still_ticks = 100000,
	};
	for (unsigned int side = 0; side < 2; side++)
		plan->limits[side].inline_bytes = inline_bytes;
	for (unsigned int i = 0; i <= bulks; i++) {
		typeof(plan->lane[0]) *lane = &plan->lane[i];

		lane->use = i ? WORLD_BULK : WORLD_PING_PONG;
		lane->size = 64;
		lane->read_most = 1u << 20;
		lane->epochs = 1;
		lane->freeze_tick = UINT64_MAX;
		for (unsigned int side = 0; side < 2; side++) {
			lane->ring_bytes[side] = lane->fed_bytes[side] = 512u << 10;
			lane->total[side] = i ? (8u << 20) / bulks : bulks ? 64 * 200 : 64 * 10000;
		}
	}
}

/* A case fails with one line that says why. */
#define CASE_REQUIRE(cond, ...)                                                                    \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("# case " __VA_ARGS__);                                             \
			return false;                                                              \
		}                                                                                  \
	} while (0)

static bool one_work_request_per_message(void)
{
	uint64_t wrs = 0, messages = 0, alone = 0;
	struct world_plan plan;

	usual_plan(&plan, 0, usual.inline_bytes);
	CASE_REQUIRE(world_run(&plan), "ping-pong: %s\n", world.fault);
	for (unsigned int side = 0; side < 2; side++) {
		const struct link_counts *counts = &world.end[side].send.counts;

		messages += counts->eager + counts->write_inline + counts->by_reference;
		alone += counts->updates + counts->credits;
		/* But for the start and the end of the lane. */
		wrs += counts->wrs - counts->states - counts->dones;
	}
	printf("# %lu messages of 64 bytes, %lu work requests, %lu updates or credits alone\n",
	       messages, wrs, alone);
	CASE_REQUIRE(messages == 20000 && wrs == messages && !alone,
		     "ping-pong: %lu work requests for %lu messages\n", wrs, messages);
	return true;
}

/* And streams share: the first is done when the last has not much more to do. */
static bool four_chunks_at_most(uint32_t bulks, uint32_t inline_bytes)
{
	uint64_t chunk, slowest = 0, first = UINT64_MAX, last = 0;
	struct world_plan plan;

	usual_plan(&plan, bulks, inline_bytes);
	CASE_REQUIRE(world_run(&plan), "%u streams: %s\n", bulks, world.fault);
	chunk = LINK_CHUNK_BYTES / plan.rate;
	for (unsigned int side = 0; side < 2; side++)
		slowest = u64_max(slowest, world.end[side].client[0].slowest_ticks);
	for (unsigned int i = 1; i <= bulks; i++) {
		first = u64_min(first, world.end[0].client[i].all_tick);
		last = u64_max(last, world.end[0].client[i].all_tick);
	}
	printf("# beside %u streams: one way at most %lu ticks, of a chunk %lu, of the way %u\n",
	       bulks, slowest, chunk, plan.latency);
	printf("# the first stream was done after %lu ticks, the last after %lu\n", first, last);
	CASE_REQUIRE(slowest <= 4 * chunk + plan.latency, "%u streams: a message took %lu ticks\n",
		     bulks, slowest);
	CASE_REQUIRE(first >= last / 4 * 3, "%u streams: one was done at %lu, one at %lu\n", bulks,
		     first, last);
	return true;
}

/* --- */

static bool run_seed(uint64_t seed)
{
	struct world_plan plan;

	world_draw(&plan, seed);
	if (!world_run(&plan)) {
		printf("# seed %lu tick %lu: %s\n", seed, world.tick, world.fault);
		return false;
	}
	count();
	return true;
}

static uint64_t crash_seed;

static void on_crash(int signal)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "# seed %lu tick %lu: died of signal %d\nnot ok 1\n",
			 crash_seed, world.tick, signal);

	if (write(STDOUT_FILENO, line, (size_t)n) < n)
		_exit(2);
	_exit(1);
}

/* The seeds of a file: the number at the beginning of each line. */
static bool run_kept(const char *path, uint64_t *runs)
{
	FILE *file = fopen(path, "re");
	char line[256];
	bool ok = true;

	if (!file) {
		perror(path);
		return false;
	}
	while (ok && fgets(line, sizeof(line), file)) {
		if (line[0] < '0' || line[0] > '9')
			continue;
		crash_seed = strtoull(line, NULL, 10);
		ok = run_seed(crash_seed);
		++*runs;
	}
	fclose(file);
	return ok;
}

static bool tap(unsigned int number, bool ok, const char *what)
{
	printf("%sok %u - %s\n", ok ? "" : "not ", number, what);
	return ok;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"seed", required_argument, NULL, 's'},
		{"runs", required_argument, NULL, 'r'},
		{"seeds", required_argument, NULL, 'f'},
		{"cover", no_argument, NULL, 'c'},
		{0},
	};
	uint64_t seed = 1, runs = 1, done = 0;
	const char *kept = NULL;
	bool cover = false, ok = true;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 10);
		else if (c == 'r')
			runs = strtoull(optarg, NULL, 10);
		else if (c == 'f')
			kept = optarg;
		else if (c == 'c')
			cover = true;
		else
			return 2;
	}
	signal(SIGSEGV, on_crash);
	signal(SIGABRT, on_crash);
	printf("1..%d\n", cover ? 7 : 6);
	fflush(stdout);
	if (kept)
		ok = run_kept(kept, &done);
	for (uint64_t i = 0; ok && i < runs; i++, done++)
		ok = run_seed(crash_seed = seed + i);
	printf("# %lu runs, %lu ticks\n", done, ticks);
	if (!tap(1, ok, "no seed finds a fault"))
		return 1;
	ok &= tap(2, one_work_request_per_message(), "one work request per message of 64 bytes");
	ok &= tap(3, four_chunks_at_most(1, 236), "four chunks beside one stream");
	ok &= tap(4, four_chunks_at_most(8, 236), "four chunks beside eight streams");
	ok &= tap(5, four_chunks_at_most(1, 0), "four chunks without inline beside one stream");
	ok &= tap(6, four_chunks_at_most(8, 0), "four chunks without inline beside eight streams");
	if (cover)
		ok &= tap(7, report(), "all of it was seen");
	return !ok;
}

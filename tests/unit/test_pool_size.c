/* SPDX-License-Identifier: MIT */
#include "base/prng.h"
#include "core/pool_size.h"

#include "lib/tap.h"

#define NOW 1000000000ull

TAP_CASE(it_starts_at_the_minimum)
{
	struct pool_size size;

	pool_size_init(&size, 2, 64, NOW);
	CHECK_EQ(size.target, 2);
	CHECK_EQ(pool_size_wanted(&size, 0, 0), 2);
	CHECK_EQ(pool_size_wanted(&size, 1, 0), 1);
	CHECK_EQ(pool_size_wanted(&size, 1, 1), 0);
	CHECK_EQ(pool_size_wanted(&size, 2, 5), 0);
	CHECK_EQ(pool_size_wanted(&size, UINT32_MAX, UINT32_MAX), 0);
}

/* 50 links one after the other, each refilled in time only partly. */
TAP_CASE(it_grows_while_takes_run_it_low_and_stops_at_the_maximum)
{
	static const struct {
		uint32_t ready;
		bool found;
		uint32_t target;
	} steps[] = {
		{1, true, 2},			/* plenty left: half of it */
		{0, true, 4},			/* the last one went */
		{0, false, 8},			/* none was there */
		{7, true, 8},	{2, true, 8},	/* exactly a quarter */
		{1, true, 16},	{0, false, 20}, /* the maximum, which is no power of two */
		{0, false, 20},
	};
	struct pool_size size;

	pool_size_init(&size, 2, 20, NOW);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		pool_size_asked(&size, steps[i].ready, steps[i].found);
		CHECK_EQ(size.target, steps[i].target);
	}
}

TAP_CASE(it_shrinks_only_behind_quiet_windows_and_not_below_the_minimum)
{
	struct pool_size size;
	uint64_t now = NOW;
	uint32_t before;

	pool_size_init(&size, 2, 64, now);
	for (int i = 0; i < 10; i++)
		pool_size_asked(&size, 0, false);
	CHECK_EQ(size.target, 64);
	/* The window in which it was empty is no quiet one. */
	CHECK(!pool_size_tick(&size, 64, now + POOL_WINDOW_NS - 1));
	CHECK(!pool_size_tick(&size, 64, now + POOL_WINDOW_NS));
	CHECK_EQ(size.target, 64);
	now += POOL_WINDOW_NS;
	/* Less than half of it left at some moment: kept. */
	pool_size_asked(&size, 32, true);
	CHECK(!pool_size_tick(&size, 64, now += POOL_WINDOW_NS));
	for (int i = 0; i < 100; i++) {
		before = size.target;
		CHECK_EQ(pool_size_tick(&size, before, now += POOL_WINDOW_NS), before > 2);
		CHECK(size.target < before || before == 2);
		CHECK(size.target >= before - (before - 2) / 4 - 1);
	}
	CHECK_EQ(size.target, 2);
}

TAP_CASE(a_fixed_size_stays)
{
	struct pool_size size;

	pool_size_init(&size, 3, 3, NOW);
	pool_size_asked(&size, 0, false);
	CHECK_EQ(size.target, 3);
	CHECK(!pool_size_tick(&size, 3, NOW + 2 * POOL_WINDOW_NS));
	CHECK_EQ(size.target, 3);
}

TAP_CASE(whatever_happens_the_target_is_in_its_range)
{
	struct pool_size size;
	struct prng prng;
	uint64_t now = NOW;

	prng_init(&prng, 11);
	for (int run = 0; run < 200; run++) {
		uint32_t min = 1 + (uint32_t)prng_below(&prng, 8);
		uint32_t max = min + (uint32_t)prng_below(&prng, 100);
		bool good = true;

		pool_size_init(&size, min, max, now);
		for (int step = 0; step < 500; step++) {
			uint32_t ready = (uint32_t)prng_below(&prng, max + 1);

			if (prng_chance(&prng, 50))
				pool_size_asked(&size, ready, prng_chance(&prng, 70));
			else
				pool_size_tick(&size, ready,
					       now += prng_below(&prng, POOL_WINDOW_NS));
			good &= size.target >= min && size.target <= max;
			good &= pool_size_wanted(&size, ready, 0) <= size.target;
		}
		CHECK(good);
	}
}

TAP_CASE(the_budget_is_the_least_of_device_administrator_and_memory)
{
	struct pool_budget budget = {
		.device_max = 800, .config_max = 100, .memory_max = 1u << 20, .qp_bytes = 4096};

	CHECK_EQ(pool_budget_max(&budget), 100);
	budget.config_max = 10000;
	CHECK_EQ(pool_budget_max(&budget), 256);
	budget.memory_max = 1ull << 40;
	CHECK_EQ(pool_budget_max(&budget), 700);
	budget.device_max = 0;
	CHECK_EQ(pool_budget_max(&budget), 10000);
	budget.in_use = 9990;
	budget.coming = 4;
	CHECK_EQ(pool_budget_left(&budget), 6);
	budget.coming = 10;
	CHECK_EQ(pool_budget_left(&budget), 0);
	budget.coming = UINT32_MAX;
	CHECK_EQ(pool_budget_left(&budget), 0);
}

TAP_CASE(the_estimate_grows_with_inline_and_depth)
{
	/* 128 entries of 64 + 236 bytes in blocks of 64: 320; and 128 of 16 to receive. */
	CHECK_EQ(pool_qp_bytes(128, 128, 1, 236), 128 * 320 + 4096);
	CHECK_EQ(pool_qp_bytes(128, 128, 1, 0), 128 * 128 + 4096);
	CHECK_EQ(pool_qp_bytes(1, 1, 16, 0), 4096 + 4096);
	CHECK(pool_qp_bytes(UINT32_MAX, UINT32_MAX, 64, 1024) > 1ull << 42);
}

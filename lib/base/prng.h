/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * Seeded pseudo-random numbers for simulations and tests: splitmix64, so that one 64-bit seed
 * gives the same sequence on every machine. Not for secrets.
 */
struct prng {
	uint64_t state;
};

void prng_init(struct prng *prng, uint64_t seed);
uint64_t prng_next(struct prng *prng);
/* Uniform in [0, limit); limit must not be 0. */
uint64_t prng_below(struct prng *prng, uint64_t limit);
/* True @pct times out of a hundred. */
int prng_chance(struct prng *prng, unsigned int pct);

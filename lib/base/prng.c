/* SPDX-License-Identifier: MIT */
#include "base/prng.h"

void prng_init(struct prng *prng, uint64_t seed)
{
	prng->state = seed;
}

uint64_t prng_next(struct prng *prng)
{
	uint64_t z = prng->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t prng_below(struct prng *prng, uint64_t limit)
{
	return (uint64_t)(((unsigned __int128)prng_next(prng) * limit) >> 64);
}

int prng_chance(struct prng *prng, unsigned int pct)
{
	return prng_below(prng, 100) < pct;
}

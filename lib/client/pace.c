/* SPDX-License-Identifier: MIT */
#include "client/pace.h"
#include "client/spin.h"
#include "os/clock.h"

/* Looks in a row that make a stream. Chosen: a burst of an ordinary program is over by then. */
#define PACE_AFTER 64u
/* What is little: fewer bytes than pay for one look. Chosen: 32 messages of a cache line. */
#define PACE_LITTLE_BYTES 2048u
/* How long messages gather. Chosen: of 0, 300, 1000 and 2000 ns in `bench-native --bandwidth --size
 * 64` 300 gained all that was to be gained; some room for slower processors. */
#define PACE_GATHER_NS 500u

void pace_wait(const struct pace *pace)
{
	uint64_t end_ns;

	if (__atomic_load_n(&pace->run, __ATOMIC_RELAXED) < PACE_AFTER)
		return;
	end_ns = clock_now_ns() + PACE_GATHER_NS;
	do
		spin_relax();
	while (clock_now_ns() < end_ns);
}

void pace_note(struct pace *pace, uint64_t bytes, uint64_t sent, bool quick)
{
	uint32_t run = pace->run;

	/* Gathering makes much of little: that is no reason to stop it. */
	if (pace->sent != sent || !quick || (bytes >= PACE_LITTLE_BYTES && run < PACE_AFTER))
		run = 0;
	else if (run < PACE_AFTER)
		run++;
	pace->sent = sent;
	__atomic_store_n(&pace->run, run, __ATOMIC_RELAXED);
}

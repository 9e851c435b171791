/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "sim/daemon.h"
#include "sim/hostile.h"
#include "sim/sched.h"
#include "sim/side.h"

/* So many words it writes, then it is tired and the run can end. */
#define HOSTILE_WRITES_MAX 300u

#define HOSTILE_SIDE 1u

static _Atomic uint64_t *pick_word(struct half_ctl *half)
{
	_Atomic uint64_t *const words[] = {
		&half->prod,	  &half->state_seq, &half->cons,     &half->arm_data,
		&half->arm_space, &half->ready,	    &half->rx_ready, &half->tx_start,
		&half->rx_seen,	  &half->tx_end,    &half->leave,    &half->rx_stop,
		&half->stop_ack,  &half->closing,   &half->shut,     &half->rx_resume,
		&half->lost,	  &half->replayed,  &half->epoch,
	};

	/* The hot ones more often. */
	return sim_chance(30) ? words[2 * sim_below(2)] : words[sim_below(ARRAY_SIZE(words))];
}

/* Nearly right is worse than wrong. */
static uint64_t pick_value(const struct epoch *epoch, const _Atomic uint64_t *word)
{
	const struct half_ctl *victim = epoch->half[!HOSTILE_SIDE];
	uint64_t now = atomic_load_explicit(word, memory_order_relaxed);

	switch (sim_below(9)) {
	case 0:
		return 0;
	case 1:
		return 1 + sim_below(3);
	case 2:
		return now + 1;
	case 3:
		return now - 1;
	case 4:
		return now + epoch->ring_bytes[sim_below(2)] + sim_below(3) - 1;
	case 5:
		return atomic_load_explicit(&victim->prod, memory_order_relaxed) + sim_below(3);
	case 6:
		return atomic_load_explicit(&victim->cons, memory_order_relaxed) +
		       epoch->ring_bytes[HOSTILE_SIDE] + sim_below(3) - 1;
	case 7:
		return UINT64_MAX - sim_below(2);
	default:
		return prng_next(&sched.prng);
	}
}

static bool epoch_there(void *arg)
{
	(void)arg;
	return daemons.epochs != 0;
}

static void hostile_main(void *arg)
{
	unsigned int writes = (unsigned int)sim_log(1, HOSTILE_WRITES_MAX);
	uint64_t ticks = sim_log(1, 500);
	struct epoch *epoch;
	_Atomic uint64_t *word;

	sim_wait(epoch_there, NULL, SCHED_FOREVER);
	while (writes--) {
		sim_pause(sim_log(1, ticks), true);
		epoch = &daemons.epoch[daemons.epochs - 1];
		word = pick_word(epoch->half[HOSTILE_SIDE]);
		atomic_store_explicit(word, pick_value(epoch, word), memory_order_seq_cst);
		if (sim_chance(50))
			atomic_fetch_add_explicit(&epoch->half[HOSTILE_SIDE]->state_seq, 1,
						  memory_order_seq_cst);
		if (sim_chance(30))
			side_ring(&sides[!HOSTILE_SIDE]);
	}
	(void)arg;
}

void hostile_start(void)
{
	sched_spawn("hostile", hostile_main, NULL)->system = true;
}

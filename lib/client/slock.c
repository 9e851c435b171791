/* SPDX-License-Identifier: MIT */
#include "client/slock.h"
#include "client/spin.h"
#include "os/clock.h"
#include "os/futex.h"

/* Tries before sleeping. Chosen: about a microsecond, longer than most holds. */
#define SLOCK_SPINS 40
/* How often a sleeper looks whether the holder still lives. Chosen: rare enough to cost nothing. */
#define SLOCK_CHECK_NS 20000000u

bool slock_lock_slow(struct slock *lock, uint32_t place, slock_dead_fn dead, void *arg)
{
	uint32_t word;

	for (int i = 0; i < SLOCK_SPINS; i++) {
		if (slock_try(lock, place))
			return false;
		spin_relax();
	}
	for (;;) {
		word = atomic_load_explicit(&lock->word, memory_order_relaxed);
		if (!word) {
			/* Others may sleep: whoever comes through here wakes the next one. */
			if (atomic_compare_exchange_strong_explicit(
				    &lock->word, &word, place | SLOCK_CONTENDED,
				    memory_order_acquire, memory_order_relaxed))
				return false;
			continue;
		}
		if (!(word & SLOCK_CONTENDED) &&
		    !atomic_compare_exchange_strong(&lock->word, &word, word | SLOCK_CONTENDED))
			continue;
		word |= SLOCK_CONTENDED;
		if (futex_wait(&lock->word, word, clock_now_ns() + SLOCK_CHECK_NS) == 0)
			continue;
		if ((word & SLOCK_HOLDER_MASK) != place && dead(arg, word & SLOCK_HOLDER_MASK) &&
		    atomic_compare_exchange_strong(&lock->word, &word, place | SLOCK_CONTENDED))
			return true;
	}
}

void slock_wake(struct slock *lock)
{
	futex_wake(&lock->word, 1);
}

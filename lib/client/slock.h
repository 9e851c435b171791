/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A lock in memory that several processes share and any of which may die with it.
 *
 * The word is 0, or who holds it (1…255, the holder's place at the socket) and whether others
 * wait. There is nothing in it that another process could use against us: no pointer, no list.
 * Not recursive. Nobody may block or wait while holding one.
 */
struct slock {
	_Atomic uint32_t word;
};

#define SLOCK_HOLDER_MASK 0xffu
#define SLOCK_CONTENDED 0x100u

/* Whether the process that signed with @place is dead for certain. */
typedef bool (*slock_dead_fn)(void *arg, uint32_t place);

/* The slow part of slock_lock(). */
bool slock_lock_slow(struct slock *lock, uint32_t place, slock_dead_fn dead, void *arg);
void slock_wake(struct slock *lock);

static inline bool slock_try(struct slock *lock, uint32_t place)
{
	uint32_t free = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &free, place,
						       memory_order_acquire, memory_order_relaxed);
}

/*
 * Take the lock as @place. Returns true if it was taken over from a dead holder: what it guards
 * must be mended. @dead is asked, rarely, about the present holder.
 */
static inline bool slock_lock(struct slock *lock, uint32_t place, slock_dead_fn dead, void *arg)
{
	if (slock_try(lock, place))
		return false;
	return slock_lock_slow(lock, place, dead, arg);
}

static inline void slock_unlock(struct slock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) & SLOCK_CONTENDED)
		slock_wake(lock);
}

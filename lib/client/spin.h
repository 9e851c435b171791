/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The adaptive spin: look at memory for a while before sleeping, where that has paid.
 *
 * It pays when the other end answers from another CPU within the time that a sleep and a wake-up
 * cost. It does harm when the other end waits for this very CPU. Neither can be known, so each
 * memory (one per connection, and one per thread for waits on many) learns from hits and misses; a
 * spin that has stopped paying is tried again after ever more waits, so that it costs nothing.
 */
struct spin_memory {
	uint8_t misses; /* what the last spins came to: a hit takes one off, a miss adds two */
	uint8_t known;	/* 0: never spun */
	uint16_t skip;	/* waits to sleep at once when spinning does not pay */
	uint16_t left;	/* of those, still to come */
	uint8_t quick;	/* the last wait was over within the first few looks */
	uint8_t unused;
};

/* Between two looks: leave the core's resources to whoever shares it. */
static inline void spin_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

void spin_init(void);

/*
 * Look until @moved(@arg), for at most spin_us. Returns the last answer of @moved; false at once
 * where spinning does not pay or only one CPU is online. Threads may race for @memory.
 */
bool spin_for(struct spin_memory *memory, bool (*moved)(void *arg), void *arg);

/* The same with a memory of this thread's, for a wait on @n sockets; false if they are too many to
 * look at. */
bool spin_for_many(size_t n, bool (*moved)(void *arg), void *arg);

/* Whether the last wait with @memory was over as soon as it began. Threads may race for it. */
bool spin_was_quick(const struct spin_memory *memory);

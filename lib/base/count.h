/* SPDX-License-Identifier: MIT */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Counters that one thread keeps and any other may read while it does: plain 64-bit fields that are
 * stored and loaded whole, without any order. A figure is never torn, but two of them may be of
 * different moments. Keeping one costs what an ordinary addition does.
 */

/* Add @n to @counter; by the thread that keeps it, which alone writes it. */
static inline void count_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* The same for a figure that is not a sum. */
static inline void count_set(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

static inline uint64_t count_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Read a structure of @bytes that has such counters and nothing else. */
static inline void counts_read(void *ret_counts, const void *counts, size_t bytes)
{
	const uint64_t *from = counts;
	uint64_t *to = ret_counts;

	assert(bytes % sizeof(*to) == 0);
	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] = count_read(&from[i]);
}

/* Add those of @counts to @sum, which belongs to the caller alone. */
static inline void counts_add(void *sum, const void *counts, size_t bytes)
{
	const uint64_t *from = counts;
	uint64_t *to = sum;

	assert(bytes % sizeof(*to) == 0);
	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] += from[i];
}

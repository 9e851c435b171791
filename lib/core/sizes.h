/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * How large the messages on a lane are: a histogram with buckets by powers of four, so that one
 * direction's is a cache line. A message is what is put into the ring, or taken out of it, at once:
 * a call's bytes, but for a call of more than 16 KiB (client/io.h) or than what is free, or there,
 * which counts as several; so the sum of all messages is exactly the ring's offset.
 */

#define SIZES_BUCKETS 8u

/* Largest size in the first bucket. Chosen: what a device that posts inline carries in any case. */
#define SIZES_FIRST_BYTES 64u

/* Largest message of @bucket, for all but the last, which is open: 64, 256, 1K … 256K. */
static inline uint64_t sizes_limit(unsigned int bucket)
{
	return (uint64_t)SIZES_FIRST_BYTES << (2 * bucket);
}

/* The bucket of a message of @len bytes. */
static inline unsigned int sizes_bucket(uint64_t len)
{
	unsigned int top, bucket;

	if (len <= SIZES_FIRST_BYTES)
		return 0;
	top = 63u - (unsigned int)__builtin_clzll(len - 1);
	bucket = (top - 4) / 2;
	return bucket < SIZES_BUCKETS ? bucket : SIZES_BUCKETS - 1;
}

/*
 * Count a message of @len bytes in @counts, which the caller alone writes: under the lock of its
 * direction. No atomic words: who reads them, the daemon, is another process, takes each as it is
 * (count_read()), and a plain addition is one instruction. A small message costs five instructions
 * of the 500 of a call (callgrind).
 */
static inline void sizes_count(uint64_t counts[SIZES_BUCKETS], uint64_t len)
{
	if (len <= SIZES_FIRST_BYTES)
		counts[0]++;
	else
		counts[sizes_bucket(len)]++;
}

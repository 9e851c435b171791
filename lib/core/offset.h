/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The two number lines of a connection, as two types that the compiler keeps apart.
 *
 * A ring offset counts the bytes that one side has put on its ring since the epoch began; it is
 * 64 bits wide and never wraps. A TCP count counts the payload bytes that went one way over the
 * kernel's TCP since the connection began. One is never a substitute for the other.
 */
struct ring_off {
	uint64_t v;
};

struct tcp_count {
	uint64_t v;
};

static inline struct ring_off ring_off(uint64_t v)
{
	return (struct ring_off){v};
}

static inline struct tcp_count tcp_count(uint64_t v)
{
	return (struct tcp_count){v};
}

static inline bool ring_off_eq(struct ring_off a, struct ring_off b)
{
	return a.v == b.v;
}

static inline bool ring_off_lt(struct ring_off a, struct ring_off b)
{
	return a.v < b.v;
}

static inline struct ring_off ring_off_add(struct ring_off a, uint64_t n)
{
	return ring_off(a.v + n);
}

/* Bytes from @from up to @to; the caller knows that from <= to. */
static inline uint64_t ring_off_dist(struct ring_off from, struct ring_off to)
{
	return to.v - from.v;
}

static inline bool tcp_count_eq(struct tcp_count a, struct tcp_count b)
{
	return a.v == b.v;
}

static inline bool tcp_count_lt(struct tcp_count a, struct tcp_count b)
{
	return a.v < b.v;
}

static inline struct tcp_count tcp_count_add(struct tcp_count a, uint64_t n)
{
	return tcp_count(a.v + n);
}

static inline uint64_t tcp_count_dist(struct tcp_count from, struct tcp_count to)
{
	return to.v - from.v;
}

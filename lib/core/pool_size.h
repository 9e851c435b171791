/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * How many queue pairs a pool keeps ready, and how many a device may have at all.
 *
 * The size follows demand: it starts at the minimum; a take that leaves less than a quarter of it
 * (or finds none) doubles it, up to the maximum; a window of POOL_WINDOW_NS in which half of it was
 * never touched takes a quarter of what is above the minimum away. So a burst of links finds a
 * larger pool at its second wave, and a quiet host keeps two queue pairs.
 *
 * The budget counts every queue pair that exists or is being made, whoever has it: the pools of
 * all ports of a device, its links, and the probe. It never exceeds what the device has, nor what
 * the administrator allows, nor the memory that he allows. A pool is never filled above what the
 * budget leaves.
 *
 * Pure; times are the caller's, monotonic nanoseconds.
 */

/* Chosen: links come with peers, which come and go by the minute rather than by the second. */
#define POOL_WINDOW_NS 30000000000ull

/* Queue pairs of a device that are never ours: other programs need some, and the kernel's own
 * management traffic has its. Chosen: one in eight. */
#define POOL_SPARE_DIVISOR 8u

struct pool_size {
	uint32_t min, max;  /* 1 <= min <= max */
	uint32_t target;    /* what should be ready: min…max */
	uint32_t low;	    /* least that was ready in this window */
	uint64_t window_ns; /* when it began */
};

/* Start with @min (at least 1) and @max (at least @min) at @now_ns. */
void pool_size_init(struct pool_size *size, uint32_t min, uint32_t max, uint64_t now_ns);

/* Somebody asked for one, and @ready are left now; @found: he got it. */
void pool_size_asked(struct pool_size *size, uint32_t ready, bool found);

/*
 * Time passes: to be called now and then, at least before pool_size_wanted().
 * @ready: what is there now. Returns whether the target has fallen: what is above it may go.
 */
bool pool_size_tick(struct pool_size *size, uint32_t ready, uint64_t now_ns);

/* How many to make, with @ready there and @coming being made: 0…target. */
uint32_t pool_size_wanted(const struct pool_size *size, uint32_t ready, uint32_t coming);

/* What a device and the administrator allow. */
struct pool_budget {
	uint32_t device_max; /* max_qp as the device reports it; 0 reads as "unknown", no limit */
	uint32_t config_max; /* queue pairs per device that we may have; at least 1 */
	uint64_t memory_max; /* bytes that their queues may take */
	uint64_t qp_bytes;   /* estimate for one, see pool_qp_bytes() */
	uint32_t in_use;     /* queue pairs that exist, wherever they are */
	uint32_t coming;     /* being made */
};

/* How many more may be made now. */
uint32_t pool_budget_left(const struct pool_budget *budget);

/* Most that may ever exist at a time under @budget. */
uint32_t pool_budget_max(const struct pool_budget *budget);

/*
 * Host memory that the queues of one queue pair take, as a rough and high estimate.
 * @send_wr, @recv_wr: entries; @sge: scatter entries of each; @inline_bytes: as granted.
 * An entry is taken as a 64-byte head with 16 bytes per scatter entry or the inline bytes, in
 * blocks of 64 (how mlx5 counts; others need less), rounded up to whole pages per queue.
 */
uint64_t pool_qp_bytes(uint32_t send_wr, uint32_t recv_wr, uint32_t sge, uint32_t inline_bytes);

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Included before everything else when lib/core is compiled for the simulator: each atomic access
 * becomes a point at which another thread may run, or this one die. Only the sequentially
 * consistent generics are replaced, which are all that the protocol uses.
 */

#include <stdatomic.h>

/* An access follows. Does nothing outside a simulated thread. */
void sim_access(void);

#undef atomic_load
#undef atomic_store
#undef atomic_fetch_add
#define atomic_load(ptr) (sim_access(), atomic_load_explicit((ptr), memory_order_seq_cst))
#define atomic_store(ptr, value)                                                                   \
	(sim_access(), atomic_store_explicit((ptr), (value), memory_order_seq_cst))
#define atomic_fetch_add(ptr, value)                                                               \
	(sim_access(), atomic_fetch_add_explicit((ptr), (value), memory_order_seq_cst))

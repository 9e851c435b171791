/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Fixed-size places in memory that is reserved once and touched when needed. Places never move and
 * are never unmapped, so a stale pointer still points at a place of the same kind.
 */
struct pool {
	uint8_t *base;
	size_t item_bytes;
	uint32_t capacity;
};

/*
 * Reserve room for @capacity items of @item_bytes. @shared: children of a fork see the same memory,
 * not a copy. 0 or -ENOMEM. The memory reads as zeros until written.
 */
int pool_init(struct pool *pool, size_t item_bytes, uint32_t capacity, int shared);

static inline void *pool_at(const struct pool *pool, uint32_t index)
{
	return pool->base + (size_t)index * pool->item_bytes;
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The object of type @type whose member @member is at @ptr. */
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Number of elements of an array; a pointer does not compile. */
#define ARRAY_SIZE(a)                                                                              \
	(sizeof(a) / sizeof((a)[0]) +                                                              \
	 0 * sizeof(char[1 -                                                                       \
			 2 * __builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0]))]))

static inline uint64_t u64_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t u64_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline size_t size_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t size_max(size_t a, size_t b)
{
	return a > b ? a : b;
}

static inline bool u64_is_pow2(uint64_t v)
{
	return v && !(v & (v - 1));
}

/* @v rounded down / up to a multiple of @align, a power of two; up wraps to 0 at the very top. */
static inline uint64_t u64_align_down(uint64_t v, uint64_t align)
{
	return v & ~(align - 1);
}

static inline uint64_t u64_align_up(uint64_t v, uint64_t align)
{
	return (v + align - 1) & ~(align - 1);
}

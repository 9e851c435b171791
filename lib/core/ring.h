/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/offset.h"

/*
 * Ring geometry: which bytes of memory a range of ring offsets is. Position = offset & (size - 1);
 * size is a power of two, so a range is at most two spans. Pure arithmetic on validated offsets.
 */

/* Smallest and largest ring, bytes. 4 KiB: one page. 64 MiB: chosen, beyond any cache's use. */
#define RING_SIZE_MIN_BYTES 4096u
#define RING_SIZE_MAX_BYTES (64u << 20)

struct ring_spans {
	size_t pos[2]; /* byte positions in the ring */
	size_t len[2]; /* their lengths; len[1] is 0 unless the range wraps */
};

/* Whether @size is a size that a ring may have. */
bool ring_size_ok(uint64_t size);

/* The spans of @len bytes from @from on; @len <= @size. */
struct ring_spans ring_range(uint64_t size, struct ring_off from, uint64_t len);

/* Bytes that may still be produced: size less the bytes that the reader has not consumed. */
uint64_t ring_space(uint64_t size, struct ring_off prod, struct ring_off cons);

/* Copy @len bytes into / out of the ring at @ring from offset @at on. */
void ring_copy_in(uint8_t *ring, uint64_t size, struct ring_off at, const void *src, size_t len);
void ring_copy_out(const uint8_t *ring, uint64_t size, struct ring_off at, void *dst, size_t len);

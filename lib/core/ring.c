/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "core/ring.h"

bool ring_size_ok(uint64_t size)
{
	return size >= RING_SIZE_MIN_BYTES && size <= RING_SIZE_MAX_BYTES && !(size & (size - 1));
}

struct ring_spans ring_range(uint64_t size, struct ring_off from, uint64_t len)
{
	size_t pos = from.v & (size - 1);
	size_t room = size - pos;

	assert(len <= size);
	if (len <= room)
		return (struct ring_spans){.pos = {pos, 0}, .len = {len, 0}};
	return (struct ring_spans){.pos = {pos, 0}, .len = {room, len - room}};
}

uint64_t ring_space(uint64_t size, struct ring_off prod, struct ring_off cons)
{
	return size - ring_off_dist(cons, prod);
}

void ring_copy_in(uint8_t *ring, uint64_t size, struct ring_off at, const void *src, size_t len)
{
	struct ring_spans s = ring_range(size, at, len);

	memcpy(ring + s.pos[0], src, s.len[0]);
	if (s.len[1])
		memcpy(ring, (const uint8_t *)src + s.len[0], s.len[1]);
}

void ring_copy_out(const uint8_t *ring, uint64_t size, struct ring_off at, void *dst, size_t len)
{
	struct ring_spans s = ring_range(size, at, len);

	memcpy(dst, ring + s.pos[0], s.len[0]);
	if (s.len[1])
		memcpy((uint8_t *)dst + s.len[0], ring, s.len[1]);
}

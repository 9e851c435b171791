/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What the stream program sends: every 8-byte word of a direction is a hash of the direction's key
 * and the word's number, so any byte can be computed from its offset alone, and a lost, repeated,
 * moved or changed byte differs from what belongs at its place.
 */

/* How far around a wrong byte pattern_where() looks for its true place. Chosen: twice as much as
 * socket buffers and rings hold. */
#define PATTERN_SEARCH_BYTES (16u << 20)

/* The bytes [@offset, @offset + @len) of the direction @key. */
void pattern_fill(uint64_t key, uint64_t offset, void *buf, size_t len);

/* Index of the first byte of @buf that is not what belongs at @offset + index; -1: all right. */
ssize_t pattern_check(uint64_t key, uint64_t offset, const void *buf, size_t len);

/*
 * Where bytes that were found at @offset come from: the nearest offset within PATTERN_SEARCH_BYTES
 * at which the direction holds the @len bytes of @buf. -1: from nowhere, or too few to tell.
 */
int64_t pattern_where(uint64_t key, uint64_t offset, const void *buf, size_t len);

/* A checksum over a whole direction, independent of how it was cut up. Zero at first. */
struct stream_sum {
	uint64_t sum, word;
	unsigned int fill; /* bytes in word */
};

void stream_sum_add(struct stream_sum *sum, const void *buf, size_t len);
/* The checksum of what has been added so far. */
uint64_t stream_sum_value(const struct stream_sum *sum);

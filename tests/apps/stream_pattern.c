/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "stream_pattern.h"

/* Fewer than this could match by chance within the search range. */
#define WHERE_MIN_BYTES 12u

/* splitmix64's finaliser over a counter: http://prng.di.unimi.it/splitmix64.c */
static uint64_t word_at(uint64_t key, uint64_t number)
{
	uint64_t z = key + (number + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint8_t byte_at(uint64_t key, uint64_t offset)
{
	return (uint8_t)(word_at(key, offset / 8) >> (offset % 8 * 8));
}

void pattern_fill(uint64_t key, uint64_t offset, void *buf, size_t len)
{
	uint8_t *p = buf;
	uint64_t word;

	for (; len && offset % 8; len--)
		*p++ = byte_at(key, offset++);
	for (; len >= 8; len -= 8, offset += 8, p += 8) {
		word = word_at(key, offset / 8);
		memcpy(p, &word, 8);
	}
	for (; len; len--)
		*p++ = byte_at(key, offset++);
}

ssize_t pattern_check(uint64_t key, uint64_t offset, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	size_t i = 0;
	uint64_t word;

	for (; i < len && (offset + i) % 8; i++) {
		if (p[i] != byte_at(key, offset + i))
			return (ssize_t)i;
	}
	for (; len - i >= 8; i += 8) {
		memcpy(&word, p + i, 8);
		if (word != word_at(key, (offset + i) / 8))
			break;
	}
	for (; i < len; i++) {
		if (p[i] != byte_at(key, offset + i))
			return (ssize_t)i;
	}
	return -1;
}

static int is_at(uint64_t key, uint64_t offset, const uint8_t *p, size_t len)
{
	return p[0] == byte_at(key, offset) && pattern_check(key, offset, p, len) < 0;
}

int64_t pattern_where(uint64_t key, uint64_t offset, const void *buf, size_t len)
{
	if (len < WHERE_MIN_BYTES)
		return -1;
	for (uint64_t away = 0; away < PATTERN_SEARCH_BYTES; away++) {
		if (away <= offset && is_at(key, offset - away, buf, len))
			return (int64_t)(offset - away);
		if (is_at(key, offset + away, buf, len))
			return (int64_t)(offset + away);
	}
	return -1;
}

static void sum_word(struct stream_sum *sum, uint64_t word)
{
	/* FNV-1a by words, with a rotation so that high bits reach low ones. */
	sum->sum = (sum->sum ^ word) * 0x00000100000001b3ull;
	sum->sum = sum->sum << 29 | sum->sum >> 35;
}

void stream_sum_add(struct stream_sum *sum, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	uint64_t word;

	while (len && (sum->fill || len < 8)) {
		sum->word |= (uint64_t)*p++ << (sum->fill++ * 8);
		len--;
		if (sum->fill == 8) {
			sum_word(sum, sum->word);
			sum->word = 0;
			sum->fill = 0;
		}
	}
	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&word, p, 8);
		sum_word(sum, word);
	}
	if (len)
		stream_sum_add(sum, p, len);
}

uint64_t stream_sum_value(const struct stream_sum *sum)
{
	struct stream_sum last = *sum;

	sum_word(&last, last.word);
	sum_word(&last, last.fill);
	return last.sum;
}

/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "core/link_msg.h"

#include "lib/tap.h"

/* A copy of just that size, so that a sanitizer sees a byte read beyond it. */
static enum link_words_verdict decode(const uint8_t *bytes, size_t len, struct link_words *ret)
{
	uint8_t *copy = malloc(len ? len : 1);
	enum link_words_verdict verdict;

	memcpy(copy, bytes, len);
	verdict = link_words_decode(copy, len, ret);
	free(copy);
	return verdict;
}

static bool is_flag(enum link_word id)
{
	return link_word_is_ok(id, 1) && !link_word_is_ok(id, 2);
}

static uint64_t some_value(enum link_word id, unsigned int n)
{
	if (is_flag(id))
		return 1;
	return id == LINK_WORD_EPOCH ? UINT32_MAX - n : UINT64_MAX - n * 1000003ull;
}

TAP_CASE(every_set_of_words_comes_through)
{
	for (uint32_t set = 2; set < 1u << LINK_WORD_ID_END; set += 2) {
		uint8_t bytes[LINK_WORDS_MAX_BYTES];
		struct link_words words = {.set = set}, got;
		size_t len;

		for (uint32_t id = 1; id < LINK_WORD_ID_END; id++)
			if (set & 1u << id)
				words.value[id] = some_value(id, set);
		len = link_words_encode(&words, bytes);
		if (len != (size_t)__builtin_popcount(set) * LINK_WORD_BYTES ||
		    decode(bytes, len, &got) != LINK_WORDS_OK ||
		    memcmp(&words, &got, sizeof(words)) != 0)
			CHECK_EQ(set, 0);
	}
	CHECK_EQ(LINK_WORDS_MAX, 10);
}

TAP_CASE(the_layout_and_the_order_are_fixed)
{
	static const uint8_t wanted[] = {
		LINK_WORD_TX_START, 0, 0, 0, 0, 0, 0, 0x12, 0x34,
		LINK_WORD_TX_END,   0, 0, 0, 0, 0, 0, 0,    9,
	};
	struct link_words words = {.set = 1u << LINK_WORD_TX_END | 1u << LINK_WORD_TX_START};
	uint8_t bytes[LINK_WORDS_MAX_BYTES];

	words.value[LINK_WORD_TX_START] = 0x1234;
	words.value[LINK_WORD_TX_END] = 9;
	CHECK_EQ(link_words_encode(&words, bytes), sizeof(wanted));
	CHECK(memcmp(bytes, wanted, sizeof(wanted)) == 0);
	/* The end is behind all that comes before it. */
	CHECK_EQ(LINK_WORD_TX_END, LINK_WORD_ID_END - 1);
}

TAP_CASE(ids_and_values_are_judged)
{
	uint8_t bytes[2 * LINK_WORD_BYTES] = {0};
	struct link_words got;

	for (unsigned int id = 0; id < 256; id++) {
		bytes[0] = (uint8_t)id;
		bytes[8] = 1;
		CHECK_EQ(decode(bytes, LINK_WORD_BYTES, &got),
			 id > 0 && id < LINK_WORD_ID_END ? LINK_WORDS_OK : LINK_WORDS_BAD_ID);
		if (id == 0 || id >= LINK_WORD_ID_END)
			continue;
		bytes[8] = 0;
		CHECK_EQ(decode(bytes, LINK_WORD_BYTES, &got), LINK_WORDS_BAD_VALUE);
		bytes[8] = 2;
		CHECK_EQ(decode(bytes, LINK_WORD_BYTES, &got),
			 is_flag(id) ? LINK_WORDS_BAD_VALUE : LINK_WORDS_OK);
		bytes[8] = 0;
		bytes[4] = 1; /* 2^32 */
		CHECK_EQ(decode(bytes, LINK_WORD_BYTES, &got), is_flag(id) || id == LINK_WORD_EPOCH
								       ? LINK_WORDS_BAD_VALUE
								       : LINK_WORDS_OK);
		bytes[4] = 0;
	}
	/* Ascending, and each once. */
	for (unsigned int a = 1; a < LINK_WORD_ID_END; a++) {
		for (unsigned int b = 1; b < LINK_WORD_ID_END; b++) {
			bytes[0] = (uint8_t)a;
			bytes[9] = (uint8_t)b;
			bytes[8] = bytes[17] = 1;
			CHECK_EQ(decode(bytes, sizeof(bytes), &got),
				 a < b ? LINK_WORDS_OK : LINK_WORDS_BAD_ID);
		}
	}
}

TAP_CASE(lengths_are_judged)
{
	uint8_t bytes[LINK_WORDS_MAX_BYTES + 2 * LINK_WORD_BYTES] = {0};
	struct link_words got;

	for (unsigned int i = 0; i < LINK_WORDS_MAX; i++) {
		bytes[i * LINK_WORD_BYTES] = (uint8_t)(i + 1);
		bytes[i * LINK_WORD_BYTES + 8] = 1;
	}
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		bool whole = len && len % LINK_WORD_BYTES == 0 && len <= LINK_WORDS_MAX_BYTES;

		CHECK_EQ(decode(bytes, len, &got), whole ? LINK_WORDS_OK : LINK_WORDS_BAD_LENGTH);
	}
}

TAP_CASE(random_bytes_are_refused_or_come_back_the_same)
{
	uint8_t bytes[LINK_WORDS_MAX_BYTES], again[LINK_WORDS_MAX_BYTES];
	struct link_words got;
	struct prng prng;
	int good = 0;

	prng_init(&prng, 9);
	for (int run = 0; run < 20000; run++) {
		size_t n = 1 + prng_below(&prng, LINK_WORDS_MAX), len = n * LINK_WORD_BYTES;

		memset(bytes, 0, sizeof(bytes));
		for (size_t i = 0; i < n; i++) {
			bytes[i * LINK_WORD_BYTES] =
				(uint8_t)(i + prng_below(&prng, LINK_WORD_ID_END - n + 1));
			bytes[i * LINK_WORD_BYTES + 8] = 1;
		}
		if (decode(bytes, len, &got) != LINK_WORDS_OK)
			continue;
		good++;
		CHECK_EQ(link_words_encode(&got, again), len);
		CHECK(memcmp(bytes, again, len) == 0);
	}
	CHECK(good > 1000);
}

TAP_CASE(names_are_there)
{
	for (enum link_word id = 1; id < LINK_WORD_ID_END; id++)
		CHECK(strcmp(link_word_name(id), "invalid") != 0);
	for (enum link_words_verdict v = 0; v < LINK_WORDS_VERDICT_COUNT; v++)
		CHECK(strcmp(link_words_verdict_name(v), "invalid") != 0);
	CHECK_STR(link_word_name(LINK_WORD_ID_END), "invalid");
	CHECK_STR(link_words_verdict_name(LINK_WORDS_VERDICT_COUNT), "invalid");
}

/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "core/link_msg.h"
#include "core/wire.h"

/* Name and range of each word; none is announced before it is set, so the least value is 1. */
static const struct {
	const char *name;
	uint64_t most;
} rules[LINK_WORD_ID_END] = {
	[LINK_WORD_EPOCH] = {"epoch", UINT32_MAX},
	[LINK_WORD_READY] = {"ready", 1},
	[LINK_WORD_RX_READY] = {"rx_ready", 1},
	[LINK_WORD_TX_START] = {"tx_start", UINT64_MAX},
	[LINK_WORD_RX_SEEN] = {"rx_seen", 1},
	[LINK_WORD_LEAVE] = {"leave", 1},
	[LINK_WORD_CLOSING] = {"closing", 1},
	[LINK_WORD_SHUT] = {"shut", 1},
	[LINK_WORD_REACHED] = {"reached", UINT64_MAX},
	[LINK_WORD_TX_END] = {"tx_end", UINT64_MAX},
};

_Static_assert(CDC_BYTES + LINK_WORDS_MAX_BYTES <= LINK_MSG_MAX_BYTES, "all words in one message");

static bool id_is_ok(uint32_t id)
{
	return id > 0 && id < LINK_WORD_ID_END;
}

bool link_word_is_ok(enum link_word id, uint64_t value)
{
	return id_is_ok(id) && value > 0 && value <= rules[id].most;
}

size_t link_words_encode(const struct link_words *words, uint8_t *ret_bytes)
{
	uint8_t *at = ret_bytes;

	assert(words->set && !(words->set & 1) && words->set < 1u << LINK_WORD_ID_END);
	for (uint32_t id = 1; id < LINK_WORD_ID_END; id++) {
		if (!(words->set & 1u << id))
			continue;
		assert(link_word_is_ok(id, words->value[id]));
		*at = (uint8_t)id;
		put_be64(at + 1, words->value[id]);
		at += LINK_WORD_BYTES;
	}
	return (size_t)(at - ret_bytes);
}

enum link_words_verdict link_words_decode(const void *bytes, size_t len,
					  struct link_words *ret_words)
{
	struct link_words words = {0};
	const uint8_t *at = bytes;
	uint32_t last = 0;

	if (!len || len > LINK_WORDS_MAX_BYTES || len % LINK_WORD_BYTES)
		return LINK_WORDS_BAD_LENGTH;
	for (; len; len -= LINK_WORD_BYTES, at += LINK_WORD_BYTES) {
		uint64_t value = get_be64(at + 1);

		if (!id_is_ok(*at) || *at <= last)
			return LINK_WORDS_BAD_ID;
		last = *at;
		if (!link_word_is_ok(last, value))
			return LINK_WORDS_BAD_VALUE;
		words.set |= 1u << last;
		words.value[last] = value;
	}
	*ret_words = words;
	return LINK_WORDS_OK;
}

const char *link_word_name(enum link_word id)
{
	return id_is_ok(id) ? rules[id].name : "invalid";
}

const char *link_words_verdict_name(enum link_words_verdict verdict)
{
	static const char *const names[LINK_WORDS_VERDICT_COUNT] = {
		[LINK_WORDS_OK] = "ok",
		[LINK_WORDS_BAD_LENGTH] = "bad_length",
		[LINK_WORDS_BAD_ID] = "bad_id",
		[LINK_WORDS_BAD_VALUE] = "bad_value",
	};

	return verdict < LINK_WORDS_VERDICT_COUNT ? names[verdict] : "invalid";
}

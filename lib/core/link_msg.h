/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cdc.h"

/*
 * What is on a link beside CDCs.
 *
 * STATE carries state words of a half as payload: (id u8, value u64), in the order in which they
 * are set at the origin. That is the order of the ids, so ids ascend within a message, and whoever
 * applies them from first to last does as the origin did. The end is the last: everything that was
 * produced has been told before it. Across messages the order is the link's own.
 *
 * REACHED is no word of a half. With it a daemon acknowledges the end of the other direction: up to
 * there all bytes, and all words that came before the end, are in the half that it feeds.
 *
 * LANE_DONE is the last message of a lane and epoch: it is behind the last RDMA WRITE on the same
 * queue pair, so whoever gets it may deregister the ring that was written.
 * CREDIT returns credits when nothing else is there to carry them. TEST_ASK is to be answered by
 * TEST_ANSWER with the same number. BYE is the last message of a link.
 */

enum link_word {
	LINK_WORD_EPOCH = 1, /* whole, where a header has eight bits of it */
	LINK_WORD_READY,
	LINK_WORD_RX_READY,
	LINK_WORD_TX_START, /* opt TCP count */
	LINK_WORD_RX_SEEN,
	LINK_WORD_LEAVE,
	LINK_WORD_CLOSING,
	LINK_WORD_SHUT,
	LINK_WORD_REACHED, /* opt ring offset of the receiver's bytes */
	LINK_WORD_TX_END,  /* opt ring offset of the sender's bytes */
	LINK_WORD_ID_END,
};

/* Bytes of one word in a payload, and of all of them. */
#define LINK_WORD_BYTES 9u
#define LINK_WORDS_MAX (LINK_WORD_ID_END - 1u)
#define LINK_WORDS_MAX_BYTES (LINK_WORDS_MAX * LINK_WORD_BYTES)

/* Words on their way: a set of them, each id at most once. */
struct link_words {
	uint32_t set; /* bit @id: value[id] is there */
	uint64_t value[LINK_WORD_ID_END];
};

/* Verdicts of link_words_decode(). */
enum link_words_verdict {
	LINK_WORDS_OK,
	LINK_WORDS_BAD_LENGTH, /* none, too many, or a piece of one */
	LINK_WORDS_BAD_ID,     /* unknown, or not above the one before */
	LINK_WORDS_BAD_VALUE,  /* zero, which announces nothing, or out of the word's range */
	LINK_WORDS_VERDICT_COUNT,
};

/* Whether @value can be announced as word @id. Pure; any values. */
bool link_word_is_ok(enum link_word id, uint64_t value);

/*
 * Write the words of @words, in ascending order of ids.
 * @words: at least one, each as link_word_is_ok() has it (asserted). @ret_bytes: room for
 * LINK_WORDS_MAX_BYTES. Returns the bytes written. Pure; any context.
 */
size_t link_words_encode(const struct link_words *words, uint8_t *ret_bytes);

/*
 * Read the payload of a STATE message.
 * @bytes, @len: any bytes and any length. @ret_words: set with LINK_WORDS_OK only; words that are
 * not in the set are zero. Returns a verdict. Pure; any context.
 */
enum link_words_verdict link_words_decode(const void *bytes, size_t len,
					  struct link_words *ret_words);

/* Short names for logs, lower case, static; "invalid" outside the enum. Pure. */
const char *link_word_name(enum link_word id);
const char *link_words_verdict_name(enum link_words_verdict verdict);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/half.h"

/*
 * The words of a half on their way between hosts. A client writes its half; its daemon reads the
 * words and tells the other daemon of the news; that one puts them into the half with which it
 * feeds its own client. What a reader of a half relies on must hold there, too:
 *
 *  - state words in the order in which they are set, but the end after all bytes: prod before it;
 *  - bytes before the prod that tells of them: they are in the ring before remote_words_apply();
 *  - what was acknowledged was there.
 *
 * Words about a hand-over and a replay do not travel: between hosts a hand-over is a loss, which
 * each daemon answers in its own half.
 *
 * Nothing that is read is believed: a client may write anything into its half, and a daemon may
 * say anything. No I/O, no allocation; one thread per half and direction.
 */

/* In the order of setting. */
enum remote_state {
	REMOTE_EPOCH,
	REMOTE_READY,
	REMOTE_RX_READY,
	REMOTE_TX_START,
	REMOTE_RX_SEEN,
	REMOTE_LEAVE,
	REMOTE_CLOSING,
	REMOTE_SHUT,
	REMOTE_TX_END,
	REMOTE_STATES,
};

struct remote_words {
	uint64_t prod, cons; /* ring offsets */
	uint64_t states[REMOTE_STATES];
};

/* Read the words of @half so that they are true together: what was set last is read first, and prod
 * behind the end. */
void remote_words_read(const struct half_ctl *half, struct remote_words *ret_words);

/*
 * Whether @now can follow @known in an honest half of a ring of @ring_bytes, of which the reader
 * had consumed to @consumed: flags and optional words are set once, offsets only grow, prod stays
 * within the ring and at the end that was told. 0 or -EBADMSG.
 */
int remote_words_check(const struct remote_words *known, const struct remote_words *now,
		       uint64_t ring_bytes, uint64_t consumed);

/*
 * Set what is new in @now in @fed, our own half; the bytes to now->prod are in its ring. May be
 * called again with the same words, by a successor as well; a half that is frozen (lost) takes
 * nothing. Then ring the client's bell, if it is armed.
 */
void remote_words_apply(struct half_ctl *fed, const struct remote_words *now);

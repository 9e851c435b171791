/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/side.h"

/*
 * The protocol half of the oracle: each change of a word of a half is held against what makes it
 * lawful, as only somebody who sees both ends and the kernel at once can tell.
 */

void words_init(void);
/* New bytes are about to go to TCP. */
void words_tcp_send(unsigned int side);
void words_begin(unsigned int side);

/* Bytes of its peer's ring that @side has not consumed and is the one to consume. */
uint64_t words_unread(unsigned int side);
/* Whether the peer of @side had said that it would shut before it was killed, or the bytes that it
 * left on the ring have gone to TCP since, where its kernel answers for them. */
bool words_excuse_eof(unsigned int side);
/* Of the lane that @side uses: */
bool words_awaits(const struct side *side);    /* the daemon, or rx_seen, before TCP goes on */
bool words_frozen(const struct side *side);    /* a hand-over waits for its answer */
bool words_untold(const struct side *side);    /* a word is stored, its count not yet */
bool words_peer_shut(const struct side *side); /* it has said so */
bool words_readable(const struct side *side);  /* bytes to consume */
bool words_ring_open(const struct side *side); /* own bytes go to the ring */
uint64_t words_room(const struct side *side);  /* on the own ring */

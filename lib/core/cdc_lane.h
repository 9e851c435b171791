/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/cdc.h"

/*
 * The thread of one lane through its messages: what each direction last said, so that the next
 * message can be made, or checked against it. All begins anew with each epoch, at offset 0 and
 * sequence 0. Pure; of whoever has the lane.
 */

/* What was last told to the peer. */
struct cdc_tx {
	struct cdc_token token; /* the peer's */
	uint8_t epoch;
	uint16_t flags; /* those that stay */
	uint32_t sequence;
	struct ring_off prod; /* of our bytes: told, hence sent */
	struct ring_off cons; /* of the peer's bytes: told as consumed here */
};

/* What was last told by the peer. */
struct cdc_rx {
	struct cdc_token token; /* ours */
	uint8_t epoch;
	uint16_t flags; /* of its last message */
	uint32_t sequence;
	uint64_t ring_bytes;  /* of the ring here that it writes into */
	struct ring_off prod; /* of its bytes */
	struct ring_off cons; /* of our bytes: consumed there */
};

/* Verdicts of cdc_rx_take(). */
enum cdc_taken {
	CDC_TAKEN,
	/* To be counted and dropped: of a lane or an epoch that is over. */
	CDC_STALE_TOKEN,
	CDC_STALE_EPOCH,
	/* A breach: ends the lane. */
	CDC_WRONG_SEQUENCE,
	CDC_WRONG_PROD,	  /* not the offset before plus what moved */
	CDC_WRONG_WINDOW, /* more bytes than there is room for */
	CDC_WRONG_CONS,	  /* behind what it was, or beyond what was sent */
	CDC_WRONG_FLAGS,  /* a flag that stays was taken back, or a message follows the last one */
	CDC_TAKEN_COUNT,
};

/* Begin. @token: the peer's name of the lane, from its daemon; @epoch: of the connection. */
void cdc_tx_init(struct cdc_tx *tx, struct cdc_token token, uint32_t epoch);

/* Begin. @token: our own name; @ring_bytes: of the ring that the peer writes into. */
void cdc_rx_init(struct cdc_rx *rx, struct cdc_token token, uint32_t epoch, uint64_t ring_bytes);

/*
 * Make the next message of the lane, and remember it as told.
 * @moved: bytes, 0 unless it is a CDC. @cons: consumed here, at or above what was told before.
 * @flags: of this message; those that stay are kept. @ret_msg: all but payload and credits.
 */
void cdc_tx_next(struct cdc_tx *tx, enum link_msg_type type, uint32_t moved, struct ring_off cons,
		 uint16_t flags, struct cdc *ret_msg);

/*
 * Check a message of a lane against what came before, and take it over if it fits.
 * @msg: as decoded, of a type that belongs to a lane. @tx: what we have told: the peer can't have
 * consumed what was not sent, nor fill what it was not told to be free.
 * Returns a verdict; @rx is changed with CDC_TAKEN only. The new bytes are then the last
 * @msg->moved before @rx->prod.
 */
enum cdc_taken cdc_rx_take(struct cdc_rx *rx, const struct cdc *msg, const struct cdc_tx *tx);

/* Short names for logs and counters, lower case, static; "invalid" outside the enum. Pure. */
const char *cdc_taken_name(enum cdc_taken taken);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/ring.h"

/*
 * The header of every message on a link. It is laid out for the connection data control message,
 * the CDC, which tells how far a lane's bytes have come; the others (core/link_msg.h) use the same
 * fields or leave them zero. 32 bytes, big-endian, since that is what every provider that really
 * supports inline can post inline (the least of them: hns and EFA, rdma-core's providers).
 *
 *	0	type (u8, enum link_msg_type)
 *	1	epoch of the lane (u8): its low eight bits
 *	2	payload (u16): bytes behind this header, in this message
 *	4	sequence (u32): of the lane's messages, from 1 in each epoch; of a test, its number
 *	8	token (u32 index, u32 generation): the receiver's name of the lane
 *	16	producer offset (u32): low half of it, with this message's bytes counted in
 *	20	consumer offset (u32): low half, of the sender's reading of the receiver's bytes
 *	24	moved (u32): bytes by which the producer offset moves with this message
 *	28	credits (u16): receives posted again since the sender last told
 *	30	flags (u16)
 *
 * Why 32 bits of a 64-bit offset are enough: a link delivers each message once and in order, so the
 * receiver knows the value before, and the next one is ahead of it by at most the window, which is
 * a ring of at most 64 MiB (RING_SIZE_MAX_BYTES). So among the values with these low bits exactly
 * one is possible; any other difference is a breach of the protocol, and is seen as one, since it
 * is above the window. An error of a whole 4 GiB would not show here; it shows in the sequence.
 *
 * `moved` says what the offset says once more. It is there because payload can't: bytes that an
 * RDMA WRITE has brought (up to 64 KiB at a time, one more than a u16 holds) move the offset
 * without being in the message.
 */

#define CDC_BYTES 32u

/* Longest message on a link, header and payload, bytes: what each posted receive has room for.
 * Chosen: no provider is known to post more than 1024 inline. */
#define LINK_MSG_MAX_BYTES 1024u

enum link_msg_type {
	LINK_MSG_CDC = 1,     /* of a lane: offsets, perhaps with payload */
	LINK_MSG_STATE,	      /* of a lane: state words, as payload */
	LINK_MSG_LANE_DONE,   /* of a lane: nothing follows, no RDMA WRITE is under way any more */
	LINK_MSG_CREDIT,      /* credits alone */
	LINK_MSG_TEST_ASK,    /* is anybody there? */
	LINK_MSG_TEST_ANSWER, /* yes: with the number of the question */
	LINK_MSG_BYE,	      /* the sender closes the link: its last message */
	LINK_MSG_TYPE_END,
};

/* Flags. The last three are true from some message of the epoch on, and stay. */
#define CDC_F_BLOCKED 0x1u /* bytes wait for room: an update is due when enough is free */
#define CDC_F_WANTED 0x2u  /* an update is due as soon as the consumer offset has moved at all */
#define CDC_F_START 0x4u   /* the start of the sender's segment has been announced */
#define CDC_F_END 0x8u	   /* so has its end: no byte follows */
#define CDC_F_DONE 0x10u   /* no message of this lane and epoch follows */
#define CDC_F_STICKY (CDC_F_START | CDC_F_END | CDC_F_DONE)
#define CDC_F_ALL (CDC_F_BLOCKED | CDC_F_WANTED | CDC_F_STICKY)

/* The receiver's name of a lane: a place in its table, and how often that place was given away. */
struct cdc_token {
	uint32_t index, generation;
};

struct cdc {
	enum link_msg_type type;
	uint8_t epoch;
	uint16_t payload;
	uint32_t sequence;
	struct cdc_token token;
	uint32_t prod, cons; /* low 32 bits */
	uint32_t moved;
	uint16_t credits;
	uint16_t flags;
};

/* Verdicts of cdc_decode(). */
enum cdc_decoded {
	CDC_OK,
	CDC_BAD_LENGTH, /* shorter than a header, longer than any message, or payload disagrees */
	CDC_BAD_TYPE,	/* unknown */
	CDC_BAD_FLAGS,	/* unknown ones, or not those of the type */
	CDC_BAD_VALUE,	/* a field that the type does not have is set, or one is out of range */
	CDC_DECODED_COUNT,
};

/*
 * Whether @msg is one that cdc_decode() would give, so that cdc_encode() takes it.
 * @msg: any values. Pure; any context; never fails.
 */
bool cdc_is_ok(const struct cdc *msg);

/*
 * Write the header @msg; its payload, if any, is for the caller to put behind it.
 * @msg: as cdc_is_ok() has it (asserted: the values are the caller's own). Pure; any context.
 */
void cdc_encode(const struct cdc *msg, uint8_t ret_bytes[CDC_BYTES]);

/*
 * Read the header of a message.
 * @bytes, @len: the whole message as received, any bytes and any length; only the header is read.
 * @ret_msg: set with CDC_OK only; its payload is then exactly @bytes[CDC_BYTES, @len).
 * Returns a verdict; what is no CDC_OK is a breach of the protocol by the peer. Pure; any context.
 */
enum cdc_decoded cdc_decode(const void *bytes, size_t len, struct cdc *ret_msg);

/* Whether messages of @type belong to a lane: they have a token, a sequence and offsets. Pure. */
static inline bool cdc_is_of_lane(enum link_msg_type type)
{
	return type == LINK_MSG_CDC || type == LINK_MSG_STATE || type == LINK_MSG_LANE_DONE;
}

/* Short names for logs and counters, lower case, static; "invalid" outside the enum. Pure. */
const char *link_msg_type_name(enum link_msg_type type);
const char *cdc_decoded_name(enum cdc_decoded verdict);

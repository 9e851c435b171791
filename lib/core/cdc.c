/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "core/cdc.h"
#include "core/link_msg.h"
#include "core/wire.h"

#define AT_TYPE 0
#define AT_EPOCH 1
#define AT_PAYLOAD 2
#define AT_SEQUENCE 4
#define AT_INDEX 8
#define AT_GENERATION 12
#define AT_PROD 16
#define AT_CONS 20
#define AT_MOVED 24
#define AT_CREDITS 28
#define AT_FLAGS 30

#define PAYLOAD_MAX_BYTES (LINK_MSG_MAX_BYTES - CDC_BYTES)

/* Whether nothing of a lane is in @msg. */
static bool has_no_lane(const struct cdc *msg)
{
	return !msg->epoch && !msg->token.index && !msg->token.generation && !msg->prod &&
	       !msg->cons && !msg->moved && !msg->flags;
}

/* Whether @msg has the fields of its type, and no others. */
static bool values_are_ok(const struct cdc *msg)
{
	switch (msg->type) {
	case LINK_MSG_CDC:
		if (!msg->sequence || msg->moved > RING_SIZE_MAX_BYTES)
			return false;
		return !msg->payload || msg->moved == msg->payload;
	case LINK_MSG_STATE:
		return msg->sequence && !msg->moved && msg->payload &&
		       msg->payload <= LINK_WORDS_MAX_BYTES && msg->payload % LINK_WORD_BYTES == 0;
	case LINK_MSG_LANE_DONE:
		return msg->sequence && !msg->moved && !msg->payload;
	case LINK_MSG_CREDIT:
		return has_no_lane(msg) && !msg->sequence && !msg->payload && msg->credits;
	case LINK_MSG_TEST_ASK:
	case LINK_MSG_TEST_ANSWER:
		return has_no_lane(msg) && !msg->payload;
	case LINK_MSG_BYE:
		return has_no_lane(msg) && !msg->sequence && !msg->payload;
	default:
		return false;
	}
}

/* Whether the flags can be those of the type: the last message of a lane says so, no other does;
 * and there is no end without a start, unless the direction never starts in this epoch. */
static bool flags_are_ok(const struct cdc *msg)
{
	bool done = msg->flags & CDC_F_DONE;

	if (msg->flags & ~CDC_F_ALL)
		return false;
	if (cdc_is_of_lane(msg->type) && done != (msg->type == LINK_MSG_LANE_DONE))
		return false;
	/* Bytes are those of a segment. */
	return !msg->moved || (msg->flags & CDC_F_START && !(msg->flags & CDC_F_END));
}

bool cdc_is_ok(const struct cdc *msg)
{
	return msg->type > 0 && msg->type < LINK_MSG_TYPE_END &&
	       msg->payload <= PAYLOAD_MAX_BYTES && flags_are_ok(msg) && values_are_ok(msg);
}

void cdc_encode(const struct cdc *msg, uint8_t ret_bytes[CDC_BYTES])
{
	assert(cdc_is_ok(msg));
	ret_bytes[AT_TYPE] = (uint8_t)msg->type;
	ret_bytes[AT_EPOCH] = msg->epoch;
	put_be16(ret_bytes + AT_PAYLOAD, msg->payload);
	put_be32(ret_bytes + AT_SEQUENCE, msg->sequence);
	put_be32(ret_bytes + AT_INDEX, msg->token.index);
	put_be32(ret_bytes + AT_GENERATION, msg->token.generation);
	put_be32(ret_bytes + AT_PROD, msg->prod);
	put_be32(ret_bytes + AT_CONS, msg->cons);
	put_be32(ret_bytes + AT_MOVED, msg->moved);
	put_be16(ret_bytes + AT_CREDITS, msg->credits);
	put_be16(ret_bytes + AT_FLAGS, msg->flags);
}

enum cdc_decoded cdc_decode(const void *bytes, size_t len, struct cdc *ret_msg)
{
	const uint8_t *at = bytes;
	struct cdc msg;

	if (len < CDC_BYTES || len > LINK_MSG_MAX_BYTES)
		return CDC_BAD_LENGTH;
	if (at[AT_TYPE] == 0 || at[AT_TYPE] >= LINK_MSG_TYPE_END)
		return CDC_BAD_TYPE;
	msg = (struct cdc){
		.type = (enum link_msg_type)at[AT_TYPE],
		.epoch = at[AT_EPOCH],
		.payload = get_be16(at + AT_PAYLOAD),
		.sequence = get_be32(at + AT_SEQUENCE),
		.token = {get_be32(at + AT_INDEX), get_be32(at + AT_GENERATION)},
		.prod = get_be32(at + AT_PROD),
		.cons = get_be32(at + AT_CONS),
		.moved = get_be32(at + AT_MOVED),
		.credits = get_be16(at + AT_CREDITS),
		.flags = get_be16(at + AT_FLAGS),
	};
	if (msg.payload != len - CDC_BYTES)
		return CDC_BAD_LENGTH;
	if (!flags_are_ok(&msg))
		return CDC_BAD_FLAGS;
	if (!values_are_ok(&msg))
		return CDC_BAD_VALUE;
	*ret_msg = msg;
	return CDC_OK;
}

const char *link_msg_type_name(enum link_msg_type type)
{
	static const char *const names[LINK_MSG_TYPE_END] = {
		[LINK_MSG_CDC] = "cdc",
		[LINK_MSG_STATE] = "state",
		[LINK_MSG_LANE_DONE] = "lane_done",
		[LINK_MSG_CREDIT] = "credit",
		[LINK_MSG_TEST_ASK] = "test_ask",
		[LINK_MSG_TEST_ANSWER] = "test_answer",
		[LINK_MSG_BYE] = "bye",
	};

	return type > 0 && type < LINK_MSG_TYPE_END ? names[type] : "invalid";
}

const char *cdc_decoded_name(enum cdc_decoded verdict)
{
	static const char *const names[CDC_DECODED_COUNT] = {
		[CDC_OK] = "ok",
		[CDC_BAD_LENGTH] = "bad_length",
		[CDC_BAD_TYPE] = "bad_type",
		[CDC_BAD_FLAGS] = "bad_flags",
		[CDC_BAD_VALUE] = "bad_value",
	};

	return verdict < CDC_DECODED_COUNT ? names[verdict] : "invalid";
}

/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/util.h"
#include "core/cdc_lane.h"
#include "core/link_msg.h"

#include "lib/tap.h"

static const struct cdc eager = {
	.type = LINK_MSG_CDC,
	.epoch = 0x12,
	.payload = 0x40,
	.sequence = 0x01020304,
	.token = {0x11121314, 0x21222324},
	.prod = 0x31323334,
	.cons = 0x41424344,
	.moved = 0x40,
	.credits = 0x5152,
	.flags = CDC_F_BLOCKED | CDC_F_START,
};

static bool same(const struct cdc *a, const struct cdc *b)
{
	return a->type == b->type && a->epoch == b->epoch && a->payload == b->payload &&
	       a->sequence == b->sequence && a->token.index == b->token.index &&
	       a->token.generation == b->token.generation && a->prod == b->prod &&
	       a->cons == b->cons && a->moved == b->moved && a->credits == b->credits &&
	       a->flags == b->flags;
}

/* A copy of just that size, so that a sanitizer sees a byte read beyond it. */
static enum cdc_decoded decode(const uint8_t *bytes, size_t len, struct cdc *ret_msg)
{
	uint8_t *copy = malloc(len ? len : 1);
	enum cdc_decoded verdict;

	memcpy(copy, bytes, len);
	verdict = cdc_decode(copy, len, ret_msg);
	free(copy);
	return verdict;
}

TAP_CASE(the_layout_is_fixed)
{
	static const uint8_t wanted[CDC_BYTES] = {
		1,    0x12, 0,	  0x40, 1,    2,    3,	  4,
		0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
		0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44,
		0,    0,    0,	  0x40, 0x51, 0x52, 0,	  CDC_F_BLOCKED | CDC_F_START,
	};
	uint8_t bytes[CDC_BYTES];

	cdc_encode(&eager, bytes);
	CHECK(memcmp(bytes, wanted, sizeof(wanted)) == 0);
}

/* Whatever each field is, alone and at its ends: the message comes through, or is none. */
TAP_CASE(every_value_of_each_field_comes_through_or_is_refused)
{
	static const uint32_t values[] = {
		0,	    1,		2,	   31,	    32,	     90,
		99,	    0xff,	0x100,	   991,	    992,     993,
		0x7fff,	    0x8000,	0xffff,	   1 << 16, 1 << 26, (1 << 26) + 1,
		0x7fffffff, 0x80000000, 0xffffffff};
	unsigned long good = 0, bad = 0;

	for (int type = 0; type <= LINK_MSG_TYPE_END; type++) {
		for (int field = 0; field < 9; field++) {
			for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
				struct cdc msg = {.type = (enum link_msg_type)type}, got;
				uint8_t bytes[LINK_MSG_MAX_BYTES + 64] = {0};
				uint32_t *words[] = {
					&msg.sequence, &msg.token.index, &msg.token.generation,
					&msg.prod,     &msg.cons,	 &msg.moved};

				if (cdc_is_of_lane(msg.type))
					msg.sequence = 7;
				if (msg.type == LINK_MSG_STATE)
					msg.payload = LINK_WORD_BYTES;
				if (msg.type == LINK_MSG_LANE_DONE)
					msg.flags = CDC_F_DONE;
				if (field < 6)
					*words[field] = values[v];
				else if (field == 6)
					msg.payload = (uint16_t)values[v];
				else if (field == 7)
					msg.credits = (uint16_t)values[v];
				else
					msg.flags = (uint16_t)values[v];
				if (msg.moved)
					msg.flags |= CDC_F_START;
				if (!cdc_is_ok(&msg)) {
					bad++;
					continue;
				}
				good++;
				cdc_encode(&msg, bytes);
				CHECK_EQ(decode(bytes, CDC_BYTES + msg.payload, &got), CDC_OK);
				CHECK(same(&msg, &got));
			}
		}
	}
	CHECK(good > 300 && bad > 300);
}

TAP_CASE(every_length_but_the_right_one_is_refused)
{
	uint8_t bytes[LINK_MSG_MAX_BYTES + 64] = {0};
	struct cdc got;

	cdc_encode(&eager, bytes);
	for (size_t len = 0; len <= sizeof(bytes); len++)
		CHECK_EQ(decode(bytes, len, &got),
			 len == CDC_BYTES + eager.payload ? CDC_OK : CDC_BAD_LENGTH);
}

TAP_CASE(every_type_and_flag_is_judged)
{
	uint8_t bytes[CDC_BYTES];
	struct cdc got;

	for (unsigned int type = 0; type < 256; type++) {
		cdc_encode(&(struct cdc){.type = LINK_MSG_CDC, .sequence = 1}, bytes);
		bytes[0] = (uint8_t)type;
		if (type == 0 || type >= LINK_MSG_TYPE_END)
			CHECK_EQ(decode(bytes, CDC_BYTES, &got), CDC_BAD_TYPE);
		else
			CHECK(decode(bytes, CDC_BYTES, &got) != CDC_BAD_TYPE);
	}
	for (unsigned int flags = 0; flags < 0x10000; flags++) {
		bool known = !(flags & ~CDC_F_ALL), done = flags & CDC_F_DONE;

		cdc_encode(&(struct cdc){.type = LINK_MSG_CDC, .sequence = 1}, bytes);
		bytes[30] = (uint8_t)(flags >> 8);
		bytes[31] = (uint8_t)flags;
		if (decode(bytes, CDC_BYTES, &got) != (known && !done ? CDC_OK : CDC_BAD_FLAGS))
			CHECK_EQ(flags, -1);
	}
	CHECK_EQ(decode(bytes, CDC_BYTES, &got), CDC_BAD_FLAGS);
}

TAP_CASE(bytes_are_told_only_between_start_and_end)
{
	struct cdc msg = eager;

	CHECK(cdc_is_ok(&msg));
	msg.flags = 0;
	CHECK(!cdc_is_ok(&msg));
	msg.flags = CDC_F_START | CDC_F_END;
	CHECK(!cdc_is_ok(&msg));
	msg.moved = msg.payload = 0;
	CHECK(cdc_is_ok(&msg));
	msg.flags = CDC_F_END; /* an end without a start: it will not start */
	CHECK(cdc_is_ok(&msg));
}

TAP_CASE(names_are_there)
{
	for (enum link_msg_type type = 1; type < LINK_MSG_TYPE_END; type++)
		CHECK(strcmp(link_msg_type_name(type), "invalid") != 0);
	for (enum cdc_decoded v = 0; v < CDC_DECODED_COUNT; v++)
		CHECK(strcmp(cdc_decoded_name(v), "invalid") != 0);
	for (enum cdc_taken v = 0; v < CDC_TAKEN_COUNT; v++)
		CHECK(strcmp(cdc_taken_name(v), "invalid") != 0);
	CHECK_STR(link_msg_type_name(LINK_MSG_TYPE_END), "invalid");
	CHECK_STR(cdc_decoded_name(CDC_DECODED_COUNT), "invalid");
	CHECK_STR(cdc_taken_name(CDC_TAKEN_COUNT), "invalid");
}

/* --- the thread of a lane --------------------------------------------------------------------- */

#define RING_BYTES 4096u

/* Two ends of a lane: what this one tells the other, and what it knows. */
static struct lane_ends {
	struct cdc_tx tx[2];
	struct cdc_rx rx[2];
} ends;

static void ends_init(void)
{
	static const struct cdc_token token[2] = {{3, 8}, {4, 9}};

	for (unsigned int i = 0; i < 2; i++) {
		cdc_tx_init(&ends.tx[i], token[!i], 0x305);
		cdc_rx_init(&ends.rx[i], token[i], 0x305, RING_BYTES);
	}
}

static struct cdc tell(unsigned int from, uint32_t moved, uint64_t cons)
{
	struct cdc msg;

	cdc_tx_next(&ends.tx[from], LINK_MSG_CDC, moved, ring_off(cons), CDC_F_START, &msg);
	return msg;
}

static enum cdc_taken take(unsigned int at, const struct cdc *msg)
{
	return cdc_rx_take(&ends.rx[at], msg, &ends.tx[at]);
}

TAP_CASE(a_lane_is_followed)
{
	struct cdc msg;

	ends_init();
	msg = tell(0, 4000, 0);
	CHECK_EQ(take(1, &msg), CDC_TAKEN);
	CHECK_EQ(ends.rx[1].prod.v, 4000);
	msg = tell(1, 10, 3000);
	CHECK_EQ(take(0, &msg), CDC_TAKEN);
	CHECK_EQ(ends.rx[0].cons.v, 3000);
	CHECK_EQ(ends.rx[0].prod.v, 10);
	CHECK_EQ(msg.epoch, 5);
	CHECK_EQ(msg.sequence, 1);
}

TAP_CASE(offsets_run_far_beyond_32_bits)
{
	uint64_t prod = 0, cons = 0;
	struct prng prng;
	struct cdc msg;

	ends_init();
	for (unsigned int i = 0; i < 2; i++)
		ends.rx[i].ring_bytes = RING_SIZE_MAX_BYTES;
	prng_init(&prng, 3);
	while (prod < 10ull << 32) {
		uint64_t n = prng_below(&prng, RING_SIZE_MAX_BYTES - (prod - cons) + 1);

		msg = tell(0, (uint32_t)n, 0);
		prod += n;
		if (!CHECK_EQ(take(1, &msg), CDC_TAKEN) || !CHECK_EQ(ends.rx[1].prod.v, prod))
			return;
		cons += prng_below(&prng, prod - cons + 1);
		msg = tell(1, 0, cons);
		if (!CHECK_EQ(take(0, &msg), CDC_TAKEN) || !CHECK_EQ(ends.rx[0].cons.v, cons))
			return;
	}
}

TAP_CASE(what_does_not_fit_changes_nothing)
{
	struct lane_ends before;
	struct cdc good, msg;

	ends_init();
	good = tell(0, 4000, 0);
	CHECK_EQ(take(1, &good), CDC_TAKEN);
	good = tell(1, 100, 3000);
	before = ends;
#define REFUSED(change, verdict)                                                                   \
	do {                                                                                       \
		msg = good;                                                                        \
		change;                                                                            \
		CHECK_EQ(take(0, &msg), verdict);                                                  \
		CHECK(memcmp(&ends, &before, sizeof(ends)) == 0);                                  \
	} while (0)
	REFUSED(msg.token.index++, CDC_STALE_TOKEN);
	REFUSED(msg.token.generation--, CDC_STALE_TOKEN);
	REFUSED(msg.epoch--, CDC_STALE_EPOCH);
	REFUSED(msg.sequence = 0, CDC_WRONG_SEQUENCE);
	REFUSED(msg.sequence++, CDC_WRONG_SEQUENCE);
	REFUSED(msg.prod++, CDC_WRONG_PROD);
	REFUSED(msg.prod = UINT32_MAX, CDC_WRONG_PROD);
	REFUSED(msg.moved++, CDC_WRONG_PROD);
	REFUSED(msg.moved = 0, CDC_WRONG_PROD);
	REFUSED(msg.prod = msg.moved = RING_BYTES + 1, CDC_WRONG_WINDOW);
	REFUSED(msg.cons = 4001, CDC_WRONG_CONS);
	REFUSED(msg.cons = UINT32_MAX, CDC_WRONG_CONS);
	CHECK_EQ(take(0, &good), CDC_TAKEN);
	/* A second time, and behind. */
	CHECK_EQ(take(0, &good), CDC_WRONG_SEQUENCE);
	good.sequence++;
	good.moved = 0;
	good.cons = 2999;
	CHECK_EQ(take(0, &good), CDC_WRONG_CONS);
	good.cons = 4000;
	good.flags = 0;
	CHECK_EQ(take(0, &good), CDC_WRONG_FLAGS);
	good.flags = CDC_F_START;
	CHECK_EQ(take(0, &good), CDC_TAKEN);
#undef REFUSED
}

TAP_CASE(the_window_is_what_was_told)
{
	struct cdc msg;

	ends_init();
	msg = tell(0, RING_BYTES, 0);
	CHECK_EQ(take(1, &msg), CDC_TAKEN);
	/* Nothing was told to be free, so not a byte more. */
	msg = tell(0, 1, 0);
	CHECK_EQ(take(1, &msg), CDC_WRONG_WINDOW);
	tell(1, 0, 1);
	CHECK_EQ(take(1, &msg), CDC_TAKEN);
}

TAP_CASE(nothing_follows_the_last_message)
{
	struct cdc msg;

	ends_init();
	cdc_tx_next(&ends.tx[0], LINK_MSG_LANE_DONE, 0, ring_off(0), CDC_F_DONE, &msg);
	CHECK_EQ(take(1, &msg), CDC_TAKEN);
	msg.sequence++;
	CHECK_EQ(take(1, &msg), CDC_WRONG_FLAGS);
}

TAP_CASE(the_sequence_wraps_past_zero)
{
	struct cdc msg;

	ends_init();
	ends.tx[0].sequence = ends.rx[1].sequence = UINT32_MAX - 1;
	for (int i = 0; i < 3; i++) {
		msg = tell(0, 1, 0);
		CHECK(cdc_is_ok(&msg) || msg.sequence == 0);
		CHECK_EQ(take(1, &msg), CDC_TAKEN);
	}
	CHECK_EQ(ends.rx[1].sequence, 2);
}

/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/prng.h"
#include "base/util.h"
#include "core/ctl.h"
#include "core/notice.h"

#include "lib/tap.h"

#define TOTALS                                                                                     \
	{                                                                                          \
		1, UINT64_MAX, 0x0102030405060708u, 4, 5                                           \
	}

/* One of each type, with values that show a swapped or cut field. */
static const struct ctl_msg samples[] = {
	{CTL_HELLO, 0, {.hello = {CTL_VERSION, CTL_HELLO_TOOL}}},
	{CTL_REGISTER, 0x1122334455667788u, {.reg = {7, 3, 0}}},
	{CTL_CANCEL, 9, {.hello = {0, 0}}},
	{CTL_MAPPED, 9, {.mapped = {UINT32_MAX}}},
	{CTL_DRAINED, 9, {.drained = {2, REASON_REQUESTED, TOTALS}}},
	{CTL_STATE, 9, {.state = {CTL_STATE_PINNED, REASON_KTLS, INT32_MAX, 0, TOTALS}}},
	{CTL_ADOPT, 9, {.adopt = {0, 1, CTL_LANE_REMOTE, TOTALS}}},
	{CTL_CLOSED, 9, {.closed = {REASON_CLOSED, 3, 2, TOTALS}}},
	{CTL_QUERY, 9, {.query = {CTL_QUERY_STATUS, -1, -1}}},
	{CTL_DEMOTE_REQ, 9, {.demote_req = {1, -1}}},
	{CTL_WELCOME, 0, {.welcome = {CTL_VERSION, 5, 50, 8, 1000, 30, 100, 10000, 1 << 18}}},
	{CTL_REGISTERED, 9, {.registered = {1, 1}}},
	{CTL_REFUSED, 9, {.refused = {REASON_COUNT - 1, 1000}}},
	{CTL_PAIR, 9, {.pair = {1, 1, CTL_LANE_REMOTE, 1 << 12, 1 << 26}}},
	{CTL_PEER, 9, {.peer = {1}}},
	{CTL_UNPAIR, 9, {.unpair = {1, REASON_PEER_LEFT}}},
	{CTL_DEMOTE, 9, {.demote = {REASON_REQUESTED}}},
	{CTL_ANSWER, 9, {.answer = {-4095, 7}}},
};

static enum ctl_side side_of(enum ctl_type type)
{
	return type < CTL_WELCOME ? CTL_FROM_CLIENT : CTL_FROM_DAEMON;
}

static enum ctl_verdict decode(const struct ctl_msg *sample, const void *bytes, size_t len,
			       struct ctl_msg *ret)
{
	return ctl_decode(side_of(sample->type), bytes, len, ctl_min_fds(sample->type), ret);
}

TAP_CASE(every_message_survives_the_round_trip)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t bytes[CTL_MAX_BYTES], again[CTL_MAX_BYTES];
		struct ctl_msg msg;
		size_t len = ctl_encode(&samples[i], bytes);

		CHECK(len >= CTL_HEADER_BYTES && len <= CTL_MAX_BYTES);
		CHECK_EQ(decode(&samples[i], bytes, len, &msg), CTL_OK);
		CHECK_EQ(msg.type, samples[i].type);
		CHECK_EQ(msg.token, samples[i].token);
		CHECK_EQ(ctl_encode(&msg, again), len);
		CHECK(memcmp(bytes, again, len) == 0);
	}
}

TAP_CASE(a_message_is_what_the_header_comment_says)
{
	static const uint8_t expected[] = {
		2,    0,    28, 0, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
		0x22, 0x11, 7,	0, 0, 0, 3, 0, 0,    0,	   0,	 0,    0,    0,
	};
	uint8_t bytes[CTL_MAX_BYTES];

	CHECK_EQ(ctl_encode(&samples[1], bytes), sizeof(expected));
	CHECK(memcmp(bytes, expected, sizeof(expected)) == 0);
}

TAP_CASE(every_type_has_a_sample_a_name_and_a_side)
{
	for (unsigned int type = 0; type <= CTL_TYPE_END; type++) {
		bool sampled = false, named = strcmp(ctl_type_name(type), "invalid") != 0;

		for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
			sampled |= (unsigned int)samples[i].type == type;
		CHECK_EQ(sampled, named);
		CHECK(ctl_max_fds(type) <= CTL_MAX_FDS);
		CHECK(ctl_min_fds(type) <= ctl_max_fds(type));
	}
}

TAP_CASE(any_other_length_is_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t bytes[CTL_MAX_BYTES + 64] = {0};
		struct ctl_msg msg;
		size_t len = ctl_encode(&samples[i], bytes);

		for (size_t other = 0; other < sizeof(bytes); other++) {
			if (other == len)
				continue;
			CHECK_EQ(decode(&samples[i], bytes, other, &msg), CTL_BAD_LENGTH);
		}
		bytes[2]++; /* as long as its type, but says something else */
		CHECK_EQ(decode(&samples[i], bytes, len, &msg), CTL_BAD_LENGTH);
	}
}

TAP_CASE(reserved_bits_and_the_wrong_side_are_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t bytes[CTL_MAX_BYTES];
		struct ctl_msg msg;
		size_t len = ctl_encode(&samples[i], bytes);

		CHECK_EQ(ctl_decode(!side_of(samples[i].type), bytes, len,
				    ctl_min_fds(samples[i].type), &msg),
			 CTL_BAD_TYPE);
		for (size_t bit = 0; bit < 32; bit++) {
			bytes[4 + bit / 8] ^= (uint8_t)(1u << bit % 8);
			CHECK_EQ(decode(&samples[i], bytes, len, &msg), CTL_BAD_RESERVED);
			bytes[4 + bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}

TAP_CASE(unknown_types_are_refused)
{
	uint8_t bytes[CTL_MAX_BYTES] = {0};
	struct ctl_msg msg;

	for (unsigned int type = 0; type < 65536; type++) {
		if (strcmp(ctl_type_name(type), "invalid") != 0)
			continue;
		bytes[0] = (uint8_t)type;
		bytes[1] = (uint8_t)(type >> 8);
		bytes[2] = CTL_HEADER_BYTES;
		if (ctl_decode(CTL_FROM_CLIENT, bytes, CTL_HEADER_BYTES, 0, &msg) != CTL_BAD_TYPE)
			CHECK_EQ(type, -1);
	}
	CHECK_STR(ctl_type_name(CTL_TYPE_END), "invalid");
}

TAP_CASE(the_number_of_descriptors_must_fit)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		enum ctl_type type = samples[i].type;
		uint8_t bytes[CTL_MAX_BYTES];
		struct ctl_msg msg;
		size_t len = ctl_encode(&samples[i], bytes);

		for (size_t n = 0; n < 10; n++) {
			bool fits = n >= ctl_min_fds(type) && n <= ctl_max_fds(type);

			CHECK_EQ(ctl_decode(side_of(type), bytes, len, n, &msg),
				 fits ? CTL_OK : CTL_BAD_FDS);
		}
	}
}

/* A field at @offset behind the header, of 4 or 8 bytes, and a value that it must not have. */
static const struct {
	enum ctl_type type;
	size_t offset, width;
	uint64_t bad;
} bad_fields[] = {
	{CTL_HELLO, 4, 4, 2},
	{CTL_HELLO, 4, 4, UINT32_MAX},
	{CTL_REGISTER, 0, 4, (uint32_t)-1},
	{CTL_REGISTER, 0, 4, 0x80000000u},
	{CTL_REGISTER, 4, 4, 0},
	{CTL_REGISTER, 8, 4, 1},
	{CTL_MAPPED, 0, 4, 0},
	{CTL_DRAINED, 0, 4, 0},
	{CTL_DRAINED, 4, 4, REASON_COUNT},
	{CTL_DRAINED, 4, 4, UINT32_MAX},
	{CTL_STATE, 0, 4, CTL_STATE_COUNT},
	{CTL_STATE, 0, 4, UINT32_MAX},
	{CTL_STATE, 4, 4, REASON_COUNT},
	{CTL_STATE, 8, 4, (uint32_t)-1},
	{CTL_ADOPT, 0, 4, (uint32_t)-1},
	{CTL_ADOPT, 4, 4, 0},
	{CTL_ADOPT, 8, 4, CTL_LANE_REMOTE + 1},
	{CTL_CLOSED, 0, 4, REASON_COUNT},
	{CTL_QUERY, 0, 4, CTL_QUERY_COUNT},
	{CTL_QUERY, 4, 4, (uint32_t)-2},
	{CTL_QUERY, 8, 4, (uint32_t)-2},
	{CTL_DEMOTE_REQ, 0, 4, 0},
	{CTL_DEMOTE_REQ, 0, 4, (uint32_t)-1},
	{CTL_DEMOTE_REQ, 4, 4, (uint32_t)-2},
	{CTL_WELCOME, 0, 4, CTL_VERSION + 1},
	{CTL_WELCOME, 8, 4, 1000001},
	{CTL_WELCOME, 16, 4, 86400001},
	{CTL_WELCOME, 20, 4, 86401},
	{CTL_WELCOME, 24, 4, 86400001},
	{CTL_WELCOME, 28, 4, UINT32_MAX},
	{CTL_WELCOME, 32, 8, 0},
	{CTL_WELCOME, 32, 8, 4095},
	{CTL_WELCOME, 32, 8, (1u << 18) + 1},
	{CTL_WELCOME, 32, 8, 1u << 27},
	{CTL_WELCOME, 32, 8, 1ull << 63},
	{CTL_REGISTERED, 0, 4, 0},
	{CTL_REGISTERED, 4, 4, 2},
	{CTL_REFUSED, 0, 4, REASON_COUNT},
	{CTL_REFUSED, 4, 4, 86400001},
	{CTL_PAIR, 0, 4, 0},
	{CTL_PAIR, 4, 4, 2},
	{CTL_PAIR, 8, 4, CTL_LANE_REMOTE + 1},
	{CTL_PAIR, 12, 8, 0},
	{CTL_PAIR, 20, 8, 3 << 12},
	{CTL_PEER, 0, 4, 0},
	{CTL_UNPAIR, 0, 4, 0},
	{CTL_UNPAIR, 4, 4, REASON_COUNT},
	{CTL_DEMOTE, 0, 4, REASON_COUNT},
	{CTL_ANSWER, 0, 4, 1},
	{CTL_ANSWER, 0, 4, (uint32_t)-4096},
};

TAP_CASE(each_field_out_of_range_is_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_fields); i++) {
		const struct ctl_msg *sample = samples;
		uint8_t bytes[CTL_MAX_BYTES];
		struct ctl_msg msg = {.type = CTL_TYPE_END};
		size_t len;

		while (sample->type != bad_fields[i].type)
			sample++;
		len = ctl_encode(sample, bytes);
		REQUIRE(CTL_HEADER_BYTES + bad_fields[i].offset + bad_fields[i].width <= len);
		for (size_t b = 0; b < bad_fields[i].width; b++)
			bytes[CTL_HEADER_BYTES + bad_fields[i].offset + b] =
				(uint8_t)(bad_fields[i].bad >> 8 * b);
		if (!CHECK_EQ(decode(sample, bytes, len, &msg), CTL_BAD_VALUE))
			tap_diag("field %zu of the list", i);
		CHECK_EQ(msg.type, CTL_TYPE_END); /* nothing is set on an error */
	}
}

/* What the decoder accepts, the encoder writes again byte for byte: no bit is lost or made up. */
TAP_CASE(random_bytes_are_refused_or_understood_completely)
{
	struct prng prng;
	size_t understood = 0;

	prng_init(&prng, 1);
	for (int round = 0; round < 200000; round++) {
		const struct ctl_msg *sample = &samples[prng_below(&prng, ARRAY_SIZE(samples))];
		uint8_t bytes[CTL_MAX_BYTES], again[CTL_MAX_BYTES];
		struct ctl_msg msg;
		size_t len = ctl_encode(sample, bytes);

		for (uint64_t n = prng_below(&prng, 4); n > 0; n--)
			bytes[prng_below(&prng, len)] = (uint8_t)prng_next(&prng);
		if (decode(sample, bytes, len, &msg) != CTL_OK)
			continue;
		understood++;
		if (ctl_encode(&msg, again) != len || memcmp(bytes, again, len) != 0)
			CHECK_EQ(round, -1);
	}
	CHECK(understood > 1000);
}

TAP_CASE(names_cover_their_enums)
{
	for (unsigned int i = 0; i < CTL_STATE_COUNT; i++)
		CHECK(strcmp(ctl_state_name(i), "invalid") != 0);
	CHECK_STR(ctl_state_name(CTL_STATE_COUNT), "invalid");
	for (unsigned int i = 0; i < CTL_VERDICT_COUNT; i++)
		CHECK(strcmp(ctl_verdict_name(i), "invalid") != 0);
	CHECK_STR(ctl_verdict_name(CTL_VERDICT_COUNT), "invalid");
}

TAP_CASE(reasons_have_distinct_names_and_sentences)
{
	for (unsigned int i = 0; i < REASON_COUNT; i++) {
		const char *text = reason_text(i);

		CHECK(reason_ok(i));
		CHECK(strspn(reason_name(i), "abcdefghijklmnopqrstuvwxyz_") ==
		      strlen(reason_name(i)));
		CHECK(text[0] >= 'A' && text[0] <= 'Z' && text[strlen(text) - 1] == '.');
		for (unsigned int j = 0; j < i; j++) {
			CHECK(strcmp(reason_name(i), reason_name(j)) != 0);
			CHECK(strcmp(text, reason_text(j)) != 0);
		}
	}
	CHECK(!reason_ok(REASON_COUNT));
	CHECK(!reason_ok(UINT64_MAX));
	CHECK_STR(reason_name(REASON_COUNT), "invalid");
	CHECK(!reason_passes(REASON_COUNT));
	CHECK(reason_passes(REASON_PEER_UNKNOWN));
	CHECK(!reason_passes(REASON_FDOPEN));
}

TAP_CASE(the_notice_page_counts_its_slots)
{
	CHECK_EQ(notice_slots_in(0), 0);
	CHECK_EQ(notice_slots_in(NOTICE_LINE_BYTES), 0);
	CHECK_EQ(notice_slots_in(2 * NOTICE_LINE_BYTES - 1), 0);
	for (uint32_t slots = 1; slots < 100; slots++)
		CHECK_EQ(notice_slots_in(notice_bytes(slots)), slots);
	CHECK_EQ(notice_slots_in(UINT64_MAX), UINT32_MAX);
}

/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/util.h"
#include "core/peer_msg.h"

#include "lib/tap.h"

#define V4(a, b, c, d, p)                                                                          \
	{                                                                                          \
		.family = 4, .addr = {a, b, c, d}, .port = p                                       \
	}

static const struct peer_msg hello = {
	.type = PEER_HELLO,
	.u.hello = {.magic = PEER_MAGIC,
		    .version = PEER_VERSION,
		    .uuid = "0123456789abcde",
		    .software = "shuntd 0.1.0",
		    .n_rdma = 2,
		    .rdma = {{.transport = PEER_TRANSPORT_ROCE,
			      .gid_type = 2,
			      .prefix = 24,
			      .gid = {[10] = 0xff, 0xff, 10, 0, 0, 1},
			      .address = V4(10, 0, 0, 1, 7610),
			      .device = "rxe0"},
			     {.transport = PEER_TRANSPORT_IB, .gid = {0xfe, 0x80}}}},
};

/* One of each type. */
static const struct peer_msg samples[] = {
	{.type = PEER_OFFER,
	 .u.offer = {.id = 7,
		     .local = V4(10, 0, 0, 1, 5000),
		     .remote = V4(10, 0, 0, 2, 80),
		     .acked_bytes = 100,
		     .received_bytes = UINT64_MAX,
		     .written_bytes = 200,
		     .sent_syn = 1,
		     .ring_bytes = 262144,
		     .epoch = 3}},
	{.type = PEER_OFFER,
	 .u.offer = {.id = UINT64_MAX,
		     .local = {.family = 6, .addr = {0x20, 1, [15] = 1}, .port = 1},
		     .remote = {.family = 6, .addr = {0x20, 1, [15] = 2}, .port = 65535},
		     .ring_bytes = 4096,
		     .epoch = UINT32_MAX,
		     .answers = 9}},
	{.type = PEER_WITHDRAW, .u.withdraw = {.id = 1}},
	{.type = PEER_MATCH,
	 .u.match = {.own_id = 1,
		     .your_id = 2,
		     .token = {3, 4},
		     .epoch = 5,
		     .rkey = 6,
		     .address = 7,
		     .ring_bytes = 8192,
		     .link = 9}},
	{.type = PEER_REFUSE, .u.refuse = {.your_id = 3, .reason = REASON_STALE_PEER}},
	{.type = PEER_NONCE_ASK, .u.nonce_ask = {.id = 1, .from = 0, .to = PEER_RDMA_MAX - 1}},
	{.type = PEER_NONCE, .u.nonce = {.id = 1, .nonce = "fifteen letters"}},
	{.type = PEER_NONCE, .u.nonce = {.id = 1, .reason = REASON_NO_LINK}},
	{.type = PEER_LOST,
	 .u.lane_at = {.id = 1,
		       .local = V4(10, 0, 0, 1, 5000),
		       .remote = V4(10, 0, 0, 2, 80),
		       .epoch = 3,
		       .offset = 1ull << 40}},
	{.type = PEER_REPLAYED,
	 .u.lane_at = {.id = UINT64_MAX,
		       .local = {.family = 6, .addr = {0x20, 1, [15] = 1}, .port = 1},
		       .remote = {.family = 6, .addr = {0x20, 1, [15] = 2}, .port = 65535},
		       .epoch = UINT32_MAX,
		       .offset = PEER_OFFSET_NONE}},
	{.type = PEER_PING, .u.ping = {.serial = 5}},
	{.type = PEER_PONG, .u.ping = {.serial = UINT64_MAX}},
	{.type = PEER_BYE, .u.bye = {.why = PEER_BYE_CROSSED}},
};

/* From a copy of just that size, so that a sanitizer sees a byte read beyond it. */
static enum peer_verdict decode(const void *bytes, size_t len, struct peer_msg *ret_msg,
				size_t *ret_used)
{
	uint8_t *copy = malloc(len ? len : 1);
	enum peer_verdict verdict;

	memcpy(copy, bytes, len);
	verdict = peer_decode(copy, len, ret_msg, ret_used);
	free(copy);
	return verdict;
}

static void round_trip(const struct peer_msg *msg)
{
	uint8_t bytes[PEER_FRAME_MAX + 1];
	size_t len = peer_encode(msg, bytes), used = 0;
	struct peer_msg got, want;

	memset(&want, 0, sizeof(want));
	CHECK_EQ(decode(bytes, len, &got, &used), PEER_OK);
	CHECK_EQ(used, len);
	CHECK_EQ(got.type, msg->type);
	bytes[len] = 0xee; /* what follows does not matter */
	CHECK_EQ(decode(bytes, len + 1, &want, &used), PEER_OK);
	CHECK_EQ(used, len);
	CHECK(memcmp(&want, &got, sizeof(got)) == 0);
	for (size_t cut = 0; cut < len; cut++)
		CHECK_EQ(decode(bytes, cut, &got, &used), PEER_MORE);
}

TAP_CASE(every_message_comes_through_whole_and_only_whole)
{
	bool seen[PEER_TYPE_END] = {[PEER_HELLO] = true};
	uint8_t bytes[PEER_FRAME_MAX];
	struct peer_msg got;
	size_t used, len;

	round_trip(&hello);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		round_trip(&samples[i]);
		seen[samples[i].type] = true;
	}
	for (enum peer_type type = 1; type < PEER_TYPE_END; type++) {
		CHECK(seen[type]);
		CHECK(strcmp(peer_type_name(type), "invalid") != 0);
	}
	len = peer_encode(&hello, bytes);
	CHECK_EQ(peer_decode(bytes, len, &got, &used), PEER_OK);
	CHECK_EQ(got.u.hello.n_rdma, 2);
	CHECK_EQ(got.u.hello.rdma[0].address.port, 7610);
	CHECK_STR(got.u.hello.rdma[0].device, "rxe0");
	CHECK_STR(got.u.hello.software, "shuntd 0.1.0");
	CHECK(memcmp(got.u.hello.uuid, "0123456789abcde", 16) == 0);
	peer_encode(&samples[0], bytes);
	CHECK_EQ(peer_decode(bytes, sizeof(bytes), &got, &used), PEER_OK);
	CHECK(memcmp(&got.u.offer, &samples[0].u.offer, sizeof(got.u.offer)) == 0);
}

TAP_CASE(the_layout_is_fixed)
{
	static const uint8_t refuse[] = {0, 0, 0, 18, 0, PEER_REFUSE, 0, 0, 0,
					 0, 0, 0, 0,  0, 0,	      3, 0, REASON_STALE_PEER};
	static const uint8_t match[] = {
		0, 0, 0, 64, 0, PEER_MATCH, 0, 0, 0, 0, 0,    0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
		0, 2, 0, 0,  0, 3,	    0, 0, 0, 4, 0,    0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 0,
		0, 0, 0, 7,  0, 0,	    0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 9};
	uint8_t bytes[PEER_FRAME_MAX];

	CHECK_EQ(peer_encode(&samples[4], bytes), sizeof(refuse));
	CHECK(memcmp(bytes, refuse, sizeof(refuse)) == 0);
	CHECK_EQ(peer_encode(&samples[3], bytes), sizeof(match));
	CHECK(memcmp(bytes, match, sizeof(match)) == 0);
}

/* A stream of all of them, read in pieces of every size. */
TAP_CASE(a_stream_falls_into_its_messages)
{
	static uint8_t stream[4096];
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		len += peer_encode(&samples[i], stream + len);
	for (size_t piece = 1; piece < 100; piece++) {
		size_t have = 0, at = 0, used, count = 0;
		struct peer_msg got;

		while (at < len) {
			have = size_min(len, have + piece);
			while (decode(stream + at, have - at, &got, &used) == PEER_OK) {
				CHECK_EQ(got.type, samples[count].type);
				count++;
				at += used;
			}
			if (have == len && at < len)
				break;
		}
		CHECK_EQ(count, ARRAY_SIZE(samples));
	}
}

static enum peer_verdict with_byte(const struct peer_msg *msg, size_t at, uint8_t value)
{
	uint8_t bytes[PEER_FRAME_MAX];
	size_t len = peer_encode(msg, bytes), used;
	struct peer_msg got;

	bytes[at] = value;
	return decode(bytes, len, &got, &used);
}

TAP_CASE(what_is_wrong_is_refused)
{
	/* Header */
	CHECK_EQ(with_byte(&samples[2], 0, 1), PEER_BAD_LENGTH);
	CHECK_EQ(with_byte(&samples[2], 3, 7), PEER_BAD_LENGTH);
	CHECK_EQ(with_byte(&samples[2], 3, 15), PEER_BAD_LENGTH);
	CHECK_EQ(with_byte(&samples[2], 3, 17), PEER_MORE);
	CHECK_EQ(with_byte(&samples[2], 2, 0x08), PEER_BAD_LENGTH); /* 2048 and more */
	CHECK_EQ(with_byte(&samples[2], 5, 0), PEER_BAD_TYPE);
	CHECK_EQ(with_byte(&samples[2], 5, PEER_TYPE_END), PEER_BAD_TYPE);
	CHECK_EQ(with_byte(&samples[2], 4, 1), PEER_BAD_TYPE);
	CHECK_EQ(with_byte(&samples[2], 6, 1), PEER_BAD_RESERVED);
	CHECK_EQ(with_byte(&samples[2], 7, 1), PEER_BAD_RESERVED);
	CHECK_EQ(with_byte(&samples[2], 15, 0), PEER_BAD_VALUE); /* id 0 */
	/* HELLO */
	CHECK_EQ(with_byte(&hello, 8, 0), PEER_BAD_VERSION);
	CHECK_EQ(with_byte(&hello, 13, 2), PEER_BAD_VERSION);
	CHECK_EQ(with_byte(&hello, 30, '\n'), PEER_BAD_VALUE);
	CHECK_EQ(with_byte(&hello, 30 + 31, 'x'), PEER_BAD_VALUE);
	CHECK_EQ(with_byte(&hello, 62, 1), PEER_BAD_VALUE); /* 258 addresses */
	CHECK_EQ(with_byte(&hello, 63, 1), PEER_BAD_LENGTH);
	CHECK_EQ(with_byte(&hello, 64, 0), PEER_BAD_VALUE);  /* transport */
	CHECK_EQ(with_byte(&hello, 65, 0), PEER_BAD_VALUE);  /* RoCE without a version */
	CHECK_EQ(with_byte(&hello, 66, 33), PEER_BAD_VALUE); /* bits of an IPv4 address */
	CHECK_EQ(with_byte(&hello, 83, 5), PEER_BAD_VALUE);  /* family */
	CHECK_EQ(with_byte(&hello, 90, 1), PEER_BAD_VALUE);  /* behind an IPv4 address */
	/* OFFER */
	CHECK_EQ(with_byte(&samples[0], 16, 6), PEER_BAD_VALUE);   /* two families */
	CHECK_EQ(with_byte(&samples[0], 16, 0), PEER_BAD_VALUE);   /* none */
	CHECK_EQ(with_byte(&samples[0], 22, 1), PEER_BAD_VALUE);   /* behind an IPv4 address */
	CHECK_EQ(with_byte(&samples[0], 61, 201), PEER_BAD_VALUE); /* acked > written */
	CHECK_EQ(with_byte(&samples[0], 78, 2), PEER_BAD_VALUE);   /* SYN */
	CHECK_EQ(with_byte(&samples[0], 86, 1), PEER_BAD_VALUE);   /* ring size */
	/* LOST */
	CHECK_EQ(with_byte(&samples[8], 15, 0), PEER_BAD_VALUE); /* id 0 */
	CHECK_EQ(with_byte(&samples[8], 16, 6), PEER_BAD_VALUE); /* two families */
	CHECK_EQ(with_byte(&samples[8], 16, 0), PEER_BAD_VALUE); /* none */
	CHECK_EQ(with_byte(&samples[8], 22, 1), PEER_BAD_VALUE); /* behind an IPv4 address */
	CHECK_EQ(with_byte(&samples[8], 53, 0), PEER_BAD_VALUE); /* port 0 */
	CHECK_EQ(with_byte(&samples[8], 57, 0), PEER_BAD_VALUE); /* epoch 0 */
	/* Others */
	CHECK_EQ(with_byte(&samples[4], 17, REASON_COUNT), PEER_BAD_VALUE);
	CHECK_EQ(with_byte(&samples[4], 17, REASON_NONE), PEER_BAD_VALUE);
	CHECK_EQ(with_byte(&samples[5], 17, 32), PEER_BAD_VALUE);
	CHECK_EQ(with_byte(&samples[7], 20, 1), PEER_BAD_VALUE); /* a nonce with a refusal */
	CHECK_EQ(with_byte(&samples[12], 9, 0), PEER_BAD_VALUE);
	CHECK_EQ(with_byte(&samples[12], 9, PEER_BYE_END), PEER_BAD_VALUE);
}

TAP_CASE(every_name_is_one)
{
	for (enum peer_verdict verdict = 0; verdict < PEER_VERDICT_COUNT; verdict++)
		CHECK(strcmp(peer_verdict_name(verdict), "invalid") != 0);
	CHECK_STR(peer_verdict_name(PEER_VERDICT_COUNT), "invalid");
	CHECK_STR(peer_type_name(0), "invalid");
	CHECK_STR(peer_type_name(PEER_TYPE_END), "invalid");
	for (enum peer_bye why = 1; why < PEER_BYE_END; why++)
		CHECK(strcmp(peer_bye_text(why), peer_bye_text(PEER_BYE_END)) != 0);
	for (enum peer_transport t = 1; t < PEER_TRANSPORT_END; t++)
		CHECK(strcmp(peer_transport_name(t), "invalid") != 0);
}

TAP_CASE(random_changes_do_no_harm)
{
	uint8_t bytes[PEER_FRAME_MAX], again[PEER_FRAME_MAX];
	struct prng prng;
	int good = 0;

	prng_init(&prng, 11);
	for (int run = 0; run < 50000; run++) {
		size_t which = prng_below(&prng, ARRAY_SIZE(samples) + 1), used;
		size_t len = peer_encode(which ? &samples[which - 1] : &hello, bytes);
		struct peer_msg got;

		for (uint64_t i = prng_below(&prng, 4); i > 0; i--)
			bytes[prng_below(&prng, len)] = (uint8_t)prng_below(&prng, 256);
		if (decode(bytes, len, &got, &used) != PEER_OK)
			continue;
		good++;
		CHECK_EQ(peer_encode(&got, again), used);
		CHECK(memcmp(again, bytes, used) == 0);
	}
	CHECK(good > 0);
}

/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "core/link_hello.h"

#include "lib/tap.h"

static const struct link_hello request = {
	.version = LINK_HELLO_VERSION,
	.kind = LINK_REQUEST,
	.nonce = "0123456789abcde",
	.credits = 128,
	.generation = 0xcafe0001,
};

/* A copy of just that size, so that a sanitizer sees a byte read beyond it. */
static enum link_verdict decode(const uint8_t *bytes, size_t len, struct link_hello *ret_hello)
{
	uint8_t *copy = malloc(len ? len : 1);
	enum link_verdict verdict;

	memcpy(copy, bytes, len);
	verdict = link_hello_decode(copy, len, ret_hello);
	free(copy);
	return verdict;
}

TAP_CASE(requests_and_replies_come_through)
{
	uint8_t bytes[LINK_HELLO_BYTES + 40] = {0};
	struct link_hello got;

	for (enum link_kind kind = LINK_REQUEST; kind <= LINK_REPLY; kind++) {
		struct link_hello hello = request;

		hello.kind = kind;
		link_hello_encode(&hello, bytes);
		CHECK_EQ(decode(bytes, LINK_HELLO_BYTES, &got), LINK_HELLO_OK);
		CHECK_EQ(got.kind, kind);
		CHECK(memcmp(got.nonce, request.nonce, LINK_NONCE_BYTES) == 0);
		CHECK_EQ(got.credits, 128);
		CHECK_EQ(got.generation, 0xcafe0001);
		/* Padded by the transport. */
		CHECK_EQ(decode(bytes, sizeof(bytes), &got), LINK_HELLO_OK);
	}
}

TAP_CASE(the_layout_is_fixed)
{
	static const uint8_t wanted[32] = {
		'S', 'h', 'l', 'k', 0,	 1,   0,   1,	 '0', '1', '2', '3', '4',  '5',	 '6', '7',
		'8', '9', 'a', 'b', 'c', 'd', 'e', '\0', 0,   0,   0,	128, 0xca, 0xfe, 0,   1,
	};
	uint8_t bytes[LINK_HELLO_BYTES];

	link_hello_encode(&request, bytes);
	CHECK(memcmp(bytes, wanted, sizeof(wanted)) == 0);
	for (size_t i = sizeof(wanted); i < LINK_HELLO_BYTES; i++)
		CHECK_EQ(bytes[i], 0);
}

TAP_CASE(every_rejection_has_a_number_and_words)
{
	uint8_t bytes[LINK_HELLO_BYTES];
	struct link_hello got;

	for (enum link_reject reject = 1; reject < LINK_REJECT_END; reject++) {
		struct link_hello hello = {.version = 1, .kind = LINK_REJECTION, .reject = reject};

		link_hello_encode(&hello, bytes);
		CHECK_EQ(decode(bytes, LINK_HELLO_BYTES, &got), LINK_HELLO_OK);
		CHECK_EQ(got.reject, reject);
		CHECK(strcmp(link_reject_text(reject), link_reject_text(LINK_REJECT_END)) != 0);
	}
	bytes[11] = LINK_REJECT_END;
	CHECK_EQ(decode(bytes, LINK_HELLO_BYTES, &got), LINK_HELLO_FOREIGN);
	bytes[11] = 0;
	CHECK_EQ(decode(bytes, LINK_HELLO_BYTES, &got), LINK_HELLO_FOREIGN);
}

TAP_CASE(what_is_foreign_is_refused)
{
	uint8_t bytes[LINK_HELLO_BYTES];
	struct link_hello got;

	for (size_t len = 0; len < LINK_HELLO_BYTES; len++) {
		link_hello_encode(&request, bytes);
		CHECK_EQ(decode(bytes, len, &got), LINK_HELLO_FOREIGN);
	}
	for (size_t at = 0; at < 8; at++) {
		link_hello_encode(&request, bytes);
		bytes[at] ^= 0x40;
		CHECK_EQ(decode(bytes, LINK_HELLO_BYTES, &got),
			 at == 4 || at == 5 ? LINK_HELLO_VERSION_BAD : LINK_HELLO_FOREIGN);
	}
	link_hello_encode(&request, bytes);
	bytes[25] = 1; /* 65536 credits and more */
	CHECK_EQ(decode(bytes, LINK_HELLO_BYTES, &got), LINK_HELLO_FOREIGN);
}

TAP_CASE(random_bytes_do_no_harm)
{
	uint8_t bytes[LINK_HELLO_BYTES + 8];
	struct link_hello got;
	struct prng prng;
	int good = 0;

	prng_init(&prng, 5);
	for (int run = 0; run < 20000; run++) {
		size_t len = prng_below(&prng, sizeof(bytes) + 1);

		link_hello_encode(&request, bytes);
		for (int i = 0; i < 3; i++)
			bytes[prng_below(&prng, LINK_HELLO_BYTES)] =
				(uint8_t)prng_below(&prng, 256);
		if (decode(bytes, len, &got) == LINK_HELLO_OK) {
			good++;
			CHECK(got.kind < LINK_KIND_END && got.reject < LINK_REJECT_END);
		}
	}
	CHECK(good > 0);
}

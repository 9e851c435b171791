/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/tap.h"
#include "stream_pattern.h"

/* That the stream program's checks bite. */

#define LEN 4096
#define KEY 0x1234567u

static uint8_t buf[LEN + 64];

TAP_CASE(every_offset_and_length_fits_the_whole)
{
	static uint8_t part[LEN];

	pattern_fill(KEY, 0, buf, LEN);
	for (size_t from = 0; from < 40; from++) {
		for (size_t len = 1; len < 40; len++) {
			pattern_fill(KEY, from, part, len);
			CHECK(memcmp(part, buf + from, len) == 0);
			CHECK_EQ(pattern_check(KEY, from, part, len), -1);
		}
	}
}

TAP_CASE(a_changed_byte_is_found_where_it_is)
{
	for (size_t at = 0; at < 64; at++) {
		pattern_fill(KEY, 3, buf, 64);
		buf[at] ^= 1;
		CHECK_EQ(pattern_check(KEY, 3, buf, 64), at);
	}
}

TAP_CASE(a_lost_byte_is_found_and_placed)
{
	pattern_fill(KEY, 1000, buf, 200);
	pattern_fill(KEY, 1201, buf + 200, LEN - 200);
	CHECK_EQ(pattern_check(KEY, 1000, buf, LEN), 200);
	CHECK_EQ(pattern_where(KEY, 1200, buf + 200, 64), 1201);
}

TAP_CASE(repeated_bytes_are_found_and_placed)
{
	pattern_fill(KEY, 70000, buf, 200);
	pattern_fill(KEY, 4464, buf + 200, LEN - 200);
	CHECK_EQ(pattern_check(KEY, 70000, buf, LEN), 200);
	CHECK_EQ(pattern_where(KEY, 70200, buf + 200, 64), 4464);
}

TAP_CASE(bytes_of_the_other_direction_are_from_nowhere)
{
	pattern_fill(KEY + 1, 500, buf, 64);
	CHECK(pattern_check(KEY, 500, buf, 64) >= 0);
	CHECK_EQ(pattern_where(KEY, 500, buf, 64), -1);
}

static uint64_t sum_in_pieces(const void *bytes, size_t piece)
{
	struct stream_sum sum = {0};

	for (size_t done = 0; done < LEN; done += piece)
		stream_sum_add(&sum, (const uint8_t *)bytes + done,
			       LEN - done < piece ? LEN - done : piece);
	return stream_sum_value(&sum);
}

TAP_CASE(the_checksum_does_not_depend_on_the_pieces)
{
	pattern_fill(KEY, 0, buf, LEN);
	for (size_t piece = 1; piece < 100; piece++)
		CHECK_EQ(sum_in_pieces(buf, piece), sum_in_pieces(buf, LEN));
}

TAP_CASE(the_checksum_sees_changes_and_order)
{
	uint64_t sum;

	pattern_fill(KEY, 0, buf, LEN);
	sum = sum_in_pieces(buf, LEN);
	buf[100] ^= 128;
	CHECK(sum_in_pieces(buf, LEN) != sum);
	pattern_fill(KEY, 8, buf, 8);
	pattern_fill(KEY, 0, buf + 8, 8);
	pattern_fill(KEY, 16, buf + 16, LEN - 16);
	CHECK(sum_in_pieces(buf, LEN) != sum);
}

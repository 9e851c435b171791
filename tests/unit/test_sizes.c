/* SPDX-License-Identifier: MIT */
#include "core/half.h"
#include "core/sizes.h"

#include "lib/tap.h"

TAP_CASE(each_limit_is_the_last_size_of_its_bucket)
{
	for (unsigned int i = 0; i + 1 < SIZES_BUCKETS; i++) {
		CHECK_EQ(sizes_bucket(sizes_limit(i)), i);
		CHECK_EQ(sizes_bucket(sizes_limit(i) + 1), i + 1);
		CHECK_EQ(sizes_limit(i), 64ull << (2 * i));
	}
}

TAP_CASE(the_ends_are_open)
{
	CHECK_EQ(sizes_bucket(0), 0);
	CHECK_EQ(sizes_bucket(1), 0);
	CHECK_EQ(sizes_bucket(UINT64_MAX), SIZES_BUCKETS - 1);
	CHECK_EQ(sizes_bucket(1ull << 63), SIZES_BUCKETS - 1);
}

TAP_CASE(a_message_is_counted_in_its_bucket_only)
{
	uint64_t counts[SIZES_BUCKETS] = {0};

	for (uint64_t len = 1; len <= 1u << 20; len++)
		sizes_count(counts, len);
	CHECK_EQ(counts[0], 64);
	for (unsigned int i = 1; i + 1 < SIZES_BUCKETS; i++)
		CHECK_EQ(counts[i], sizes_limit(i) - sizes_limit(i - 1));
	CHECK_EQ(counts[SIZES_BUCKETS - 1], (1u << 20) - sizes_limit(SIZES_BUCKETS - 2));
}

/* Two threads of a program, one that sends and one that receives, share no line of them; nor does
 * the peer, which reads the lines before. */
TAP_CASE(each_direction_has_a_line_of_its_own)
{
	CHECK_EQ(offsetof(struct half_ctl, sent) % HALF_LINE_BYTES, 0);
	CHECK_EQ(offsetof(struct half_ctl, taken) % HALF_LINE_BYTES, 0);
	CHECK_EQ(sizeof(((struct half_ctl *)NULL)->sent), HALF_LINE_BYTES);
	CHECK(offsetof(struct half_ctl, sent) / HALF_LINE_BYTES >
	      offsetof(struct half_ctl, lane) / HALF_LINE_BYTES);
}

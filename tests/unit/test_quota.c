/* SPDX-License-Identifier: MIT */
#include "quota.h"

#include "lib/tap.h"

#define SECOND 1000000000ull

static const struct conf conf = {
	.sessions_per_uid = 2,
	.connections_per_uid = 3,
	.ring_bytes_per_uid = 100,
	.pinned_bytes_per_uid = 1000,
	.registrations_per_s = 10,
};

TAP_CASE(each_user_has_his_own_account)
{
	struct quota quota;
	struct quota_user *one, *two;

	quota_init(&quota, &conf, 5);
	one = quota_user_get(&quota, 1000);
	two = quota_user_get(&quota, 1001);
	REQUIRE(one && two && one != two);
	CHECK(quota_user_get(&quota, 1000) == one);
	CHECK(quota_take_session(&quota, one) && quota_take_session(&quota, one));
	CHECK(!quota_take_session(&quota, one));
	CHECK(quota_take_session(&quota, two));
	one->sessions -= 2;
	two->sessions--;
	CHECK(!quota_user_put(&quota, one));
	CHECK(!quota_user_put(&quota, one));
	CHECK(!quota_user_put(&quota, two));
	CHECK_EQ(map_count(&quota.users), 0);
	quota_deinit(&quota);
}

TAP_CASE(bytes_are_charged_whole_or_not_at_all)
{
	struct quota quota;
	struct quota_user *user;

	quota_init(&quota, &conf, 5);
	user = quota_user_get(&quota, 1000);
	REQUIRE(user);
	CHECK(quota_take_pinned(&quota, user, 600));
	CHECK(!quota_take_pinned(&quota, user, 401));
	CHECK_EQ(user->pinned_bytes, 600);
	CHECK(quota_take_pinned(&quota, user, 400));
	CHECK(!quota_take_pinned(&quota, user, 1));
	CHECK(!quota_take_pinned(&quota, user, UINT64_MAX));
	CHECK(!quota_take_pinned(&quota, user, UINT64_MAX - 999));
	CHECK_EQ(user->pinned_bytes, 1000);
	user->pinned_bytes -= 1000;
	CHECK(quota_take_pinned(&quota, user, 1000));
	user->pinned_bytes = 0;
	/* Rings have an account of their own. */
	CHECK(quota_take_ring(&quota, user, 100));
	CHECK(!quota_take_ring(&quota, user, 1));
	user->ring_bytes = 0;
	CHECK(!quota_user_put(&quota, user));
	quota_deinit(&quota);
}

TAP_CASE(a_rate_allows_its_burst_and_then_its_pace)
{
	struct bucket bucket = {0};

	for (int i = 0; i < 10; i++)
		CHECK_EQ(bucket_take(&bucket, SECOND, 10, 10), 0);
	CHECK_EQ(bucket_take(&bucket, SECOND, 10, 10), SECOND / 10);
	CHECK_EQ(bucket_take(&bucket, SECOND + SECOND / 10, 10, 10), 0);
	CHECK(bucket_take(&bucket, SECOND + SECOND / 10, 10, 10) > 0);
	/* A long silence gives no more than the burst. */
	for (int i = 0; i < 10; i++)
		CHECK_EQ(bucket_take(&bucket, 100 * SECOND, 10, 10), 0);
	CHECK(bucket_take(&bucket, 100 * SECOND, 10, 10) > 0);
}

/* SPDX-License-Identifier: MIT */
#include "core/policy.h"

#include "lib/tap.h"

#define MS 1000000u

TAP_CASE(a_short_connection_never_asks)
{
	const struct policy policy = {.promote_after = 3};
	struct policy_state state = {0};

	for (int i = 0; i < 3; i++)
		CHECK(!policy_count(&policy, &state));
	for (int i = 0; i < 3; i++)
		CHECK(policy_count(&policy, &state));
}

TAP_CASE(failures_wait_twice_as_long_each)
{
	const struct policy policy = {.backoff_min_ms = 100, .backoff_max_ms = 300};
	struct policy_state state = {0};
	const uint64_t waits_ms[] = {100, 200, 300, 300};
	uint64_t now = 5 * MS;

	CHECK(policy_may_try(&state, now));
	for (unsigned int i = 0; i < 4; i++) {
		policy_failed(&policy, &state, now, 0);
		CHECK(!policy_may_try(&state, now + waits_ms[i] * MS - 1));
		now += waits_ms[i] * MS;
		CHECK(policy_may_try(&state, now));
	}
	policy_succeeded(&state);
	policy_failed(&policy, &state, now, 0);
	CHECK(policy_may_try(&state, now + 100 * MS));
}

TAP_CASE(the_daemon_may_ask_for_more_patience)
{
	const struct policy policy = {.backoff_min_ms = 10, .backoff_max_ms = 1000};
	struct policy_state state = {0};

	policy_failed(&policy, &state, 0, 500);
	CHECK(!policy_may_try(&state, 500 * MS - 1));
	CHECK(policy_may_try(&state, 500 * MS));
	/* It is no step of our own back-off. */
	policy_failed(&policy, &state, 500 * MS, 0);
	CHECK(policy_may_try(&state, 520 * MS));
}

TAP_CASE(no_backoff_is_allowed)
{
	const struct policy policy = {0};
	struct policy_state state = {0};

	for (int i = 0; i < 3; i++) {
		policy_failed(&policy, &state, 7, 0);
		CHECK(policy_may_try(&state, 7));
	}
}

/* SPDX-License-Identifier: MIT */
#include "core/policy.h"

bool policy_may_try(const struct policy_state *state, uint64_t now_ns)
{
	return now_ns >= state->not_before_ns;
}

void policy_failed(const struct policy *policy, struct policy_state *state, uint64_t now_ns,
		   uint32_t retry_ms)
{
	uint32_t backoff_ms = state->backoff_ms;
	uint32_t wait_ms = backoff_ms ? backoff_ms : policy->backoff_min_ms;
	uint64_t twice_ms = (uint64_t)wait_ms * 2;

	state->backoff_ms =
		twice_ms < policy->backoff_max_ms ? (uint32_t)twice_ms : policy->backoff_max_ms;
	if (wait_ms < retry_ms)
		wait_ms = retry_ms;
	state->not_before_ns = now_ns + (uint64_t)wait_ms * 1000000u;
}

void policy_succeeded(struct policy_state *state)
{
	state->backoff_ms = 0;
}

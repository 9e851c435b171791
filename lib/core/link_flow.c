/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "core/link_flow.h"

static struct link_note *note_of(const struct link_flow *flow, uint32_t number)
{
	return &flow->notes[number & (link_slots(flow->limits.depth) - 1)];
}

bool link_limits_are_ok(const struct link_limits *limits)
{
	return limits->depth >= LINK_DEPTH_MIN && limits->depth <= LINK_DEPTH_MAX &&
	       limits->chunk_bytes && limits->chunk_bytes <= LINK_CHUNK_BYTES &&
	       limits->lane_bytes >= limits->chunk_bytes &&
	       limits->link_bytes >= limits->lane_bytes &&
	       limits->own_credits >= LINK_CREDITS_MIN && limits->own_credits <= LINK_CREDITS_MAX &&
	       limits->peer_credits >= LINK_CREDITS_MIN && limits->peer_credits <= LINK_CREDITS_MAX;
}

void link_flow_init(struct link_flow *flow, const struct link_limits *limits,
		    struct link_note *notes)
{
	assert(link_limits_are_ok(limits));
	*flow = (struct link_flow){
		.limits = *limits,
		.credits = limits->peer_credits,
		.lent = limits->own_credits,
		.notes = notes,
	};
}

/* Credits that must be left after a message for @use. */
static uint32_t kept_credits(enum link_use use)
{
	switch (use) {
	case LINK_USE_BULK:
	case LINK_USE_SMALL:
		return 2;
	case LINK_USE_CONTROL:
		return 1;
	case LINK_USE_CREDIT:
		break;
	}
	return 0;
}

/* Entries of the queue that must be left. */
static uint32_t kept_wrs(const struct link_flow *flow, enum link_use use)
{
	switch (use) {
	case LINK_USE_BULK:
		return flow->limits.depth / 4;
	case LINK_USE_SMALL:
		return LINK_CONTROL_WRS;
	case LINK_USE_CONTROL:
	case LINK_USE_CREDIT:
		break;
	}
	return 0;
}

bool link_flow_may(const struct link_flow *flow, enum link_use use, uint32_t wrs)
{
	return flow->credits > kept_credits(use) &&
	       link_flow_out(flow) + wrs + kept_wrs(flow, use) <= flow->limits.depth;
}

bool link_flow_may_bytes(const struct link_flow *flow, const struct link_lane *lane,
			 enum link_use use, uint32_t bytes)
{
	uint32_t extra = use == LINK_USE_BULK ? 0 : flow->limits.chunk_bytes / 2;

	return flow->bytes_out + bytes <= (uint64_t)flow->limits.link_bytes + extra &&
	       lane->bytes_out + bytes <= (uint64_t)flow->limits.lane_bytes + extra;
}

uint32_t link_flow_post(struct link_flow *flow, struct link_lane *lane, uint32_t bytes)
{
	uint32_t number = flow->head++;

	assert(link_flow_out(flow) <= flow->limits.depth);
	*note_of(flow, number) = (struct link_note){lane, bytes};
	flow->bytes_out += bytes;
	if (lane) {
		lane->bytes_out += bytes;
		lane->wrs_out++;
	}
	return number;
}

uint16_t link_flow_spend(struct link_flow *flow)
{
	uint32_t told = flow->owed;

	assert(flow->credits > 0);
	flow->credits--;
	flow->owed = 0;
	flow->lent += told;
	return (uint16_t)told;
}

void link_flow_mark(struct link_flow *flow)
{
	flow->marked = flow->head;
}

bool link_flow_must_mark(const struct link_flow *flow)
{
	return flow->head - flow->marked >= flow->limits.depth / 4;
}

enum link_flow_verdict link_flow_complete(struct link_flow *flow, uint32_t number)
{
	if (number - flow->tail >= link_flow_out(flow))
		return LINK_FLOW_UNKNOWN;
	while (flow->tail != number + 1) {
		struct link_note *note = note_of(flow, flow->tail++);

		flow->bytes_out -= note->bytes;
		if (!note->lane)
			continue;
		note->lane->bytes_out -= note->bytes;
		note->lane->wrs_out--;
	}
	return LINK_FLOW_OK;
}

enum link_flow_verdict link_flow_heard(struct link_flow *flow, uint16_t credits)
{
	if (!flow->lent)
		return LINK_FLOW_OVERRUN;
	if (credits > flow->limits.peer_credits - flow->credits)
		return LINK_FLOW_FORGED;
	flow->lent--;
	flow->credits += credits;
	return LINK_FLOW_OK;
}

void link_flow_reposted(struct link_flow *flow, uint32_t count)
{
	assert(count <= flow->limits.own_credits - flow->lent - flow->owed);
	flow->owed += count;
}

bool link_flow_must_return(const struct link_flow *flow)
{
	return flow->owed >= flow->limits.own_credits / 2;
}

const char *link_flow_verdict_name(enum link_flow_verdict verdict)
{
	static const char *const names[LINK_FLOW_VERDICT_COUNT] = {
		[LINK_FLOW_OK] = "ok",
		[LINK_FLOW_OVERRUN] = "no_credit",
		[LINK_FLOW_FORGED] = "forged_credits",
		[LINK_FLOW_UNKNOWN] = "unknown_work_request",
	};

	return verdict < LINK_FLOW_VERDICT_COUNT ? names[verdict] : "invalid";
}

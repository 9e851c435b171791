/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>

#include "base/util.h"
#include "core/inline_probe.h"

#define TO(state) (1u << INLINE_##state)

/* state × event → the states that may follow; none: the event is not possible. */
static const uint8_t inline_next[INLINE_STATE_COUNT][INLINE_EVENT_COUNT] = {
	/* granted, refused, broke, judged */
	[INLINE_BASE] = {TO(WHOLE) | TO(OVER), TO(OVER), TO(OVER), 0},
	[INLINE_WHOLE] = {TO(VERIFY) | TO(OVER), TO(HINT) | TO(BISECT) | TO(OVER), TO(OVER), 0},
	[INLINE_HINT] = {TO(PROVE) | TO(VERIFY) | TO(OVER), TO(HINT) | TO(BISECT) | TO(OVER),
			 TO(OVER), 0},
	[INLINE_PROVE] = {TO(BISECT) | TO(VERIFY) | TO(OVER), TO(VERIFY), TO(VERIFY), 0},
	[INLINE_BISECT] = {TO(BISECT) | TO(VERIFY) | TO(OVER), TO(BISECT) | TO(VERIFY) | TO(OVER),
			   TO(VERIFY) | TO(OVER), 0},
	[INLINE_VERIFY] = {0, 0, 0, TO(OVER)},
	[INLINE_OVER] = {0, 0, 0, 0},
};

static void go(struct inline_probe *probe, enum inline_event event, enum inline_state to)
{
	assert(inline_next[probe->state][event] & (1u << to));
	probe->state = to;
}

static uint32_t wanted(const struct inline_ask *ask)
{
	return (uint32_t)u64_min(ask->ask, ask->cap);
}

bool inline_can(enum inline_state state, enum inline_event event)
{
	return state < INLINE_STATE_COUNT && event < INLINE_EVENT_COUNT &&
	       inline_next[state][event] != 0;
}

bool inline_is_refusal(int error)
{
	return error == 0 || error == EINVAL || error == ENOSPC;
}

void inline_probe_init(struct inline_probe *probe, const struct inline_ask *ask)
{
	*probe = (struct inline_probe){.ask = *ask, .state = INLINE_BASE, .reason = INLINE_PENDING};
	probe->ask.ask = (uint32_t)u64_min(ask->ask, INLINE_BYTES_MAX);
	probe->ask.cap = (uint32_t)u64_min(ask->cap, INLINE_BYTES_MAX);
	probe->ask.n_hints = (uint32_t)u64_min(ask->n_hints, INLINE_HINTS_MAX);
}

bool inline_probe_next(const struct inline_probe *probe, uint32_t *ret_bytes)
{
	if (probe->state >= INLINE_VERIFY)
		return false;
	*ret_bytes = probe->trying;
	return true;
}

uint32_t inline_probe_candidate(const struct inline_probe *probe)
{
	if (probe->state != INLINE_VERIFY)
		return 0;
	return (uint32_t)u64_min(probe->low, probe->ask.cap);
}

/* The search has ended: on to the posts if there is something to verify. */
static void settle(struct inline_probe *probe, enum inline_event event)
{
	if (probe->granted >= probe->ask.floor && probe->granted > 0) {
		probe->low = (uint32_t)u64_min(probe->granted, INLINE_BYTES_MAX);
		go(probe, event, INLINE_VERIFY);
		return;
	}
	if (event == INLINE_EV_BROKE)
		probe->reason = INLINE_STOPPED;
	else if (event == INLINE_EV_GRANTED && probe->granted == 0)
		probe->reason = INLINE_NOT_GRANTED;
	else
		probe->reason = INLINE_BELOW_FLOOR;
	go(probe, event, INLINE_OVER);
}

/* Halvings that leave one of @width sizes. */
static uint32_t halvings(uint32_t width)
{
	uint32_t steps = 0;

	for (; width > 1; width -= width / 2)
		steps++;
	return steps;
}

/* Whether the search stays within its bounds even if @hint turns out wrong: refused, or granted
 * with one byte more, and halved from there. */
static bool can_afford(const struct inline_probe *probe, uint32_t hint)
{
	uint64_t if_refused = 1 + halvings(hint - probe->low);
	uint64_t if_granted = 2 + halvings(probe->high - hint - 1);

	return probe->creations + u64_max(if_refused, if_granted) <=
	       inline_probe_budget(&probe->ask) + INLINE_HINT_EXCESS;
}

/* The largest hint strictly inside the open interval that can be afforded; 0: none. */
static uint32_t best_hint(const struct inline_probe *probe)
{
	uint32_t best = 0;

	for (uint32_t i = 0; i < probe->ask.n_hints; i++) {
		uint32_t hint = probe->ask.hints[i];

		if (hint > probe->low && hint < probe->high && hint > best &&
		    can_afford(probe, hint))
			best = hint;
	}
	return best;
}

/* One more halving, or the end of them. */
static void bisect(struct inline_probe *probe, enum inline_event event)
{
	if (probe->high - probe->low <= 1) {
		probe->exact = true;
		settle(probe, event);
		return;
	}
	probe->trying = probe->low + (probe->high - probe->low) / 2;
	go(probe, event, INLINE_BISECT);
}

static void base_granted(struct inline_probe *probe)
{
	const struct inline_ask *ask = &probe->ask;

	if (wanted(ask) < ask->floor || wanted(ask) == 0) {
		probe->reason = wanted(ask) == 0 ? INLINE_OFF : INLINE_POLICY_BELOW_FLOOR;
		go(probe, INLINE_EV_GRANTED, INLINE_OVER);
		return;
	}
	probe->trying = wanted(ask);
	go(probe, INLINE_EV_GRANTED, INLINE_WHOLE);
}

void inline_probe_granted(struct inline_probe *probe, uint32_t granted)
{
	uint32_t asked = probe->trying;

	probe->creations++;
	if (probe->state == INLINE_BASE) {
		/* What comes unasked is no promise for a queue pair that asks. */
		base_granted(probe);
		return;
	}
	/* What was just refused can not be granted by asking for less. */
	if (probe->state != INLINE_WHOLE && granted >= probe->high)
		granted = probe->high - 1;
	if (granted < asked || probe->state == INLINE_WHOLE) {
		/* A clamp is the device's own word, even if it has said something else before. */
		probe->granted = granted;
		probe->exact = true;
		settle(probe, INLINE_EV_GRANTED);
		return;
	}
	probe->granted = granted;
	probe->low = granted;
	if (probe->state == INLINE_HINT && probe->high - probe->low > 1) {
		probe->trying = probe->low + 1;
		go(probe, INLINE_EV_GRANTED, INLINE_PROVE);
		return;
	}
	bisect(probe, INLINE_EV_GRANTED);
}

static void refused(struct inline_probe *probe)
{
	uint32_t hint;

	if (probe->state == INLINE_WHOLE) {
		/* Not known to be granted, but all the same: it would be too little. */
		probe->low = probe->ask.floor > 0 ? probe->ask.floor - 1 : 0;
	}
	probe->high = probe->trying;
	hint = best_hint(probe);
	if (hint == 0 || probe->state == INLINE_PROVE || probe->state == INLINE_BISECT) {
		bisect(probe, INLINE_EV_REFUSED);
		return;
	}
	probe->trying = hint;
	go(probe, INLINE_EV_REFUSED, INLINE_HINT);
}

void inline_probe_failed(struct inline_probe *probe, int error)
{
	bool is_refusal = inline_is_refusal(error);

	probe->creations++;
	if (probe->state == INLINE_BASE) {
		probe->error = error;
		probe->reason = error == EOPNOTSUPP ? INLINE_NO_RC : INLINE_NO_QP;
		go(probe, is_refusal ? INLINE_EV_REFUSED : INLINE_EV_BROKE, INLINE_OVER);
	} else if (is_refusal) {
		refused(probe);
	} else {
		probe->error = error;
		settle(probe, INLINE_EV_BROKE);
	}
}

/* Why a size that works is not larger. */
static enum inline_reason why_no_more(const struct inline_probe *probe, uint32_t bytes)
{
	if (probe->error)
		return INLINE_USABLE_STOPPED;
	if (bytes < inline_probe_candidate(probe))
		return INLINE_USABLE_PATH;
	if (probe->granted >= probe->ask.cap && bytes == probe->ask.cap)
		return INLINE_USABLE_CAPPED;
	return probe->granted >= probe->ask.ask ? INLINE_USABLE_ASKED : INLINE_USABLE;
}

void inline_probe_judge(struct inline_probe *probe, enum inline_verdict verdict, uint32_t bytes)
{
	static const uint8_t reasons[] = {
		[INLINE_PATH_FAILED] = INLINE_UNVERIFIED,
		[INLINE_POST_FAILED] = INLINE_POST_REFUSED,
		[INLINE_SEND_FAILED] = INLINE_IGNORED,
		[INLINE_DATA_WRONG] = INLINE_CORRUPT,
	};

	assert(probe->state == INLINE_VERIFY && bytes <= inline_probe_candidate(probe));
	if (verdict != INLINE_VERIFIED) {
		probe->reason = reasons[verdict];
	} else if (bytes < probe->ask.floor || bytes == 0) {
		probe->reason = INLINE_BELOW_FLOOR;
	} else {
		probe->reason = why_no_more(probe, bytes);
		probe->used = bytes;
	}
	go(probe, INLINE_EV_JUDGED, INLINE_OVER);
}

void inline_probe_broke(struct inline_probe *probe, int error)
{
	probe->error = error;
	probe->reason = INLINE_STOPPED;
	go(probe, INLINE_EV_JUDGED, INLINE_OVER);
}

uint32_t inline_probe_budget(const struct inline_ask *ask)
{
	uint32_t low = ask->floor > 0 ? ask->floor - 1 : 0;
	uint32_t high = wanted(ask);

	if (high < ask->floor || high == 0)
		return 1;
	return 2 + halvings(high - low);
}

struct reason_row {
	const char *name;
	const char *text;
	bool good;
};

#define GOOD true
#define BAD false
#define ROW(code, name, good, text) [INLINE_##code] = {name, text, good}

static const struct reason_row rows[] = {
	ROW(PENDING, "pending", BAD, "The probe is not over yet."),
	ROW(USABLE, "usable", GOOD, "Inline works up to the limit of the device."),
	ROW(USABLE_ASKED, "usable_asked", GOOD,
	    "Inline works up to what was asked for; the device may have more."),
	ROW(USABLE_CAPPED, "usable_capped", GOOD,
	    "Inline works up to the cap that the settings have for this device."),
	ROW(USABLE_PATH, "usable_path", GOOD,
	    "Inline works up to the packet size of the path, which this device insists on."),
	ROW(USABLE_STOPPED, "usable_stopped", GOOD,
	    "Inline works up to this size; an error ended the search for more."),
	ROW(NOT_USED, "not_used", BAD, "The settings say not to use this device."),
	ROW(NO_RC, "no_rc", BAD,
	    "no RC: the device has no reliable connections, so it is not used."),
	ROW(NO_QP, "no_qp", BAD,
	    "No queue pair can be created, not even without inline: see the error."),
	ROW(OFF, "off", BAD, "The settings switch inline off for this device."),
	ROW(POLICY_BELOW_FLOOR, "policy_below_floor", BAD,
	    "The settings allow less inline than a control message needs."),
	ROW(NOT_GRANTED, "not_granted", BAD, "The device grants no inline at all."),
	ROW(BELOW_FLOOR, "below_floor", BAD,
	    "The device grants less inline than a control message needs."),
	ROW(STOPPED, "stopped", BAD,
	    "An error that has nothing to do with inline ended the search: see the error."),
	ROW(UNVERIFIED, "unverified", BAD,
	    "Not even an ordinary message got through, so inline could not be verified."),
	ROW(POST_REFUSED, "post_refused", BAD,
	    "The device granted inline, and then refused an inline message of that size."),
	ROW(IGNORED, "ignored", BAD,
	    "The device granted inline, and ignores it: it reads the message from memory."),
	ROW(CORRUPT, "corrupt", BAD, "The device granted inline, and sent something else."),
};

_Static_assert(ARRAY_SIZE(rows) == INLINE_REASON_COUNT, "a row for each code");

bool inline_reason_is_good(enum inline_reason reason)
{
	return reason < INLINE_REASON_COUNT && rows[reason].good;
}

const char *inline_reason_name(enum inline_reason reason)
{
	return reason < INLINE_REASON_COUNT ? rows[reason].name : "invalid";
}

const char *inline_reason_text(enum inline_reason reason)
{
	return reason < INLINE_REASON_COUNT ? rows[reason].text : "The code is not a known one.";
}

const char *inline_state_name(enum inline_state state)
{
	static const char *const names[INLINE_STATE_COUNT] = {
		[INLINE_BASE] = "base",	  [INLINE_WHOLE] = "whole",   [INLINE_HINT] = "hint",
		[INLINE_PROVE] = "prove", [INLINE_BISECT] = "bisect", [INLINE_VERIFY] = "verify",
		[INLINE_OVER] = "over",
	};

	return state < INLINE_STATE_COUNT ? names[state] : "invalid";
}

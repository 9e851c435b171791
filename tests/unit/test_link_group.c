/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/prng.h"
#include "base/util.h"
#include "core/link_group.h"

#include "lib/tap.h"

#define SECOND 1000000000ull

static const uint8_t uuids[2][LINK_UUID_BYTES] = {{1, 2, 3}, {1, 2, 4}};

/* The diagram of core/link_group.h, written down a second time. */
static const struct {
	enum link_place_event event;
	const char *from; /* state names, separated by spaces */
	enum link_place_state to;
	enum link_place_action action;
} rules[] = {
	{LINK_PLACE_EV_DIAL, " empty ", LINK_PLACE_DIALLING, LINK_PLACE_START},
	{LINK_PLACE_EV_STAYS, " empty waiting ", LINK_PLACE_ANSWERING, LINK_PLACE_ACCEPT},
	{LINK_PLACE_EV_STAYS, " dialling crossed ", LINK_PLACE_CROSSED, LINK_PLACE_REJECT},
	{LINK_PLACE_EV_STAYS, " answering ", LINK_PLACE_ANSWERING, LINK_PLACE_REPLACE},
	{LINK_PLACE_EV_STAYS, " up ", LINK_PLACE_UP, LINK_PLACE_REJECT},
	{LINK_PLACE_EV_YIELDS, " empty waiting ", LINK_PLACE_ANSWERING, LINK_PLACE_ACCEPT},
	{LINK_PLACE_EV_YIELDS, " dialling crossed answering ", LINK_PLACE_ANSWERING,
	 LINK_PLACE_REPLACE},
	{LINK_PLACE_EV_YIELDS, " up ", LINK_PLACE_UP, LINK_PLACE_REJECT},
	{LINK_PLACE_EV_REJECTED, " dialling crossed ", LINK_PLACE_WAITING, LINK_PLACE_NOTHING},
	{LINK_PLACE_EV_FAILED, " dialling answering up ", LINK_PLACE_EMPTY, LINK_PLACE_NOTHING},
	{LINK_PLACE_EV_FAILED, " crossed ", LINK_PLACE_WAITING, LINK_PLACE_NOTHING},
	{LINK_PLACE_EV_UP, " dialling crossed answering ", LINK_PLACE_UP, LINK_PLACE_NOTHING},
	{LINK_PLACE_EV_TIME, " waiting ", LINK_PLACE_EMPTY, LINK_PLACE_NOTHING},
};

TAP_CASE(every_state_meets_every_event)
{
	for (enum link_place_state state = 0; state <= LINK_PLACE_STATE_COUNT; state++) {
		for (enum link_place_event ev = 0; ev <= LINK_PLACE_EVENT_COUNT; ev++) {
			enum link_place_state next = LINK_PLACE_STATE_COUNT;
			enum link_place_action action = LINK_PLACE_ACTION_COUNT;
			char name[32] = " ";
			size_t found = ARRAY_SIZE(rules);

			strcat(strcat(name, link_place_state_name(state)), " ");
			for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
				if (rules[i].event == ev && strstr(rules[i].from, name))
					found = i;
			CHECK_EQ(link_place_can(state, ev, &next, &action),
				 found < ARRAY_SIZE(rules));
			CHECK_EQ(next, found < ARRAY_SIZE(rules) ? rules[found].to
								 : LINK_PLACE_STATE_COUNT);
			CHECK_EQ(action, found < ARRAY_SIZE(rules) ? rules[found].action
								   : LINK_PLACE_ACTION_COUNT);
		}
	}
	CHECK_STR(link_place_state_name(LINK_PLACE_STATE_COUNT), "invalid");
}

TAP_CASE(a_daemon_has_no_link_to_itself)
{
	struct link_group group;

	CHECK(!link_group_init(&group, uuids[0], uuids[0], 4));
	CHECK(link_group_init(&group, uuids[0], uuids[1], 4));
	CHECK(group.is_lower);
	CHECK(link_group_init(&group, uuids[1], uuids[0], 4));
	CHECK(!group.is_lower);
}

TAP_CASE(the_lower_stays_for_two_seconds)
{
	struct link_group group;
	uint32_t ours = 0, theirs = 0;

	link_group_init(&group, uuids[0], uuids[1], 4);
	CHECK_EQ(link_group_dial(&group, 7, SECOND, &ours), LINK_PLACE_START);
	CHECK_EQ(link_group_dial(&group, 7, SECOND, &theirs), LINK_PLACE_NOTHING);
	CHECK_EQ(link_group_request(&group, 7, SECOND, &theirs), LINK_PLACE_REJECT);
	CHECK_EQ(link_group_request(&group, 7, 3 * SECOND - 1, &theirs), LINK_PLACE_REJECT);
	CHECK_EQ(link_group_request(&group, 7, 3 * SECOND, &theirs), LINK_PLACE_REPLACE);
	CHECK(ours != theirs);
	/* What comes of ours has no say any more. */
	CHECK(!link_group_result(&group, 7, ours, LINK_PLACE_EV_UP, 3 * SECOND));
	CHECK(!link_group_result(&group, 7, ours, LINK_PLACE_EV_FAILED, 3 * SECOND));
	CHECK(link_group_result(&group, 7, theirs, LINK_PLACE_EV_UP, 3 * SECOND));
	CHECK_EQ(link_group_count(&group), 1);
	CHECK_EQ(link_group_request(&group, 7, 9 * SECOND, &theirs), LINK_PLACE_REJECT);
}

TAP_CASE(the_lower_that_fails_lets_the_other_go_first)
{
	struct link_group group;
	uint32_t ours = 0, theirs = 0;

	link_group_init(&group, uuids[0], uuids[1], 4);
	link_group_dial(&group, 7, SECOND, &ours);
	CHECK_EQ(link_group_request(&group, 7, SECOND, &theirs), LINK_PLACE_REJECT);
	CHECK(link_group_result(&group, 7, ours, LINK_PLACE_EV_FAILED, 2 * SECOND));
	CHECK_EQ(link_group_state(&group, 7), LINK_PLACE_WAITING);
	CHECK_EQ(link_group_dial(&group, 7, 2 * SECOND, &ours), LINK_PLACE_NOTHING);
	CHECK_EQ(link_group_tick(&group, 3 * SECOND), 4 * SECOND);
	CHECK_EQ(link_group_request(&group, 7, 3 * SECOND, &theirs), LINK_PLACE_ACCEPT);
}

TAP_CASE(the_higher_yields_at_once_and_waits_two_seconds_at_most)
{
	struct link_group group;
	uint32_t ours = 0, theirs = 0;

	link_group_init(&group, uuids[1], uuids[0], 4);
	CHECK_EQ(link_group_dial(&group, 7, SECOND, &ours), LINK_PLACE_START);
	CHECK_EQ(link_group_request(&group, 7, SECOND, &theirs), LINK_PLACE_REPLACE);
	link_group_init(&group, uuids[1], uuids[0], 4);
	link_group_dial(&group, 7, SECOND, &ours);
	CHECK(link_group_result(&group, 7, ours, LINK_PLACE_EV_REJECTED, SECOND));
	CHECK_EQ(link_group_tick(&group, 3 * SECOND - 1), 3 * SECOND);
	CHECK_EQ(link_group_dial(&group, 7, 3 * SECOND - 1, &ours), LINK_PLACE_NOTHING);
	CHECK_EQ(link_group_tick(&group, 3 * SECOND), UINT64_MAX);
	CHECK_EQ(link_group_dial(&group, 7, 3 * SECOND, &ours), LINK_PLACE_START);
}

TAP_CASE(a_group_has_so_many_places)
{
	struct link_group group;
	uint32_t attempt;

	for (uint32_t max = 1; max <= LINK_GROUP_MAX; max++) {
		link_group_init(&group, uuids[0], uuids[1], max);
		for (uint32_t i = 0; i < max; i++) {
			CHECK_EQ(link_group_dial(&group, i, 0, &attempt), LINK_PLACE_START);
			link_group_result(&group, i, attempt, LINK_PLACE_EV_UP, 0);
		}
		CHECK_EQ(link_group_count(&group), max);
		CHECK_EQ(link_group_dial(&group, 9, 0, &attempt), LINK_PLACE_FULL);
		CHECK_EQ(link_group_request(&group, 9, 0, &attempt), LINK_PLACE_FULL);
		CHECK(link_group_result(&group, 0, 1, LINK_PLACE_EV_FAILED, 0));
		CHECK_EQ(link_group_request(&group, 9, 0, &attempt), LINK_PLACE_ACCEPT);
		CHECK(link_group_invariant(&group));
	}
}

/* --- two daemons, whose dials take their time, cross, and get lost ---------------------------- */

enum kind { REQUEST, ANSWER, REJECTION, FAILURE };

/* On its way to daemon @to; about the attempts of both. */
struct note {
	uint64_t when_ns;
	enum kind kind;
	unsigned int to;
	uint32_t attempt, peer_attempt;
};

static struct daemons {
	struct link_group group[2];
	uint32_t attempt[2], other[2]; /* of the link that is up, and the peer's number of it */
	struct note notes[64];
	size_t n_notes;
	struct prng prng;
	uint64_t now_ns, slow_ns;
	bool deaf[2]; /* requests to it are lost */
} pair;

static void note(enum kind kind, unsigned int to, uint32_t attempt, uint32_t peer_attempt)
{
	if (pair.n_notes < ARRAY_SIZE(pair.notes))
		pair.notes[pair.n_notes++] =
			(struct note){pair.now_ns + 1 + prng_below(&pair.prng, pair.slow_ns), kind,
				      to, attempt, peer_attempt};
}

static void up(unsigned int at, uint32_t attempt, uint32_t other)
{
	if (!link_group_result(&pair.group[at], 7, attempt, LINK_PLACE_EV_UP, pair.now_ns)) {
		/* Nobody wants it any more: the other end sees it go. */
		note(FAILURE, !at, other, attempt);
		return;
	}
	pair.attempt[at] = attempt;
	pair.other[at] = other;
}

static void request(unsigned int at, uint32_t other)
{
	uint32_t before = 0, attempt = 0;

	for (unsigned int i = 0; i < LINK_GROUP_MAX; i++)
		if (pair.group[at].place[i].state != LINK_PLACE_EMPTY)
			before = pair.group[at].place[i].attempt;
	switch (link_group_request(&pair.group[at], 7, pair.now_ns, &attempt)) {
	case LINK_PLACE_REPLACE:
		/* The attempt that it replaces fails for whoever takes part in it. */
		note(FAILURE, !at, 0, before);
		__attribute__((fallthrough));
	case LINK_PLACE_ACCEPT:
		up(at, attempt, other);
		note(ANSWER, !at, other, attempt);
		break;
	default:
		note(REJECTION, !at, other, 0);
		break;
	}
}

static void take(const struct note *msg)
{
	struct link_group *group = &pair.group[msg->to];

	switch (msg->kind) {
	case REQUEST:
		if (!pair.deaf[msg->to])
			request(msg->to, msg->peer_attempt);
		else
			note(FAILURE, !msg->to, msg->peer_attempt, 0);
		break;
	case ANSWER:
		up(msg->to, msg->attempt, msg->peer_attempt);
		break;
	case REJECTION:
		link_group_result(group, 7, msg->attempt, LINK_PLACE_EV_REJECTED, pair.now_ns);
		break;
	case FAILURE:
		if (msg->attempt)
			link_group_result(group, 7, msg->attempt, LINK_PLACE_EV_FAILED,
					  pair.now_ns);
		else if (pair.other[msg->to] == msg->peer_attempt)
			link_group_result(group, 7, pair.attempt[msg->to], LINK_PLACE_EV_FAILED,
					  pair.now_ns);
		break;
	}
}

static bool agree(void)
{
	return link_group_count(&pair.group[0]) == 1 && link_group_count(&pair.group[1]) == 1 &&
	       pair.attempt[0] == pair.other[1] && pair.attempt[1] == pair.other[0];
}

/* Whoever has nothing dials, now and then. Returns when both have the same link, or never. */
static uint64_t settle(uint64_t until_ns)
{
	while (pair.now_ns < until_ns) {
		pair.now_ns += 1000000;
		for (size_t i = 0; i < pair.n_notes;) {
			struct note due = pair.notes[i];

			if (due.when_ns > pair.now_ns) {
				i++;
				continue;
			}
			pair.notes[i] = pair.notes[--pair.n_notes];
			take(&due);
		}
		for (unsigned int at = 0; at < 2; at++) {
			uint32_t attempt;

			link_group_tick(&pair.group[at], pair.now_ns);
			CHECK(link_group_invariant(&pair.group[at]));
			if (prng_chance(&pair.prng, 5) &&
			    link_group_dial(&pair.group[at], 7, pair.now_ns, &attempt) ==
				    LINK_PLACE_START)
				note(REQUEST, !at, 0, attempt);
		}
		if (agree() && !pair.n_notes)
			return pair.now_ns;
	}
	return UINT64_MAX;
}

static void pair_init(uint64_t seed)
{
	memset(&pair, 0, sizeof(pair));
	prng_init(&pair.prng, seed);
	pair.now_ns = 5 * SECOND;
	pair.slow_ns = 1 + prng_below(&pair.prng, 300000000);
	for (unsigned int at = 0; at < 2; at++)
		link_group_init(&pair.group[at], uuids[at], uuids[!at], 1);
}

TAP_CASE(two_daemons_end_with_one_link)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		pair_init(seed);
		if (settle(pair.now_ns + 60 * SECOND) == UINT64_MAX) {
			tap_diag("seed %lu: %s, %s", seed,
				 link_place_state_name(link_group_state(&pair.group[0], 7)),
				 link_place_state_name(link_group_state(&pair.group[1], 7)));
			tap_check(false, __FILE__, __LINE__, "they end with one link");
			return;
		}
	}
}

TAP_CASE(one_way_is_enough)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		pair_init(seed);
		pair.deaf[seed % 2] = true;
		if (!CHECK(settle(pair.now_ns + 60 * SECOND) != UINT64_MAX))
			return;
	}
}

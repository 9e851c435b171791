/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/prng.h"
#include "core/conn.h"

#include "lib/tap.h"

/* The diagram of core/conn.h, written down a second time: what each event leads to. */
static const struct {
	enum conn_event event;
	const char *from; /* stage names, separated by spaces */
	enum conn_stage to;
} rules[] = {
	{CONN_EV_REGISTER, " tcp ", CONN_REGISTERED},
	{CONN_EV_REFUSE, " registered mapped ", CONN_TCP},
	{CONN_EV_CANCEL, " registered mapped ", CONN_TCP},
	{CONN_EV_PAIR, " registered ", CONN_MAPPED},
	{CONN_EV_PEER, " mapped ", CONN_LANE},
	{CONN_EV_UNPAIR, " mapped ", CONN_TCP},
	{CONN_EV_LEAVE, " lane leaving ", CONN_LEAVING},
	{CONN_EV_DRAIN, " lane leaving ", CONN_TCP},
	{CONN_EV_PIN, " tcp registered mapped pinned ", CONN_PINNED},
	{CONN_EV_CORRUPT, " lane leaving ", CONN_RESET},
	{CONN_EV_CLOSE, " tcp registered mapped lane leaving pinned reset ", CONN_CLOSED},
};

TAP_CASE(every_stage_meets_every_event)
{
	_Static_assert(sizeof(rules) / sizeof(*rules) == CONN_EVENT_COUNT, "a rule per event");

	for (unsigned int i = 0; i < CONN_EVENT_COUNT; i++) {
		for (enum conn_stage stage = 0; stage < CONN_STAGE_COUNT; stage++) {
			enum conn_stage next = CONN_STAGE_COUNT;
			char name[32] = " ";
			bool expected;

			strcat(strcat(name, conn_stage_name(stage)), " ");
			expected = strstr(rules[i].from, name) != NULL;
			CHECK_EQ(conn_can(stage, rules[i].event, &next), expected);
			CHECK_EQ(next, expected ? rules[i].to : CONN_STAGE_COUNT);
		}
	}
}

TAP_CASE(out_of_range_is_refused)
{
	enum conn_stage next;

	CHECK(!conn_can(CONN_STAGE_COUNT, CONN_EV_CLOSE, &next));
	CHECK(!conn_can(CONN_TCP, CONN_EVENT_COUNT, &next));
	CHECK_STR(conn_stage_name(CONN_STAGE_COUNT), "invalid");
}

TAP_CASE(a_refused_event_changes_nothing)
{
	struct conn conn, before;

	conn_init(&conn);
	before = conn;
	CHECK(!conn_apply(&conn, CONN_EV_PEER, REASON_REQUESTED));
	CHECK(memcmp(&conn, &before, sizeof(conn)) == 0);
}

TAP_CASE(a_pin_waits_for_the_end_of_the_lane)
{
	struct conn conn;

	conn_init(&conn);
	CHECK(conn_apply(&conn, CONN_EV_REGISTER, REASON_PROMOTE_WAIT));
	CHECK(conn_apply(&conn, CONN_EV_PAIR, REASON_NONE));
	CHECK_EQ(conn.reason, REASON_NONE);
	CHECK(conn_apply(&conn, CONN_EV_PEER, REASON_NONE));
	conn_pin(&conn, REASON_MSG_OOB);
	CHECK_EQ(conn.stage, CONN_LANE);
	conn_pin(&conn, REASON_FDOPEN); /* the first reason stays */
	CHECK(conn_apply(&conn, CONN_EV_LEAVE, REASON_MSG_OOB));
	CHECK(conn_apply(&conn, CONN_EV_DRAIN, REASON_NONE));
	CHECK_EQ(conn.stage, CONN_PINNED);
	CHECK_EQ(conn.reason, REASON_MSG_OOB);
	CHECK(!conn_apply(&conn, CONN_EV_REGISTER, REASON_PROMOTE_WAIT));
}

TAP_CASE(the_invariant_holds_on_any_path)
{
	struct prng prng;
	struct conn conn;

	prng_init(&prng, 1);
	for (int run = 0; run < 1000; run++) {
		conn_init(&conn);
		for (int step = 0; step < 50; step++) {
			if (prng_chance(&prng, 5))
				conn_pin(&conn, REASON_EXEC);
			else
				conn_apply(&conn,
					   (enum conn_event)prng_below(&prng, CONN_EVENT_COUNT),
					   REASON_REQUESTED);
			if (!CHECK(conn_invariant(&conn)))
				return;
		}
	}
}

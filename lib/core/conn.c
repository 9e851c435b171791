/* SPDX-License-Identifier: MIT */
#include "core/conn.h"

#define NO 0xff

/* stage × event → next stage */
static const uint8_t conn_next[CONN_STAGE_COUNT][CONN_EVENT_COUNT] = {
	/* REGISTER REFUSE CANCEL PAIR PEER UNPAIR LEAVE DRAIN PIN CORRUPT CLOSE */
	[CONN_TCP] = {CONN_REGISTERED, NO, NO, NO, NO, NO, NO, NO, CONN_PINNED, NO, CONN_CLOSED},
	[CONN_REGISTERED] = {NO, CONN_TCP, CONN_TCP, CONN_MAPPED, NO, NO, NO, NO, CONN_PINNED, NO,
			     CONN_CLOSED},
	[CONN_MAPPED] = {NO, CONN_TCP, CONN_TCP, NO, CONN_LANE, CONN_TCP, NO, NO, CONN_PINNED, NO,
			 CONN_CLOSED},
	[CONN_LANE] = {NO, NO, NO, NO, NO, NO, CONN_LEAVING, CONN_TCP, NO, CONN_RESET, CONN_CLOSED},
	[CONN_LEAVING] = {NO, NO, NO, NO, NO, NO, CONN_LEAVING, CONN_TCP, NO, CONN_RESET,
			  CONN_CLOSED},
	[CONN_PINNED] = {NO, NO, NO, NO, NO, NO, NO, NO, CONN_PINNED, NO, CONN_CLOSED},
	[CONN_RESET] = {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, CONN_CLOSED},
	[CONN_CLOSED] = {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
};

void conn_init(struct conn *conn)
{
	*conn = (struct conn){.stage = CONN_TCP, .reason = REASON_NONE, .pin = REASON_NONE};
}

bool conn_can(enum conn_stage stage, enum conn_event event, enum conn_stage *ret_next)
{
	if (stage >= CONN_STAGE_COUNT || event >= CONN_EVENT_COUNT || conn_next[stage][event] == NO)
		return false;
	*ret_next = conn_next[stage][event];
	return true;
}

bool conn_apply(struct conn *conn, enum conn_event event, enum reason reason)
{
	enum conn_stage next;

	if (!conn_can(conn->stage, event, &next))
		return false;
	conn->stage = next;
	if (event == CONN_EV_PIN && conn->pin == REASON_NONE)
		conn->pin = reason != REASON_NONE ? reason : REASON_NOT_ELIGIBLE;
	/* Progress ends the wait that was the reason before. */
	if (reason != REASON_NONE || event == CONN_EV_PAIR || event == CONN_EV_PEER)
		conn->reason = reason;
	if (next == CONN_TCP && conn->pin != REASON_NONE) {
		conn->stage = CONN_PINNED;
		conn->reason = conn->pin;
	}
	return true;
}

void conn_pin(struct conn *conn, enum reason reason)
{
	enum conn_stage next;

	if (conn->pin == REASON_NONE)
		conn->pin = reason;
	if (conn_can(conn->stage, CONN_EV_PIN, &next))
		conn_apply(conn, CONN_EV_PIN, conn->pin);
}

bool conn_invariant(const struct conn *conn)
{
	if (conn->stage >= CONN_STAGE_COUNT || !reason_ok(conn->reason) || !reason_ok(conn->pin))
		return false;
	/* A pin acts at once where there is no lane. */
	if (conn->pin != REASON_NONE)
		return conn->stage >= CONN_LANE;
	return conn->stage != CONN_PINNED;
}

const char *conn_stage_name(enum conn_stage stage)
{
	static const char *const names[CONN_STAGE_COUNT] = {
		[CONN_TCP] = "tcp",	[CONN_REGISTERED] = "registered", [CONN_MAPPED] = "mapped",
		[CONN_LANE] = "lane",	[CONN_LEAVING] = "leaving",	  [CONN_PINNED] = "pinned",
		[CONN_RESET] = "reset", [CONN_CLOSED] = "closed",
	};

	return stage < CONN_STAGE_COUNT ? names[stage] : "invalid";
}

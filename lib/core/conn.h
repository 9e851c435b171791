/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/reason.h"

/*
 * The life of a connection, as its end sees it.
 *
 *            register            pair             peer             leave
 *      TCP ───────────> REGISTERED ────> MAPPED ────────> LANE ──────────> LEAVING
 *       ^ ^                 │               │               │                 │
 *       │ └─refuse, cancel──┘               │               │                 │
 *       └──────────unpair───────────────────┴───────────────┴──────drain──────┘
 *
 *      pin: from every state that is on TCP, or at the end of a lane that is marked for it
 *      corrupt: LANE, LEAVING ──> RESET            close: from everywhere ──> CLOSED
 *
 *   TCP         bytes go over TCP; operations are counted; may be registered
 *   REGISTERED  the daemon looks for the other end; receives and waits also watch the daemon
 *   MAPPED      the own half is mapped, the peer's is not: bytes still go over TCP
 *   LANE        both halves are mapped: the lane switch decides about every byte
 *   LEAVING     as LANE, and both directions are to end
 *   PINNED      on TCP for good, with a reason
 *   RESET       Shunt reset the connection, with a reason
 *   CLOSED      the last descriptor is gone
 */
enum conn_stage {
	CONN_TCP,
	CONN_REGISTERED,
	CONN_MAPPED,
	CONN_LANE,
	CONN_LEAVING,
	CONN_PINNED,
	CONN_RESET,
	CONN_CLOSED,
	CONN_STAGE_COUNT,
};

enum conn_event {
	CONN_EV_REGISTER,
	CONN_EV_REFUSE,
	CONN_EV_CANCEL,
	CONN_EV_PAIR,
	CONN_EV_PEER,
	CONN_EV_UNPAIR,
	CONN_EV_LEAVE,
	CONN_EV_DRAIN,
	CONN_EV_PIN,
	CONN_EV_CORRUPT,
	CONN_EV_CLOSE,
	CONN_EVENT_COUNT,
};

struct conn {
	uint32_t stage;
	uint32_t epoch;	 /* of the lane that is, or was last, mapped; 0: none yet */
	uint32_t reason; /* enum reason: of the last change */
	uint32_t pin;	 /* enum reason: pinned when the lane has ended; REASON_NONE: not */
};

void conn_init(struct conn *conn);

/* Whether @event is possible in @stage, and what it leads to. */
bool conn_can(enum conn_stage stage, enum conn_event event, enum conn_stage *ret_next);

/*
 * Apply @event for @reason. Returns false, with @conn unchanged, where the event is not possible:
 * messages of a daemon that arrive late or twice, or that are lies.
 */
bool conn_apply(struct conn *conn, enum conn_event event, enum reason reason);

/* Pin now if on TCP, else as soon as the lane has ended; the first reason stays. */
void conn_pin(struct conn *conn, enum reason reason);

/* Whether bytes may be in rings: the lane switch has to be asked. */
static inline bool conn_on_lane(const struct conn *conn)
{
	return conn->stage == CONN_LANE || conn->stage == CONN_LEAVING;
}

/* Whether a daemon's message may come at any moment: waits have to watch for it. */
static inline bool conn_is_pending(const struct conn *conn)
{
	return conn->stage == CONN_REGISTERED || conn->stage == CONN_MAPPED;
}

/* What must hold between any two events. For tests: the state lies in memory that a process of
 * another user may share, so that nothing in it is asserted where it is used. */
bool conn_invariant(const struct conn *conn);

const char *conn_stage_name(enum conn_stage stage);

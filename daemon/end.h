/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/ctl.h"
#include "os/tcp.h"
#include "timer.h"

/*
 * One end of a connection, as its client registered it: who holds it, what it is called, where it
 * stands, what it has moved, and what happened to it. It belongs to one session and goes with it.
 * Processes that share a socket by fork, each with a session of its own, have an end each: they are
 * kin, a ring, of which one stands for all where the connection is looked for by its name.
 *
 * An end is idle (on TCP), waiting (dup >= 0: the other end is awaited), or on a lane (coupling or
 * remote set); never two of these.
 */

struct coupling;
struct own_offer;
struct registry;
struct remote_lane;
struct session;

enum history_what {
	HISTORY_SEEN,
	HISTORY_WAITING,
	HISTORY_REFUSED,
	HISTORY_PAIRED,
	HISTORY_READY,
	HISTORY_UNPAIRED,
	HISTORY_ADOPTED,
	HISTORY_ASKED,
	HISTORY_DRAINED,
	HISTORY_STATE,
	HISTORY_LOST,
	HISTORY_RULED,
};

struct history_event {
	uint64_t at_ms; /* wall clock */
	uint32_t epoch; /* 0: none */
	/* HISTORY_LOST: ours, which the lane was on; 0: not known. HISTORY_RULED: the rule's line.
	 */
	uint32_t link;
	uint8_t what;
	uint8_t state; /* HISTORY_STATE; HISTORY_RULED: the rule's number */
	uint16_t reason;
};

/* How far back `shunt why` can look. Chosen: four lanes with their beginnings and ends. */
#define HISTORY_EVENTS 16u

struct history {
	uint32_t count; /* ever noted; the last HISTORY_EVENTS are kept */
	struct history_event events[HISTORY_EVENTS];
};

struct end {
	struct session *session;
	struct list link;		/* session->ends */
	struct list kin;		/* other ends of the same socket; a ring without a head */
	uint64_t session_serial, token; /* together the key of the map by token */
	struct tcp_name name;
	uint64_t cookie;
	int32_t fd; /* the number in the program */

	int dup; /* the TCP socket, only while waiting; else -1 */
	struct timer timer;
	uint32_t next_epoch;
	struct own_offer *offer; /* to the other host, while waiting; NULL: none */

	struct coupling *coupling;
	struct remote_lane *remote; /* instead of it: see remote_ops.h */
	uint8_t side;		    /* in coupling */
	uint8_t rule;	    /* number of the one that keeps it on TCP; 0: none, when last asked */
	bool is_out;	    /* it made the connection */
	uint8_t rule_noted; /* the one that the history knows of, in line rule_line; 0: none */
	uint32_t rule_line;
	uint32_t last_epoch;   /* highest epoch that this end was given */
	struct list asking;    /* session->asks, while it is to be asked… */
	enum reason asked_for; /* … to go back to TCP, for this reason */

	enum ctl_state state;
	enum reason reason;
	struct ctl_totals totals; /* as the client last told */
	uint32_t lanes;
	struct history history;
};

/* Whether @end waits or is on a lane. */
static inline bool end_is_busy(const struct end *end)
{
	return end->dup >= 0 || end->coupling || end->remote;
}

/* The next of the ring of kin; @end itself if it has none. */
static inline struct end *end_next_kin(const struct end *end)
{
	return list_entry(end->kin.next, struct end, kin);
}

/* Append to the history of @end. Never fails. */
void end_note(struct end *end, enum history_what what, enum reason reason, uint32_t epoch);

/* Note which rule keeps @end on TCP. Never fails. */
void end_note_rule(struct end *end);

/* The event that was noted last; there is one (asserted). */
struct history_event *end_last_event(struct end *end);

/* Enter a new state, for a reason, and note it if it is news and came from the client. */
void end_set_state(struct end *end, enum ctl_state state, enum reason reason);

/*
 * Take over totals that a client told. They may only grow; one that shrinks is ignored, and so is
 * nonsense: the figures are the client's own and only ever shown.
 */
void end_set_totals(struct end *end, const struct ctl_totals *totals);

/* What @end has moved until now: what the client told last, and what its lane shows beyond it. */
struct ctl_totals end_totals(const struct end *end);

/* Where @end stands now: the client's word, refined by what its lane's words show. */
enum ctl_state end_state(const struct end *end);

/* What happened, in words; static storage. */
const char *history_text(enum history_what what);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/ctl.h"
#include "core/half.h"

/*
 * A coupling: a lane of one epoch between two ends, as the daemon keeps it.
 *
 * - coupling_begin(): halves and bells are made; each end gets PAIR with its own half and copies of
 *   both bells, which we close.
 * - coupling_mapped(): an end has mapped its half: it is sealed against any other writer, then sent
 *   to the other end (PEER), and our descriptor of it closed.
 * - Complete: both are sent. From here on the lane needs no daemon, nor a descriptor of ours. The
 *   death of a process is told to nobody: whoever holds the lane is kicked (daemon/session.h), and
 *   TCP and the halves say it all.
 * - Before it is complete, whoever leaves takes the lane with it: the other end gets UNPAIR.
 * - coupling_drained(): an end is through with the epoch; the lane is forgotten when both are.
 *
 * A side is held by one process, or by several after a fork: ends that are kin. An adopted lane was
 * made by a predecessor of this daemon: it is complete, and we have no halves of it. It may have
 * one known end only, until the other comes.
 *
 * Our read-only mapping of each half's first page shows how many bytes went over it; its words are
 * the owner's claims and go nowhere but into figures. Adopted lanes have none, and if there are
 * very many lanes the last ones have none either.
 */

struct end;
struct quota_user;
struct server;

struct coupling_side {
	struct end *end;	     /* one that holds it; NULL: left, drained, or not here yet */
	struct quota_user *user;     /* charged for the half; NULL if adopted */
	int half;		     /* until it is sealed and sent, else -1 */
	const struct half_ctl *page; /* NULL: not mapped, see above */
	bool mapped;
	bool drained; /* the end that had this place was through with the lane when it left */
	uint64_t base_tx, base_rx; /* lane bytes of earlier epochs */
};

struct coupling {
	struct server *server;
	struct list link; /* server->couplings */
	uint32_t epoch;
	bool complete;
	bool hinted; /* the end that is alone has been told so */
	uint64_t ring_bytes;
	uint64_t demote_serial; /* of the last request that this lane was told of */
	struct coupling_side sides[2];
};

/*
 * Make a lane for @a and @b, which wait no more and are on none, and send both their part.
 * REASON_NONE, or why it is not possible now: nothing has happened then.
 */
enum reason coupling_begin(struct server *server, struct end *a, struct end *b);

/*
 * @end says that it holds a running lane of @epoch. If kin of it is on that lane, it holds the same
 * side. Else, if @peer, the end at the other side or NULL, is on a lane of that epoch with a free
 * place, @end takes that, and else a new lane is made. 0, or -ENOMEM.
 */
int coupling_adopt(struct server *server, struct end *end, struct end *peer, uint32_t epoch);

/* Whether @end is on a complete lane of @epoch, which another process may hold as well. */
bool coupling_is_on(const struct end *end, uint32_t epoch);

/* Verdicts about a client's message on a lane. */
enum coupling_verdict {
	COUPLING_OK,
	COUPLING_LATE,	/* about a lane that is gone: the message crossed ours; ignore it */
	COUPLING_WRONG, /* no honest client sends it */
};

/* MAPPED of @end. COUPLING_WRONG also if the half can't be sealed, since only its owner can cause
 * it. */
enum coupling_verdict coupling_mapped(struct end *end, uint32_t epoch);

/* DRAINED of @end. */
enum coupling_verdict coupling_drained(struct end *end, uint32_t epoch, enum reason reason);

/*
 * @end goes: it closed, withdrew (REASON_CANCELLED, only possible for an end that never said
 * ready), or (@died) its process died. No-op if it is on no lane.
 */
void coupling_leave(struct end *end, enum reason reason, bool died);

/* The place opposite @end is empty: tell it so (UNPAIR), since the other end asks for a new lane.
 */
void coupling_hint_gone(struct end *end);

/*
 * Whether the other place of @end's lane is empty though nobody has said that he is through with
 * the lane there: @end may wait for somebody who is not coming.
 */
bool coupling_is_alone(const struct end *end);

/* Ask all who hold @end's lane to go back to TCP, and wake them; once per request. */
void coupling_ask_demote(struct end *end, enum reason reason);

/* Raise the lane bytes in @totals to what side @side of the lane shows. */
void coupling_add_live(const struct coupling *coupling, unsigned int side,
		       struct ctl_totals *totals);

/* REGISTERED, MAPPED, RING or LEAVING, by the words of side @side. */
enum ctl_state coupling_live_state(const struct coupling *coupling, unsigned int side);

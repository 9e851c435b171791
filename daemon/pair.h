/* SPDX-License-Identifier: MIT */
#pragma once

#include "core/ctl.h"
#include "os/fd.h"
#include "os/tcp.h"

/*
 * Pairing: who may get a lane with whom.
 *
 * A client proves that a connection is its own by passing the TCP socket itself; everything else
 * is read from the kernel through that descriptor, nothing is believed. Two ends belong together
 * when their names mirror each other in our network namespace and, in one pass with both sockets
 * in hand, both are established without a FIN and the counters fit: what one end's peer has
 * acknowledged the other has received, and what it has received the one has written. (A stale end
 * of a reused port does not fit.) One registration per socket.
 *
 * The first end's socket is kept as a duplicate until the second one comes, at most pair_wait_ms,
 * because both must be read in one pass. A duplicate would hide the FIN of a killed client: the
 * kernel closes the connection only with the last descriptor. That window is safe because the
 * loop watches the client's process and its socket meanwhile, and the duplicate is closed at once
 * when either ends, so the FIN is late by one turn of the loop; a client that closes the
 * connection itself shuts TCP first if it has not had our answer. Nothing outlives the wait: PAIR,
 * REFUSED and REGISTERED with held = 0 all say that the duplicate is closed.
 */

struct end;
struct session;

/* REGISTER: take the TCP socket out of @bag, and pair it or let it wait. */
void pair_register(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag);

/* ADOPT: a lane that runs already; other processes that hold the same end of it keep theirs. */
void pair_adopt(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag);

/* For ends that wait (their dup is there), on behalf of the other host: */

/* Read the facts of @end's socket. REASON_NONE; else why it can't get a lane (any more). */
enum reason pair_read(const struct end *end, struct tcp_facts *ret_facts);

/* Refuse @end. */
void pair_refuse(struct end *end, enum reason reason);

/* Take over the duplicate of @end's socket: it waits no more. The descriptor. */
int pair_take(struct end *end);

/* CANCEL: the end stops waiting, or leaves a lane that is not complete. */
void pair_cancel(struct end *end);

/* CLOSED, or the session's end (@died): @end is freed, and all that it held. */
void pair_forget(struct end *end, enum reason reason, bool died);

/* All ends of @session are forgotten: its process died. */
void pair_session_gone(struct session *session);

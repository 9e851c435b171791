/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "os/tcp.h"

/*
 * Rules (daemon/rule.h) applied to the ends of connections. What the process of a session runs, and
 * in which control group, is learnt once, when it greets.
 *
 * Whom a process runs as and its control group are the kernel's word. What it runs is that only
 * where we may look at the process; else it is the descriptor of its executable that it sent with
 * its greeting. Who lies there gets or loses a lane and nothing else: as would a renamed copy of a
 * program.
 */

struct end;
struct server;
struct session;

/*
 * Learn of the process of @session. @exe_fd: a descriptor of its executable, as it says; -1: none.
 * It stays the caller's. Without memory or access nothing is known. Reads /proc.
 */
void ruling_learn(struct session *session, int exe_fd);

/* Release what was learnt. */
void ruling_forget(struct session *session);

/* Keep in @end what rules ask of its connection beyond its name. @facts: read before a FIN. */
void ruling_set_facts(struct end *end, const struct tcp_facts *facts);

/* Whether a rule keeps @end on TCP; noted in its history, and which one in @end, then. */
bool ruling_keeps(struct end *end);

/* Whether one kept @end on TCP when it was last asked, and it is still there. */
bool ruling_holds(const struct end *end);

/* @end has brought a running lane along, made under a predecessor's rules: ours hold now. */
void ruling_adopted(struct end *end, const struct tcp_facts *facts);

/*
 * The rules of @server have changed: whoever waits for a lane and may not have one is refused,
 * whoever is on one is asked to go back to TCP. Whom the old rules kept asks again by itself.
 */
void ruling_changed(struct server *server);

/* When an end that a rule keeps on TCP may ask again. Chosen: rules change by hand, and one message
 * a minute for a connection in use is nothing. */
#define RULING_RETRY_MS 60000u

/* For history: which rule, and where it is. */
#define RULING_TEXT_BYTES 96
const char *ruling_text(unsigned int number, unsigned int line, char text[RULING_TEXT_BYTES]);

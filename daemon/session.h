/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "core/ctl.h"
#include "core/reason.h"
#include "loop.h"
#include "quota.h"

/*
 * One client: a process that talks to us. Messages in are read with a budget, a rate limit and a
 * full check; messages out never block: what the socket does not take is queued up to a bound, and
 * a client that lets that run over is cut off. Whatever breaks the protocol is cut off, with a
 * rate-limited line in the log. Cutting off is deferred to the loop, so a session stays valid
 * memory during any callback.
 *
 * Each session has a kick, a bell that every sleeper of the client's process watches. It is rung
 * behind a message that may not wait until the client calls, and for a death that may have left a
 * wake-up undone; once a turn of the loop is enough, since whoever wakes looks at everything. The
 * client has an ear of it only, so that it hangs up when we are gone.
 *
 * The session ends with its process, not merely with its socket: a forked child may hold the
 * socket open, and a registration's duplicate of a TCP socket must not outlive its owner.
 */

enum session_phase {
	SESSION_NEW,	/* has not said HELLO */
	SESSION_CLIENT, /* registers connections */
	SESSION_TOOL,	/* asks and demotes */
	SESSION_DOOMED, /* is destroyed as soon as the current callback returns */
};

struct end;
struct server;

struct session {
	struct server *server;
	struct list link; /* server->sessions */
	struct source sock, process;
	struct task doom, kicking;
	int kick;	    /* -1 until WELCOME */
	struct timer timer; /* HELLO is due; later: reading goes on */
	struct list out;
	size_t out_count;
	struct list asks; /* ends to be asked to go back to TCP, when the client has room */
	enum session_phase phase;
	bool paused, hung_up;

	uint64_t serial; /* names the session in hash keys; never reused */
	pid_t pid;
	uid_t uid;
	struct quota_user *user;
	struct bucket messages;
	uint32_t slot; /* in the notice page */
	/* What the process runs, and its control group, for rules; NULL: not known. */
	char *program, *unit;
	struct list ends;
};

/*
 * Serve the client at @fd (taken over), or turn it away with REFUSED.
 */
void session_accept(struct server *server, int fd);

/*
 * Send @msg to @session with @fd_count descriptors (which stay the caller's). A session that can't
 * take it is cut off; a doomed one ignores it. Never blocks.
 */
void session_send(struct session *session, const struct ctl_msg *msg, const int *fds,
		  size_t fd_count);

/* Send REFUSED for @token. @retry_ms: when to ask again, 0 = never. Counts it. */
void session_refuse(struct session *session, uint64_t token, enum reason reason, uint32_t retry_ms);

/* End @session because its client did what @format says. Logs, rate-limited per user. */
__attribute__((format(printf, 2, 3))) void session_cut(struct session *session, const char *format,
						       ...);

/*
 * Ask the client of @end to go back to TCP. All its lanes may be asked for at once, so such a
 * message waits until those before it are out, and is not counted against the client.
 */
void session_ask_demote(struct end *end, enum reason reason);

/* Wake every sleeper of the client, after the current callback. Never fails; a tool has none. */
void session_kick(struct session *session);

/* Make the kick of @session. The client's ear of it, the caller's; or -errno. */
int session_make_kick(struct session *session);

/* Whether the process of @session has died, though we may not have been told yet; dooms it then. */
bool session_is_gone(struct session *session);

/* Destroy all sessions at once: the daemon stops. */
void session_destroy_all(struct server *server);

/* Watch the process of @session, so that the session ends with it. 0, or -errno: it is dead. */
int session_watch_process(struct session *session);

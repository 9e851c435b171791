/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/ctl.h"
#include "os/rundir.h"

/*
 * Asking a daemon: a session that registers nothing, one question, one answer. Everything blocks,
 * for ASK_TIMEOUT_MS at most.
 */

/* Longest wait for an answer. Chosen: a busy daemon needs milliseconds, one that systemd starts on
 * demand a second. */
#define ASK_TIMEOUT_MS 5000

/* The daemon's socket in its runtime directory. */
#define ASK_SOCKET_NAME "shuntd.sock"

/* Verdict of ask_connect(): it answers, but turns us away. */
#define ASK_REFUSED 1

struct asker {
	int fd;
	struct rundir dir;	   /* where it answers */
	struct ctl_welcome policy; /* how it wants things done */
};

/*
 * Greet the daemon in @dir.
 * @ret_reason: set with ASK_REFUSED.
 * Returns 0 (ask_close() later), ASK_REFUSED, or -errno: -ENOENT, -ECONNREFUSED (no daemon),
 * -EPERM (the directory is not to be trusted), -ETIMEDOUT, -EPROTO (it is no shuntd).
 */
int ask_connect(const struct rundir *dir, struct asker *ret_asker, enum reason *ret_reason);

/*
 * Greet the first daemon that answers in the usual places, and name others on stderr. Returns
 * TOOL_OK; or TOOL_NO_DAEMON, TOOL_FAILED after telling the user what was tried.
 */
int ask_open(struct asker *ret_asker);

void ask_close(struct asker *asker);

/*
 * Ask @query. A daemon that is asked too often says so; it is asked again for a while.
 * @ret_text: the JSON text, to be freed by the caller. 0, or -errno: the daemon's (-ESRCH: nothing
 * found), or -ETIMEDOUT, -ECONNRESET, -EPROTO, -ENOMEM.
 */
int ask_query(struct asker *asker, const struct ctl_query_msg *query, char **ret_text);

/*
 * Ask to demote. @ret_count: how many connections were asked. 0; the daemon's -ESRCH (no such
 * client), -ENOENT (it has no such connection on a lane), -EACCES; or as above.
 */
int ask_demote(struct asker *asker, const struct ctl_demote_req *req, uint32_t *ret_count);

/* One query by the first daemon that answers. Returns TOOL_OK, or an exit status after telling. */
int ask_once(const struct ctl_query_msg *query, char **ret_text);

/*
 * The whole of a subcommand that takes --json and nothing else: ask @kind of the first daemon that
 * answers, and show what it says, by @print or as JSON. Returns the exit status.
 */
int ask_and_show(int argc, char **argv, enum ctl_query kind, void (*print)(const json_t *json));

/* Why nobody answers there, in words: for the errors of ask_connect(). */
const char *ask_error_text(int error);

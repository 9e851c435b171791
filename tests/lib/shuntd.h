/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/ctl.h"
#include "core/notice.h"
#include "os/fd.h"

/*
 * A real shuntd ($SHUNTD) in a directory of its own, and sessions with it that speak the protocol
 * by hand, as well or as badly as a test wants.
 */

/* Longest time that anything of the daemon is waited for. Chosen: generous, a sanitizer is slow. */
#define SHUNTD_WAIT_MS 20000

struct shuntd {
	char dir[32];
	pid_t pid;
};

/*
 * Start one with the settings @conf (text of a file). Returns when it answers: true, else the case
 * has failed.
 */
bool shuntd_start(struct shuntd *daemon, const char *conf);

/* Start it again in its directory, after shuntd_kill(). */
bool shuntd_restart(struct shuntd *daemon);

/* End it by @sig and wait for it: the wait status. */
int shuntd_kill(struct shuntd *daemon, int sig);

/* End it in order, check that it ended well, and remove its directory. */
void shuntd_stop(struct shuntd *daemon);

/* Path of file @name in the daemon's directory; static storage. */
const char *shuntd_path(const struct shuntd *daemon, const char *name);

/* Whether the log holds @text, now or within a moment. */
bool shuntd_logged(const struct shuntd *daemon, const char *text);

/* Descriptors that the daemon has open, and mappings of halves that it has. */
int shuntd_count_fds(const struct shuntd *daemon);
int shuntd_count_halves(const struct shuntd *daemon);

/* A number from /proc/PID/status of the daemon, say "VmRSS" or "voluntary_ctxt_switches"; -1. */
long shuntd_status(const struct shuntd *daemon, const char *key);

/* A connection that has said nothing: a blocking SEQPACKET socket, or -errno. */
int shuntd_connect(const struct shuntd *daemon);

/* Say HELLO, await WELCOME. The session's socket, or -1 and the case has failed. */
int shuntd_session(const struct shuntd *daemon, uint32_t flags);

/* As shuntd_session() for a client; also hands out its ear of the session's kick, which is the
 * caller's. */
int shuntd_session_with_kick(const struct shuntd *daemon, int *ret_kick);

/* As shuntd_session(); also maps the notice page and tells the slot. */
int shuntd_session_with_page(const struct shuntd *daemon, struct notice_page **ret_page,
			     uint32_t *ret_slot);

/* Send @msg with @n descriptors: 0, or -errno. */
int msg_send(int sock, const struct ctl_msg *msg, const int *fds, size_t n);

/* The next message within SHUNTD_WAIT_MS: 0; -EPIPE if we were cut off; -ETIMEDOUT. */
int msg_recv(int sock, struct ctl_msg *ret_msg, struct fd_bag *ret_bag);

/* Await a message of @type; anything else fails the case. @ret_bag NULL: descriptors are closed. */
bool msg_expect(int sock, enum ctl_type type, struct ctl_msg *ret_msg, struct fd_bag *ret_bag);

/* Await REFUSED of @token for @reason. */
bool msg_expect_refused(int sock, uint64_t token, enum reason reason);

/* Whether nothing has come for a short while. */
bool msg_is_silent(int sock);

/* Await the end of the session; messages before it are dropped. */
bool msg_expect_cut(int sock);

/* REGISTER @fd as @token, for @epoch at the least. */
void msg_register(int sock, uint64_t token, int fd, uint32_t epoch);

/* Answer of a query as text, to be freed; NULL and the case has failed. */
char *msg_query(int sock, enum ctl_query kind, int32_t pid, int32_t fd);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The service manager: what is told to it (sd_notify(3)), what it passes at the start, and what it
 * keeps for a successor while we live (FDSTORE=1). Without a manager, or built without systemd,
 * nothing is told, passed or kept. The loop's.
 */

/* Longest name of what is kept, terminator included. All names go into one environment variable,
 * of 128 KiB at most (MAX_ARG_STRLEN of the kernel): so they are short. */
#define MANAGER_NAME_BYTES 8

/* Most that is kept: that many names, each with a colon, fill the variable. */
#define MANAGER_KEPT_MAX 16000u

struct manager_kept {
	char name[MANAGER_NAME_BYTES];
	int fd; /* to be received from, once */
};

/* What was passed. */
struct manager_fds {
	int listener; /* a listening SEQPACKET unix socket, non-blocking; -1: none */
	struct manager_kept *kept;
	size_t n_kept;
};

/* Tell it @state, lines NAME=value. */
void manager_tell(const char *state);

/*
 * Take what it has passed; the variables that told of it are gone then, so that no child takes it
 * for its own. @ret_fds: the caller's, until manager_fds_close(). 0, -EPROTO for more than one
 * listener (all is closed then), -ENOMEM. What is neither is closed, and logged.
 */
int manager_take(struct manager_fds *ret_fds);

/* Close and free all that is left. */
void manager_fds_close(struct manager_fds *fds);

/* Whether there is one that listens, and may keep something. */
bool manager_is_there(void);

/*
 * Have it keep a message of @len bytes with @n_fds descriptors (which stay ours, too), of which
 * @ret_name is the name. The successor receives it from the descriptor that it is passed. 0, or
 * -errno; whether the manager wanted it nobody tells.
 */
int manager_keep(const void *record, size_t len, const int *fds, size_t n_fds,
		 char ret_name[MANAGER_NAME_BYTES]);

/* Keep it no more. An empty @name: nothing. */
void manager_forget(const char *name);

/* Keep nothing of what was passed any more; logged, if there is something. */
void manager_give_up(const struct manager_fds *fds);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "os/rundir.h"

/*
 * The place where the daemon is found: its directory, the lock that keeps a second daemon out of
 * it, and the socket that clients connect to. The lock is taken before the socket is touched, so
 * the socket of a dead daemon may be replaced, that of a living one never.
 */

#define LISTEN_SOCKET_NAME "shuntd.sock"
#define LISTEN_LOCK_NAME "shuntd.lock"

struct place {
	struct rundir dir;
	int dir_fd, lock_fd;
	bool bound; /* the socket file is ours to remove */
};

/*
 * Choose the directory.
 * @override: from the command line, or NULL: from the environment, the system's for root, else the
 * user's. 0, or -EINVAL if the path can't be used (relative, too long), or there is none.
 */
int place_choose(struct place *place, const char *override);

/*
 * Make the directory if need be and take the lock. Verdict PLACE_TAKEN if another daemon has it,
 * with its pid in *@ret_pid (0 if it didn't say); 0; or -errno.
 */
#define PLACE_TAKEN 1
int place_lock(struct place *place, int *ret_pid);

/*
 * A new listening socket at the place. @serve_all: whether other users may connect. The
 * descriptor, or -errno.
 */
int place_listen(struct place *place, bool serve_all);

/* Remove the socket, release the lock. */
void place_leave(struct place *place);

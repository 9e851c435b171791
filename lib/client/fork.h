/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/*
 * fork: parent and child go on with the same sockets, on the same lanes.
 *
 * Before the fork, under the locks that keep everything at rest, the child gets a place among the
 * holders of every socket, so that no moment exists in which two processes have it and one counts.
 * Registrations under way are taken back: what the daemon prepares is for a single holder. The
 * child then finds its places, notes who it is, and does no more until it uses a socket.
 *
 * pthread_atfork() handlers do this, so that forks inside libc (daemon, forkpty) are seen too.
 */

/* Register the handlers; @in_child runs at their end in a child. 0 or -ENOMEM. */
int fork_init(void (*in_child)(void));

/* The same by hand, for forks that run no handlers. */
void fork_prepare(void);
void fork_in_parent(void);
void fork_in_child(void);

/* The last fork of this thread made no child: its places are free again. */
void fork_failed(void);

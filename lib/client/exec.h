/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "client/sock.h"

/*
 * exec: the new image can not map the halves again, so that a socket it is to use goes back to TCP
 * first. It is to use descriptors 0 to 2, and a socket that nobody else holds; any other socket
 * that is open across the exec is taken for a leaked descriptor, and its lane stays with the
 * processes that know it. Sockets that the exec closes are simply closed.
 */

/*
 * Before an exec. @foreign: in a child of vfork(), which may change nothing of what it finds in
 * memory, and for which only descriptors 0 to 2 count, the parent being there. 0, or why a socket
 * could not be handed over; the exec must fail then.
 */
int exec_prepare(bool foreign);

/* The exec has failed. */
void exec_failed(bool foreign);

/* Before a new program is started in a child: its descriptors 0 to 2 come from here. 0 or -errno.
 */
int exec_prepare_spawn(void);

/* In a child of vfork(): descriptor @fd is @sock's now, or (NULL) nobody's that we know. */
void exec_note(int fd, struct sock *sock);

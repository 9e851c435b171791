/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

struct sock;

/*
 * Which of the process's descriptors are tracked sockets. Looking one up costs one load and takes
 * no lock; a socket with several descriptors (dup) stands in several places.
 */

/* Descriptors from here on are never tracked. Chosen: the kernel's default of fs.nr_open. */
#define FDTABLE_SIZE (1u << 20)

extern _Atomic(struct sock *) *fdtable_slots;

int fdtable_init(void);

static inline struct sock *fdtable_get(int fd)
{
	if (!fdtable_slots || (unsigned int)fd >= FDTABLE_SIZE)
		return NULL;
	return atomic_load_explicit(&fdtable_slots[fd], memory_order_acquire);
}

/* One more than the highest number that was ever entered, here or in a table beside this one, which
 * says so by fdtable_reach(). */
unsigned int fdtable_top(void);
void fdtable_reach(int fd);

/* Enter @sock (whose n_fds already counts @fd). -EINVAL if @fd is out of range. */
int fdtable_set(int fd, struct sock *sock);

/* Count one more descriptor of @sock and enter it. */
int fdtable_dup(int fd, struct sock *sock);

/*
 * Take @fd out. *@ret_last tells whether it was the last one of its socket in this process.
 * Returns the socket or NULL.
 */
struct sock *fdtable_remove(int fd, int *ret_last);

/* Around a fork, so that the child finds the table at rest. */
void fdtable_lock(void);
void fdtable_unlock(void);

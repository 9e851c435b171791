/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * What the preload library knows about its process. Before its constructor has run nothing is
 * tracked, and every call goes straight through.
 */
struct shim_state {
	_Atomic bool tracks; /* new sockets are tracked */
	_Atomic pid_t pid;   /* the process that the tables belong to; 0: none yet */
};

extern struct shim_state shim_state;

/* Whether new sockets are tracked; false before the start, and after state_stop(). */
static inline bool state_tracks(void)
{
	return atomic_load_explicit(&shim_state.tracks, memory_order_relaxed);
}

/* This thread's vfork() has a child that has not gone on yet. */
extern __thread int shim_vforked __attribute__((tls_model("initial-exec")));

/*
 * Whether the caller is another process on this process's memory, a child of vfork() before its
 * exec: it must not touch the tables.
 */
static inline bool state_is_foreign(void)
{
	return shim_vforked;
}

/* The same, and whether it is a child that nobody saw being made. A system call. */
bool state_is_stranger(void);

/* Track the new TCP socket @fd, whatever the table says about that number. */
void state_track(int fd);

/* In a forked child: the tables are this process's now. */
void state_forked(void);

/* The sockets of this process stay on TCP from now on, all that there are included. */
void state_stop(void);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

/*
 * Descriptors: closing, keeping them out of the program's way, and passing them over SEQPACKET
 * unix sockets. All from any thread, async-signal-safe, errno left alone.
 */

/* Most descriptors in one message. Chosen: a registration needs one, a lane five. */
#define FD_PASS_MAX 8u

/* Lowest number that fd_dup_high() gives out. Chosen: programs and shells that wire numbers by
 * hand use 0–9 and sometimes up to 63. */
#define FD_HIGH_MIN 64

/* Highest floor that fd_dup_high() starts from. Chosen: the kernel's table of descriptors grows to
 * the highest number in use, 8 bytes each, and is copied by fork: 64 KiB at most for our sake. */
#define FD_HIGH_FLOOR_MAX 8192

/* Descriptors received with one message; the holder owns them. */
struct fd_bag {
	size_t n;
	int fds[FD_PASS_MAX];
};

/* Close @fd unless it is negative. Never fails, preserves errno. */
void fd_close(int fd);

CLEANUP_DEFINE(fd, int, -1, fd_close);
#define AUTO_FD CLEANUP(cleanup_fd)

/*
 * A duplicate of @fd with close-on-exec and a number in a high range: at or above three quarters of
 * RLIMIT_NOFILE (at most FD_HIGH_FLOOR_MAX), lower when that is full, never below FD_HIGH_MIN.
 * Returns the new descriptor, -EMFILE when no such number is free, -EBADF. @fd stays open.
 */
int fd_dup_high(int fd);

/* As fd_dup_high(), but closes @fd in any case: moves it. A negative @fd is returned as it is. */
int fd_move_high(int fd);

/*
 * Send one message of @len bytes (at least 1) with @n_fds descriptors (at most FD_PASS_MAX, which
 * stay open here) over the SEQPACKET socket @sock. Blocks as the socket does; restarts on EINTR; no
 * SIGPIPE. Returns 0; -EAGAIN; -EPIPE, -ECONNRESET when the peer is gone; -EMSGSIZE when the
 * message does not fit the socket buffer; -ETOOMANYREFS when too many are in flight; -EBADF.
 */
int fd_send(int sock, const void *buf, size_t len, const int *fds, size_t n_fds);

/*
 * Receive one message of at most @cap bytes and at most @max_fds (≤ FD_PASS_MAX) descriptors, which
 * get close-on-exec and belong to the caller in @ret_bag. Blocks as the socket does; restarts on
 * EINTR. Returns the length, 0 at the end of the stream (the peer closed; messages are never
 * empty), or, with every descriptor of the message closed again and the message consumed:
 *   -EMSGSIZE  the message is longer than @cap
 *   -EPROTO    more than @max_fds descriptors, descriptors in an empty message, foreign control
 * data -EMFILE    the kernel could not give us all of them: our own table is full and -EAGAIN,
 * -ECONNRESET with nothing consumed.
 */
ssize_t fd_recv(int sock, void *buf, size_t cap, size_t max_fds, struct fd_bag *ret_bag);

/* Close all descriptors of @bag and empty it. */
void fd_bag_close(struct fd_bag *bag);

/* Move descriptor @i out of @bag; the caller owns it, its place holds -1. */
int fd_bag_take(struct fd_bag *bag, size_t i);

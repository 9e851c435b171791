/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Bytes that an end copies before it tells the other: into the ring, or out of it. Chosen: large
 * enough that telling costs nothing, small enough that both copy at the same time. */
#define IO_CHUNK_BYTES 16384u
/* Flags that change nothing about how bytes are queued, so that the ring can serve them. */
#define IO_TX_RING_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR | MSG_DONTROUTE)

/* A position in a caller's iovec, so that one operation may go on in several pieces. */
struct io {
	const struct iovec *iov;
	size_t n;    /* vectors left, the current one included */
	size_t off;  /* bytes of the current one that are done */
	size_t left; /* bytes left in all */
};

/* -EMSGSIZE for more than IOV_MAX vectors, -EINVAL for more than SSIZE_MAX bytes, as sendmsg(2). */
int io_init(struct io *io, const struct iovec *iov, size_t n);

/* Take the next @len <= io->left bytes from, or put them to, the caller's memory. False: that is
 * not there (EFAULT); the position is anywhere then. */
bool io_gather(struct io *io, uint8_t *dst, size_t len);
bool io_scatter(struct io *io, const uint8_t *src, size_t len);
void io_skip(struct io *io, size_t len);

/* The vectors that are left, at most @cap of them and @limit bytes; returns how many. */
size_t io_rest(const struct io *io, struct iovec *ret_iov, size_t cap, uint64_t limit);

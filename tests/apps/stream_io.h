/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/prng.h"

/*
 * How the stream program moves bytes: by socket calls (which the shim may turn into something
 * faster), or by the native API of Shunt on the same socket. Each operation picks one of several
 * calls by the random numbers it is given. All block; counts or -errno.
 */

struct shunt_stream;

struct stream_io {
	int fd;
	struct shunt_stream *native; /* NULL: socket calls */
	bool simple;		     /* send and recv only */
};

/* What the native API tells at the end; all 0 with socket calls. */
struct stream_lanes {
	unsigned int epoch, demotions, tx_lane, rx_lane;
	uint64_t lane_tx_bytes, lane_rx_bytes;
	char reason[32];
};

/* Take over the connected socket @fd; 0 or -errno. */
int stream_io_open(struct stream_io *io, int fd, bool native);

/* Produces @len bytes from @offset of a direction on, wherever they are to go. */
typedef void stream_fill_fn(void *ctx, uint64_t offset, void *buf, size_t len);

/* Judges @len bytes that arrived for @offset; false ends the stream. */
typedef bool stream_check_fn(void *ctx, uint64_t offset, const void *buf, size_t len);

/* Send some of the @len bytes at @buf, which are those from @offset on: how many. */
ssize_t stream_io_send(struct stream_io *io, struct prng *prng, const void *buf, size_t len);

/* Receive some bytes, at most @len, into @buf: how many, 0 at the end; -EILSEQ: MSG_PEEK showed
 * other bytes than came. */
ssize_t stream_io_recv(struct stream_io *io, struct prng *prng, void *buf, size_t len);

/*
 * Zero copy, where there is any: produce at most @len bytes in place with @fill, or judge in place
 * with @check what has arrived. How many bytes were moved; -EAGAIN: use the calls above;
 * stream_io_consume() only: -EBADMSG when @check said no.
 */
ssize_t stream_io_produce(struct stream_io *io, uint64_t offset, size_t len, stream_fill_fn *fill,
			  void *ctx);
ssize_t stream_io_consume(struct stream_io *io, uint64_t offset, size_t len, stream_check_fn *check,
			  void *ctx);

/* Look at the connection without taking anything from it, and without waiting. */
void stream_io_look(struct stream_io *io);

/* No more bytes from here. */
int stream_io_finish(struct stream_io *io);

void stream_io_lanes(struct stream_io *io, struct stream_lanes *ret_lanes);

int stream_io_close(struct stream_io *io);

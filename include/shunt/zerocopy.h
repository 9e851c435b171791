/* SPDX-License-Identifier: MIT */
#pragma once

#include <shunt/stream.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Zero copy: produce into, and consume from, the rings themselves. At most one thread per direction
 * may have a reservation, or a peek, open, and nobody else may use that direction meanwhile. The
 * memory stays valid until the commit, or the consume, that closes it; a length of 0 gives it up.
 * A lane cannot end while one is open: close it soon.
 *
 * A ring is there only while the stream is promoted, and may go between two calls: use
 * shunt_send() and shunt_recv() whenever these functions say -EAGAIN. They never block, and never
 * touch TCP.
 */

/*
 * Room for at most @len bytes in at most two pieces. Returns how many bytes, and in @ret_iov where
 * (an unused second piece has length 0). -EAGAIN when there is no ring, or no room.
 */
ssize_t shunt_reserve(struct shunt_stream *stream, size_t len, struct iovec ret_iov[2]);

/*
 * Send the first @len bytes of the reservation. 0; -EAGAIN when the ring was left meanwhile:
 * nothing is sent, and the bytes have to go through shunt_send(); -EINVAL when @len is more than
 * was reserved.
 */
int shunt_commit(struct shunt_stream *stream, size_t len);

/*
 * What has arrived, at most @len bytes, without taking it. Returns how many bytes, and where.
 * -EAGAIN when nothing stands in a ring: shunt_recv() knows more.
 */
ssize_t shunt_peek(struct shunt_stream *stream, size_t len, struct iovec ret_iov[2]);

/* Take @len bytes that were peeked at. 0; -EAGAIN when the ring was left meanwhile (they come again
 * through shunt_recv()); -EINVAL when @len is more than there is. */
int shunt_consume(struct shunt_stream *stream, size_t len);

#ifdef __cplusplus
}
#endif

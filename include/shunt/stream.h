/* SPDX-License-Identifier: MIT */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shunt_stream;

/*
 * Make a stream of @fd, a TCP socket (connected, or about to be). From here on read, write, shut
 * down and close it through the stream only; other calls on @fd are fine. The stream starts on
 * plain TCP and is promoted after a few operations (promote_after of the daemon's configuration).
 * @fd stays the caller's until shunt_close(). Does not block.
 * 0; -ENOTSOCK, -EBADF, -EPROTOTYPE for anything but a TCP socket; -EEXIST if @fd has a stream;
 * -ENOMEM.
 */
int shunt_attach(int fd, struct shunt_stream **ret_stream);

/*
 * Bring both directions back to TCP and free the stream; @fd is plain TCP afterwards. Waits for the
 * peer, at most demote_wait_ms (1 s). 0; -ETIMEDOUT, -EBUSY: the stream is still there and usable.
 */
int shunt_detach(struct shunt_stream *stream);

/* Close the stream and its descriptor, as close(2): what was sent arrives first. Returns what
 * close(2) says; the stream is gone in any case. */
int shunt_close(struct shunt_stream *stream);

/*
 * send(2), recv(2), sendmsg(2), recvmsg(2) and shutdown(2) on the stream, with the same flags,
 * partial counts, timeouts (SO_RCVTIMEO, SO_SNDTIMEO), O_NONBLOCK and errors. A wait that a signal
 * interrupts returns -EINTR, whether or not the handler was installed with SA_RESTART. Ancillary
 * data and MSG_OOB pin the connection to TCP. SIGPIPE is raised as by TCP.
 */
ssize_t shunt_send(struct shunt_stream *stream, const void *buf, size_t len, int flags);
ssize_t shunt_recv(struct shunt_stream *stream, void *buf, size_t len, int flags);
ssize_t shunt_sendmsg(struct shunt_stream *stream, const struct msghdr *msg, int flags);
ssize_t shunt_recvmsg(struct shunt_stream *stream, struct msghdr *msg, int flags);
int shunt_shutdown(struct shunt_stream *stream, int how);

/* The descriptor of the stream. */
int shunt_fd(const struct shunt_stream *stream);

#ifdef __cplusplus
}
#endif

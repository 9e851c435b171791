/* SPDX-License-Identifier: MIT */
#pragma once

#include <sys/socket.h>

#include "client/sock.h"

/*
 * A socket's byte stream, wherever its bytes go at the moment: what the native API and the shim
 * call. Results and errors are those of the kernel's call of the same name, as -errno.
 */

/* Start of the library in this process; any number of times. 0 or -ENOMEM. */
int stream_library_init(void);

ssize_t sock_sendmsg(struct sock *sock, const struct msghdr *msg, int flags);
ssize_t sock_recvmsg(struct sock *sock, struct msghdr *msg, int flags);

ssize_t sock_send(struct sock *sock, const void *buf, size_t len, int flags);
ssize_t sock_recv(struct sock *sock, void *buf, size_t len, int flags);

/* shutdown(2). Bytes sent before it arrive before the end of the stream. */
int sock_shutdown(struct sock *sock, int how);

/* Track @fd, a TCP socket. The new object, or NULL: it stays plain TCP. */
struct sock *stream_track(int fd);

/*
 * The descriptor @fd of a tracked socket is about to be closed: if it is the last one here, settle
 * the lane and forget the socket. The caller closes @fd afterwards.
 */
void stream_untrack(int fd);

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <sys/uio.h>

#include "client/stream.h"
#include "os/sys.h"
#include "preload/calls.h"
#include "preload/tracked.h"

/* read, write and their vector forms. */

/* From <linux/fs.h>, which defines more than is wanted. */
#define PWV2_NOWAIT 0x8
#define PWV2_HARMLESS 0x7 /* priority and durability: nothing for a socket */

long call_read(int fd, void *buf, size_t len)
{
	struct sock *sock = tracked(fd);

	if (!sock)
		return CANCELLABLE(sys_read(fd, buf, len));
	/* The kernel answers a read of nothing without looking at the socket. */
	return len ? sock_recv(sock, buf, len, 0) : 0;
}

long call_write(int fd, const void *buf, size_t len)
{
	struct sock *sock = tracked(fd);

	if (!sock)
		return CANCELLABLE(sys_write(fd, buf, len));
	return len || sock->lane.remote ? sock_send(sock, buf, len, 0) : sys_write(fd, buf, 0);
}

long call_read_chk(int fd, void *buf, size_t len, size_t room)
{
	if (len > room)
		abort();
	return call_read(fd, buf, len);
}

/* How many bytes @iov names, or what readv(2) says of it. */
static ssize_t iov_total(const struct iovec *iov, int n)
{
	size_t total = 0;

	if (n < 0 || n > IOV_MAX)
		return -EINVAL;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - total)
			return -EINVAL;
		total += iov[i].iov_len;
	}
	return (ssize_t)total;
}

static long sock_readv(struct sock *sock, const struct iovec *iov, int n, int flags)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
	ssize_t total = iov_total(iov, n);

	return total > 0 ? sock_recvmsg(sock, &msg, flags) : total;
}

static long sock_writev(struct sock *sock, const struct iovec *iov, int n, int flags)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
	ssize_t total = iov_total(iov, n);

	if (total == 0)
		return sys_writev(sock->fd, iov, n);
	return total > 0 ? sock_sendmsg(sock, &msg, flags) : total;
}

long call_readv(int fd, const struct iovec *iov, int n)
{
	struct sock *sock = tracked(fd);

	return sock ? sock_readv(sock, iov, n, 0) : CANCELLABLE(sys_readv(fd, iov, n));
}

long call_writev(int fd, const struct iovec *iov, int n)
{
	struct sock *sock = tracked(fd);

	return sock ? sock_writev(sock, iov, n, 0) : CANCELLABLE(sys_writev(fd, iov, n));
}

/* Whether the call is readv or writev under another name; a position is the kernel's to refuse. */
static bool is_stream_call(off_t at, int flags)
{
	return at == -1 && !(flags & ~(PWV2_NOWAIT | PWV2_HARMLESS));
}

long call_preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	struct sock *sock = tracked(fd);

	if (!sock || !is_stream_call(at, flags))
		return CANCELLABLE(sys_preadv2(fd, iov, n, at, flags));
	return sock_readv(sock, iov, n, flags & PWV2_NOWAIT ? MSG_DONTWAIT : 0);
}

long call_pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	struct sock *sock = tracked(fd);

	if (!sock || !is_stream_call(at, flags))
		return CANCELLABLE(sys_pwritev2(fd, iov, n, at, flags));
	return sock_writev(sock, iov, n, flags & PWV2_NOWAIT ? MSG_DONTWAIT : 0);
}

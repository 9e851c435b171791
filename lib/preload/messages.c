/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "client/demote.h"
#include "client/fdtable.h"
#include "client/stream.h"
#include "os/clock.h"
#include "os/sys.h"
#include "preload/calls.h"
#include "preload/tracked.h"
#include "client/cancel.h"

/* send, recv and their message forms. */

/* Messages of one sendmmsg() or recvmmsg() (UIO_MAXIOV of the kernel). */
#define MMSG_MAX 1024u

long call_send(int fd, const void *buf, size_t len, int flags)
{
	struct sock *sock = tracked(fd);

	if (!sock)
		return CANCELLABLE(sys_sendto(fd, buf, len, flags, NULL, 0));
	if (!len && !sock->lane.remote)
		return sys_sendto(fd, buf, 0, flags, NULL, 0);
	return sock_send(sock, buf, len, flags);
}

long call_recv(int fd, void *buf, size_t len, int flags)
{
	struct sock *sock = tracked(fd);

	if (!sock)
		return CANCELLABLE(sys_recvfrom(fd, buf, len, flags, NULL, NULL));
	return sock_recv(sock, buf, len, flags);
}

long call_recv_chk(int fd, void *buf, size_t len, size_t room, int flags)
{
	if (len > room)
		abort();
	return call_recv(fd, buf, len, flags);
}

/* An address does nothing on a connected stream; on any other state the kernel has the say. */
long call_sendto(int fd, const void *buf, size_t len, int flags, __CONST_SOCKADDR_ARG to,
		 socklen_t to_len)
{
	struct sock *sock = tracked(fd);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	struct msghdr msg = {
		.msg_name = (void *)(uintptr_t)to.__sockaddr__,
		.msg_namelen = to_len,
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};

	if (!sock)
		return CANCELLABLE(sys_sendto(fd, buf, len, flags, to.__sockaddr__, to_len));
	if (!len)
		return sys_sendto(fd, buf, 0, flags, to.__sockaddr__, to_len);
	return sock_sendmsg(sock, &msg, flags);
}

long call_recvfrom(int fd, void *buf, size_t len, int flags, __SOCKADDR_ARG from,
		   socklen_t *from_len)
{
	struct sock *sock = tracked(fd);
	long n;

	if (!sock)
		return CANCELLABLE(sys_recvfrom(fd, buf, len, flags, from.__sockaddr__, from_len));
	n = sock_recv(sock, buf, len, flags);
	if (n >= 0 && from.__sockaddr__ && from_len)
		*from_len = 0; /* a stream names nobody */
	return n;
}

long call_recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags, __SOCKADDR_ARG from,
		       socklen_t *from_len)
{
	if (len > room)
		abort();
	return call_recvfrom(fd, buf, len, flags, from, from_len);
}

/* Sockets that @msg passes to another process are handed over first. 0 or -errno. */
static int hand_over_passed(const struct msghdr *msg)
{
	struct cmsghdr *cmsg;
	int rc = 0;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg && !rc;
	     cmsg = CMSG_NXTHDR((struct msghdr *)(uintptr_t)msg, cmsg)) {
		size_t len = cmsg->cmsg_len > CMSG_LEN(0) ? cmsg->cmsg_len - CMSG_LEN(0) : 0;

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i + sizeof(int) <= len && !rc; i += sizeof(int)) {
			struct sock *sock;
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i, sizeof(fd));
			sock = fdtable_get(fd);
			if (sock)
				rc = demote_handover(sock, REASON_SCM_RIGHTS);
		}
	}
	return rc;
}

long call_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct sock *sock = tracked(fd);
	int rc = 0;

	if (sock)
		return sock_sendmsg(sock, msg, flags);
	if (fdtable_slots && msg && msg->msg_control)
		rc = hand_over_passed(msg);
	return rc ? rc : CANCELLABLE(sys_sendmsg(fd, msg, flags));
}

long call_recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct sock *sock = tracked(fd);

	return sock ? sock_recvmsg(sock, msg, flags) : CANCELLABLE(sys_recvmsg(fd, msg, flags));
}

long call_sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	struct sock *sock = tracked(fd);
	unsigned int done;
	long rc = 0;

	for (unsigned int i = 0; !sock && fdtable_slots && i < n && i < MMSG_MAX && !rc; i++)
		if (msgs[i].msg_hdr.msg_control)
			rc = hand_over_passed(&msgs[i].msg_hdr);
	if (rc)
		return rc;
	if (!sock)
		return CANCELLABLE(sys_sendmmsg(fd, msgs, n, flags));
	for (done = 0; done < n && done < MMSG_MAX; done++) {
		rc = sock_sendmsg(sock, &msgs[done].msg_hdr, flags);
		if (rc < 0)
			break;
		msgs[done].msg_len = (unsigned int)rc;
	}
	return done ? (long)done : rc;
}

/* The time limit is looked at between two messages only, as the kernel does. */
long call_recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		   struct timespec *timeout)
{
	struct sock *sock = tracked(fd);
	uint64_t end_ns = UINT64_MAX;
	unsigned int done;
	long rc = 0;

	if (!sock)
		return CANCELLABLE(sys_recvmmsg(fd, msgs, n, flags, timeout));
	if (timeout &&
	    (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec > 999999999))
		return -EINVAL;
	if (timeout)
		end_ns = clock_now_ns() + (uint64_t)timeout->tv_sec * 1000000000u +
			 (uint64_t)timeout->tv_nsec;
	for (done = 0; done < n && done < MMSG_MAX; done++) {
		rc = sock_recvmsg(sock, &msgs[done].msg_hdr, flags & ~MSG_WAITFORONE);
		if (rc < 0)
			break;
		msgs[done].msg_len = (unsigned int)rc;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (end_ns != UINT64_MAX && clock_now_ns() >= end_ns) {
			done++;
			break;
		}
	}
	if (timeout) {
		uint64_t now = clock_now_ns();
		uint64_t left = now < end_ns ? end_ns - now : 0;

		timeout->tv_sec = (time_t)(left / 1000000000u);
		timeout->tv_nsec = (long)(left % 1000000000u);
	}
	return done ? (long)done : rc;
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <time.h>

#include "os/sysraw.h"

/*
 * System calls that a preload library interposes, without the library: each sys_x() is x(2) with
 * its parameters, returns the result or -errno and leaves errno alone. All code below the shim
 * uses these. None restarts on EINTR, none is a cancellation point. The callers are the kernel's
 * whole contract: see the man page of x(2).
 */

/* Descriptors */

static inline int sys_close(int fd)
{
	return (int)SYS_CALL(close, fd);
}

static inline int sys_dup(int fd)
{
	return (int)SYS_CALL(dup, fd);
}

static inline int sys_dup3(int from, int to, int flags)
{
	return (int)SYS_CALL(dup3, from, to, flags);
}

static inline int sys_fcntl(int fd, int cmd, long arg)
{
	return (int)SYS_CALL(fcntl, fd, cmd, arg);
}

static inline int sys_ioctl(int fd, unsigned long req, void *arg)
{
	return (int)SYS_CALL(ioctl, fd, req, arg);
}

static inline int sys_openat(int dir, const char *path, int flags, mode_t mode)
{
	return (int)SYS_CALL(openat, dir, path, flags, mode);
}

static inline int sys_fstat(int fd, struct stat *ret_stat)
{
	return (int)SYS_CALL(fstat, fd, ret_stat);
}

static inline int sys_fstatat(int dir, const char *path, struct stat *ret_stat, int flags)
{
	return (int)SYS_CALL(newfstatat, dir, path, ret_stat, flags);
}

static inline int sys_fstatfs(int fd, struct statfs *ret_stat)
{
	return (int)SYS_CALL(fstatfs, fd, ret_stat);
}

static inline int sys_mkdirat(int dir, const char *path, mode_t mode)
{
	return (int)SYS_CALL(mkdirat, dir, path, mode);
}

static inline int sys_unlinkat(int dir, const char *path, int flags)
{
	return (int)SYS_CALL(unlinkat, dir, path, flags);
}

static inline int sys_fchmodat(int dir, const char *path, mode_t mode)
{
	return (int)SYS_CALL(fchmodat, dir, path, mode);
}

static inline int sys_flock(int fd, int operation)
{
	return (int)SYS_CALL(flock, fd, operation);
}

static inline ssize_t sys_readlinkat(int dir, const char *path, char *buf, size_t len)
{
	return SYS_CALL(readlinkat, dir, path, buf, len);
}

static inline int sys_memfd_create(const char *name, unsigned int flags)
{
	return (int)SYS_CALL(memfd_create, name, flags);
}

static inline int sys_fallocate(int fd, int mode, off_t from, off_t len)
{
	return (int)SYS_CALL(fallocate, fd, mode, from, len);
}

static inline int sys_ftruncate(int fd, off_t len)
{
	return (int)SYS_CALL(ftruncate, fd, len);
}

static inline int sys_pipe2(int ret_fds[2], int flags)
{
	return (int)SYS_CALL(pipe2, ret_fds, flags);
}

static inline int sys_eventfd2(unsigned int count, int flags)
{
	return (int)SYS_CALL(eventfd2, count, flags);
}

static inline int sys_pidfd_open(pid_t pid, unsigned int flags)
{
	return (int)SYS_CALL(pidfd_open, pid, flags);
}

static inline int sys_prlimit(pid_t pid, int what, const struct rlimit *set, struct rlimit *ret_old)
{
	return (int)SYS_CALL(prlimit64, pid, what, set, ret_old);
}

/* Bytes */

static inline ssize_t sys_read(int fd, void *buf, size_t len)
{
	return SYS_CALL(read, fd, buf, len);
}

static inline ssize_t sys_write(int fd, const void *buf, size_t len)
{
	return SYS_CALL(write, fd, buf, len);
}

static inline ssize_t sys_readv(int fd, const struct iovec *iov, int n)
{
	return SYS_CALL(readv, fd, iov, n);
}

static inline ssize_t sys_writev(int fd, const struct iovec *iov, int n)
{
	return SYS_CALL(writev, fd, iov, n);
}

static inline ssize_t sys_preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	return SYS_CALL(preadv2, fd, iov, n, at, 0, flags);
}

static inline ssize_t sys_pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	return SYS_CALL(pwritev2, fd, iov, n, at, 0, flags);
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return SYS_CALL(recvmsg, fd, msg, flags);
}

static inline ssize_t sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return SYS_CALL(sendmsg, fd, msg, flags);
}

static inline int sys_recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
			       struct timespec *timeout)
{
	return (int)SYS_CALL(recvmmsg, fd, msgs, n, flags, timeout);
}

static inline int sys_sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	return (int)SYS_CALL(sendmmsg, fd, msgs, n, flags);
}

static inline ssize_t sys_recvfrom(int fd, void *buf, size_t len, int flags,
				   struct sockaddr *ret_from, socklen_t *ret_from_len)
{
	return SYS_CALL(recvfrom, fd, buf, len, flags, ret_from, ret_from_len);
}

static inline ssize_t sys_sendto(int fd, const void *buf, size_t len, int flags,
				 const struct sockaddr *to, socklen_t to_len)
{
	return SYS_CALL(sendto, fd, buf, len, flags, to, to_len);
}

/* Sockets */

static inline int sys_socket(int domain, int type, int protocol)
{
	return (int)SYS_CALL(socket, domain, type, protocol);
}

static inline int sys_socketpair(int domain, int type, int protocol, int ret_fds[2])
{
	return (int)SYS_CALL(socketpair, domain, type, protocol, ret_fds);
}

static inline int sys_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return (int)SYS_CALL(bind, fd, addr, len);
}

static inline int sys_listen(int fd, int backlog)
{
	return (int)SYS_CALL(listen, fd, backlog);
}

static inline int sys_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return (int)SYS_CALL(connect, fd, addr, len);
}

static inline int sys_accept4(int fd, struct sockaddr *ret_addr, socklen_t *ret_len, int flags)
{
	return (int)SYS_CALL(accept4, fd, ret_addr, ret_len, flags);
}

static inline int sys_shutdown(int fd, int how)
{
	return (int)SYS_CALL(shutdown, fd, how);
}

static inline int sys_getsockname(int fd, struct sockaddr *ret_addr, socklen_t *ret_len)
{
	return (int)SYS_CALL(getsockname, fd, ret_addr, ret_len);
}

static inline int sys_getpeername(int fd, struct sockaddr *ret_addr, socklen_t *ret_len)
{
	return (int)SYS_CALL(getpeername, fd, ret_addr, ret_len);
}

static inline int sys_getsockopt(int fd, int level, int opt, void *ret_val, socklen_t *ret_len)
{
	return (int)SYS_CALL(getsockopt, fd, level, opt, ret_val, ret_len);
}

static inline int sys_setsockopt(int fd, int level, int opt, const void *val, socklen_t len)
{
	return (int)SYS_CALL(setsockopt, fd, level, opt, val, len);
}

/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "os/fd.h"
#include "os/sys.h"

/* Most descriptors that the kernel lets one message carry (SCM_MAX_FD, include/net/scm.h). With
 * room for all of them, truncated control data means that our own table is full. */
#define FD_KERNEL_MAX 253u

union fd_control {
	char buf[CMSG_SPACE(FD_KERNEL_MAX * sizeof(int))];
	struct cmsghdr align;
};

void fd_close(int fd)
{
	if (fd >= 0)
		sys_close(fd);
}

int fd_dup_high(int fd)
{
	struct rlimit limit;
	uint64_t floor;
	int ret;

	ret = sys_prlimit(0, RLIMIT_NOFILE, NULL, &limit);
	if (ret < 0)
		return ret;
	floor = u64_min(limit.rlim_cur - limit.rlim_cur / 4, FD_HIGH_FLOOR_MAX);
	for (;;) {
		floor = u64_max(floor, FD_HIGH_MIN);
		ret = sys_fcntl(fd, F_DUPFD_CLOEXEC, (long)floor);
		/* EINVAL: the floor is above the limit. */
		if (ret != -EMFILE && ret != -EINVAL)
			return ret;
		if (floor == FD_HIGH_MIN)
			return -EMFILE;
		floor /= 2;
	}
}

int fd_move_high(int fd)
{
	int high;

	if (fd < 0)
		return fd;
	high = fd_dup_high(fd);
	fd_close(fd);
	return high;
}

int fd_send(int sock, const void *buf, size_t len, const int *fds, size_t n_fds)
{
	union {
		char buf[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {(void *)buf, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t sent;

	assert(len > 0 && n_fds <= FD_PASS_MAX);
	if (n_fds > 0) {
		struct cmsghdr *cmsg = &control.align;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, n_fds * sizeof(int));
	}
	do {
		sent = sys_sendmsg(sock, &msg, MSG_NOSIGNAL);
	} while (sent == -EINTR);
	if (sent < 0)
		return (int)sent;
	return (size_t)sent == len ? 0 : -EMSGSIZE;
}

/*
 * Put the descriptors of @msg into @bag and close those for which there is no room. The kernel
 * wrote the control data, so its lengths are believed. Returns how many there were, or -EPROTO when
 * something else came along.
 */
static ssize_t fd_collect(struct msghdr *msg, struct fd_bag *bag)
{
	struct cmsghdr *cmsg;
	size_t total = 0;
	bool foreign = false;

	bag->n = 0;
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS) {
			foreign = true;
			continue;
		}
		for (size_t i = 0; i < n; i++, total++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
			if (bag->n < FD_PASS_MAX)
				bag->fds[bag->n++] = fd;
			else
				fd_close(fd);
		}
	}
	return foreign ? -EPROTO : (ssize_t)total;
}

ssize_t fd_recv(int sock, void *buf, size_t cap, size_t max_fds, struct fd_bag *ret_bag)
{
	union fd_control control;
	struct iovec iov = {buf, cap};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf)};
	struct fd_bag bag;
	ssize_t len, total;
	int err = 0;

	assert(cap > 0 && max_fds <= FD_PASS_MAX);
	do {
		len = sys_recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (len == -EINTR);
	if (len < 0)
		return len;
	total = fd_collect(&msg, &bag);
	if (msg.msg_flags & MSG_TRUNC)
		err = -EMSGSIZE;
	else if (total < 0 || (size_t)total > max_fds || (len == 0 && total > 0))
		err = -EPROTO;
	else if (msg.msg_flags & MSG_CTRUNC)
		err = -EMFILE;
	if (err) {
		fd_bag_close(&bag);
		return err;
	}
	*ret_bag = bag;
	return len;
}

void fd_bag_close(struct fd_bag *bag)
{
	for (size_t i = 0; i < bag->n; i++)
		fd_close(bag->fds[i]);
	bag->n = 0;
}

int fd_bag_take(struct fd_bag *bag, size_t i)
{
	assert(i < bag->n);
	return TAKE(bag->fds[i], -1);
}

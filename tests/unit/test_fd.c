/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "os/fd.h"
#include "os/sys.h"
#include "os/syswait.h"

#include "lib/child.h"
#include "lib/tap.h"

static int seqpacket(int fds[2])
{
	return sys_socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds);
}

static void close_pair(int fds[2])
{
	fd_close(fds[0]);
	fd_close(fds[1]);
}

/* What a careless or hostile sender does: @n copies of @fd, any number of them. */
static int send_raw(int sock, const char *data, size_t len, int fd, size_t n)
{
	char control[CMSG_SPACE(253 * sizeof(int))] __attribute__((aligned(8))) = {0};
	struct iovec iov = {(void *)data, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *cmsg = (struct cmsghdr *)control;
	ssize_t ret;

	msg.msg_control = control;
	msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(cmsg) + i * sizeof(int), &fd, sizeof(fd));
	ret = sys_sendmsg(sock, &msg, MSG_NOSIGNAL);
	return ret < 0 ? (int)ret : 0;
}

TAP_CASE(sys_calls_return_errors_and_leave_errno)
{
	struct pollfd pfd = {-1, 0, 0};
	struct epoll_event event;
	fd_set set;
	int ep, ev;
	uint64_t one = 1;

	errno = 77;
	CHECK_EQ(sys_close(-1), -EBADF);
	CHECK_EQ(sys_read(-1, NULL, 0), -EBADF);
	CHECK_EQ(sys_poll(&pfd, 1, 0), 0);
	CHECK_EQ(sys_getpid(), getpid());
	CHECK_EQ(sys_gettid(), gettid());
	CHECK_EQ(sys_kill(sys_getpid(), 0), 0);
	ev = sys_eventfd2(0, O_CLOEXEC | O_NONBLOCK);
	CHECK_OK(ev);
	ep = sys_epoll_create1(EPOLL_CLOEXEC);
	CHECK_OK(ep);
	event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 12345};
	CHECK_EQ(sys_epoll_ctl(ep, EPOLL_CTL_ADD, ev, &event), 0);
	CHECK_EQ(sys_epoll_wait(ep, &event, 1, 0), 0);
	CHECK_EQ(sys_write(ev, &one, sizeof(one)), 8);
	CHECK_EQ(sys_epoll_wait(ep, &event, 1, 1000), 1);
	CHECK(event.data.u64 == 12345);
	CHECK_EQ(sys_epoll_pwait2(ep, &event, 1, &(struct timespec){1, 0}, NULL), 1);
	FD_ZERO(&set);
	FD_SET(ev, &set);
	CHECK_EQ(sys_pselect6(ev + 1, &set, NULL, NULL, &(struct timespec){1, 0}, NULL), 1);
	pfd = (struct pollfd){ev, POLLIN, 0};
	CHECK_EQ(sys_poll(&pfd, 1, -1), 1);
	CHECK_EQ(errno, 77);
	fd_close(ev);
	fd_close(ep);
	fd_close(-1);
	CHECK_EQ(errno, 77);
}

TAP_CASE(message_with_descriptors_arrives)
{
	char buf[16];
	struct fd_bag bag;
	int fds[2], in[2] = {STDIN_FILENO, STDOUT_FILENO};
	int before = child_count_fds();
	int taken;

	REQUIRE_OK(seqpacket(fds));
	CHECK_EQ(fd_recv(fds[1], buf, sizeof(buf), 2, &bag), -EAGAIN);
	CHECK_EQ(fd_send(fds[0], "hello", 5, in, 2), 0);
	CHECK_EQ(fd_send(fds[0], "bare", 4, NULL, 0), 0);
	CHECK_EQ(fd_recv(fds[1], buf, sizeof(buf), 2, &bag), 5);
	CHECK(memcmp(buf, "hello", 5) == 0);
	CHECK_EQ(bag.n, 2);
	CHECK(fcntl(bag.fds[0], F_GETFD) & FD_CLOEXEC);
	taken = fd_bag_take(&bag, 1);
	fd_bag_close(&bag);
	CHECK_EQ(bag.n, 0);
	CHECK(fcntl(taken, F_GETFD) & FD_CLOEXEC);
	fd_close(taken);
	CHECK_EQ(fd_recv(fds[1], buf, sizeof(buf), 0, &bag), 4);
	CHECK_EQ(bag.n, 0);
	fd_close(fds[0]);
	CHECK_EQ(fd_recv(fds[1], buf, sizeof(buf), 2, &bag), 0);
	CHECK_EQ(fd_send(fds[1], "late", 4, NULL, 0), -EPIPE);
	fd_close(fds[1]);
	CHECK_EQ(child_count_fds(), before);
}

TAP_CASE(bad_messages_are_refused_without_a_leak)
{
	int before = child_count_fds();
	struct fd_bag bag = {.n = 99};
	char buf[4];
	int fds[2], on = 1;

	REQUIRE_OK(seqpacket(fds));
	CHECK_EQ(send_raw(fds[0], "abcdefgh", 8, STDOUT_FILENO, 2), 0);
	CHECK_EQ(fd_recv(fds[1], buf, sizeof(buf), 2, &bag), -EMSGSIZE);
	for (size_t n = 2; n <= 253; n++) {
		CHECK_EQ(send_raw(fds[0], "abc", 3, STDOUT_FILENO, n), 0);
		CHECK_EQ(fd_recv(fds[1], buf, sizeof(buf), 1, &bag), -EPROTO);
	}
	CHECK_EQ(send_raw(fds[0], "", 0, STDOUT_FILENO, 1), 0);
	CHECK_EQ(fd_recv(fds[1], buf, sizeof(buf), 1, &bag), -EPROTO);
	CHECK_EQ(sys_setsockopt(fds[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	CHECK_EQ(send_raw(fds[0], "abc", 3, STDOUT_FILENO, 1), 0);
	CHECK_EQ(fd_recv(fds[1], buf, sizeof(buf), 1, &bag), -EPROTO);
	CHECK_EQ(fd_recv(fds[1], buf, sizeof(buf), 1, &bag), -EAGAIN);
	CHECK_EQ(bag.n, 99); /* outputs are set on success only */
	close_pair(fds);
	CHECK_EQ(child_count_fds(), before);
}

static void set_limit(rlim_t soft)
{
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = soft;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void full_table(void *arg)
{
	int fds[2], other[2], filler, used = -1;
	struct fd_bag bag;
	char buf[4];

	(void)arg;
	CHECK_OK(seqpacket(fds));
	CHECK_OK(seqpacket(other));
	CHECK_EQ(send_raw(fds[0], "abc", 3, STDOUT_FILENO, 4), 0);
	set_limit(64);
	while ((filler = sys_dup(STDOUT_FILENO)) >= 0)
		used = filler;
	/* Two numbers are free, four descriptors are in the message. */
	fd_close(used);
	fd_close(used - 1);
	CHECK_EQ(fd_recv(fds[1], buf, sizeof(buf), 4, &bag), -EMFILE);
	CHECK_EQ(sys_dup(STDOUT_FILENO), used - 1);
	CHECK_EQ(sys_dup(STDOUT_FILENO), used);
	CHECK_EQ(sys_dup(STDOUT_FILENO), -EMFILE);
}

TAP_CASE(full_table_is_told_apart)
{
	child_run(CHILD_UID_SAME, full_table, NULL);
}

static void high_numbers(void *arg)
{
	int fd, last = -1, n = 0;

	(void)arg;
	CHECK_EQ(fd_dup_high(-1), -EBADF);
	set_limit(4096);
	fd = fd_dup_high(STDOUT_FILENO);
	CHECK_EQ(fd, 3072);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	fd = fd_move_high(fd);
	CHECK_EQ(fd, 3073);
	CHECK_EQ(fcntl(3072, F_GETFD), -1);
	fd_close(fd);
	set_limit(20000);
	fd = fd_dup_high(STDOUT_FILENO);
	CHECK_EQ(fd, FD_HIGH_FLOOR_MAX);
	fd_close(fd);
	/* Downward when the top is full, never below the documented number. */
	set_limit(100);
	while ((fd = fd_dup_high(STDOUT_FILENO)) >= 0) {
		last = fd;
		n++;
		CHECK(fd >= FD_HIGH_MIN && fd < 100);
	}
	CHECK_EQ(fd, -EMFILE);
	CHECK_EQ(n, 100 - FD_HIGH_MIN);
	CHECK_OK(last);
	CHECK_EQ(fd_move_high(sys_dup(STDOUT_FILENO)), -EMFILE);
	set_limit(50);
	CHECK_EQ(fd_dup_high(STDOUT_FILENO), -EMFILE);
	CHECK_EQ(fd_move_high(-EINTR), -EINTR);
}

TAP_CASE(own_descriptors_stay_high)
{
	child_run(CHILD_UID_SAME, high_numbers, NULL);
}

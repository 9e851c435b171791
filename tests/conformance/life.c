/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/conf.h"

/* How streams end, and what a socket says then; time limits. */

static char buf[256];

#define RECV(fd, len, flags)                                                                       \
	say_bytes("recv(" #fd ", " #len ", " #flags ")", buf, recv(fd, buf, len, flags))

/* Wait for the peer's reset. */
static void settle_reset(int fd)
{
	struct pollfd pollfd = {.fd = fd};

	if (poll(&pollfd, 1, 10000) <= 0)
		conf_broken("no reset came");
}

static volatile sig_atomic_t sigpipes;

static void on_sigpipe(int sig)
{
	(void)sig;
	sigpipes++;
}

CONF_CASE(half_close)
{
	struct conf_pair p = conf_pair();

	signal(SIGPIPE, on_sigpipe);
	SAY_RESULT(send(p.a, "last", 4, 0));
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	RECV(p.b, 100, 0);
	RECV(p.b, 100, 0);
	RECV(p.b, 100, 0);
	SAY_RESULT(send(p.b, "answer", 6, 0));
	RECV(p.a, 100, 0);
	SAY_RESULT(send(p.a, "x", 1, MSG_NOSIGNAL));
	SAY_RESULT(sigpipes);
	SAY_RESULT(send(p.a, "x", 1, 0));
	SAY_RESULT(sigpipes);
	SAY_RESULT(write(p.a, "x", 1));
	SAY_RESULT(sigpipes);
	SAY_RESULT(send(p.b, "more", 4, 0));
	RECV(p.a, 100, 0);
	SAY_RESULT(close(p.b));
	RECV(p.a, 100, 0);
	SAY_RESULT(shutdown(p.a, SHUT_WR));
}

CONF_CASE(shut_read)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(send(p.a, "before", 6, 0));
	settle(p.b);
	SAY_RESULT(shutdown(p.b, SHUT_RD));
	RECV(p.b, 100, 0);
	RECV(p.b, 100, 0);
	SAY_RESULT(send(p.b, "out", 3, 0));
	RECV(p.a, 100, 0);
	SAY_RESULT(shutdown(p.b, 5));
	SAY_RESULT(shutdown(p.b, SHUT_RDWR));
	RECV(p.a, 100, 0);
}

CONF_CASE(close_clean)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(send(p.b, "bye", 3, 0));
	SAY_RESULT(close(p.b));
	RECV(p.a, 100, 0);
	RECV(p.a, 100, 0);
	SAY_RESULT(send(p.a, "to nobody", 9, MSG_NOSIGNAL));
	settle_reset(p.a);
	SAY_RESULT(send(p.a, "again", 5, MSG_NOSIGNAL));
	RECV(p.a, 100, 0);
	RECV(p.a, 100, 0);
}

CONF_CASE(close_with_unread)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(send(p.a, "unread", 6, 0));
	settle(p.b);
	SAY_RESULT(close(p.b));
	settle_reset(p.a);
	RECV(p.a, 100, 0);
	RECV(p.a, 100, 0);
	SAY_RESULT(send(p.a, "x", 1, MSG_NOSIGNAL));
}

CONF_CASE(reset_seen_by_send)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(send(p.a, "unread", 6, 0));
	settle(p.b);
	SAY_RESULT(close(p.b));
	settle_reset(p.a);
	SAY_RESULT(send(p.a, "x", 1, MSG_NOSIGNAL));
	SAY_RESULT(send(p.a, "x", 1, MSG_NOSIGNAL));
	RECV(p.a, 100, 0);
}

CONF_CASE(linger_zero)
{
	struct conf_pair p = conf_pair();
	struct linger linger = {1, 0}, got = {0};
	socklen_t len = sizeof(got);

	SAY_RESULT(setsockopt(p.b, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	SAY_RESULT(getsockopt(p.b, SOL_SOCKET, SO_LINGER, &got, &len));
	say("%d %d", got.l_onoff, got.l_linger);
	SAY_RESULT(close(p.b));
	settle_reset(p.a);
	RECV(p.a, 100, 0);
	RECV(p.a, 100, 0);
}

CONF_CASE(linger_long)
{
	struct conf_pair p = conf_pair();
	struct linger linger = {1, 5};

	SAY_RESULT(setsockopt(p.b, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	SAY_RESULT(send(p.b, "last words", 10, 0));
	SAY_RESULT(close(p.b));
	RECV(p.a, 100, 0);
	RECV(p.a, 100, 0);
}

CONF_CASE(so_error_after_reset)
{
	struct conf_pair p = conf_pair();
	int error = -1;
	socklen_t len = sizeof(error);

	SAY_RESULT(getsockopt(p.a, SOL_SOCKET, SO_ERROR, &error, &len));
	say("SO_ERROR %d", error);
	SAY_RESULT(send(p.a, "unread", 6, 0));
	settle(p.b);
	close(p.b);
	settle_reset(p.a);
	SAY_RESULT(getsockopt(p.a, SOL_SOCKET, SO_ERROR, &error, &len));
	say("SO_ERROR %s", strerrorname_np(error));
	RECV(p.a, 100, 0);
}

static void close_it(void *arg)
{
	close(*(int *)arg);
}

CONF_CASE(end_while_reading)
{
	struct conf_pair p = conf_pair();

	later(30, close_it, &p.b);
	RECV(p.a, 100, 0);
	RECV(p.a, 100, 0);
}

static void read_some_and_close(void *arg)
{
	int fd = *(int *)arg;
	char c;

	recv(fd, &c, 1, 0);
	close(fd);
}

CONF_CASE(reset_while_writing)
{
	struct conf_pair p = conf_pair();
	static char bytes[100000];
	ssize_t n;

	later(30, read_some_and_close, &p.b);
	do
		n = send(p.a, bytes, sizeof(bytes), MSG_NOSIGNAL);
	while (n > 0);
	say_result("send, at last", n);
}

CONF_CASE(time_limits)
{
	struct conf_pair p = conf_pair();
	struct timeval limit = {.tv_usec = 50000}, got = {0};
	socklen_t len = sizeof(got);
	static char bytes[100000];
	uint64_t begin;
	ssize_t n;

	SAY_RESULT(setsockopt(p.b, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	begin = now_ms();
	RECV(p.b, 100, 0);
	say("after the time limit: %d", now_ms() - begin >= 48 && now_ms() - begin < 1000);
	SAY_RESULT(send(p.a, "abc", 3, 0));
	begin = now_ms();
	RECV(p.b, 10, MSG_WAITALL);
	say("after the time limit: %d", now_ms() - begin >= 48 && now_ms() - begin < 1000);
	SAY_RESULT(getsockopt(p.b, SOL_SOCKET, SO_RCVTIMEO, &got, &len));
	say("%ld, %d", (long)got.tv_sec, got.tv_usec >= 48000 && got.tv_usec <= 52000);
	limit.tv_usec = 0;
	SAY_RESULT(setsockopt(p.b, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	later(100, close_it, &p.a);
	RECV(p.b, 100, 0);
	later_all_done();
	p = conf_pair();
	limit.tv_usec = 50000;
	SAY_RESULT(setsockopt(p.a, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)));
	do {
		begin = now_ms();
		n = send(p.a, bytes, sizeof(bytes), 0);
	} while (n == sizeof(bytes));
	say("last one short or refused: %d, after the time limit: %d",
	    (n > 0 && n < (ssize_t)sizeof(bytes)) || (n < 0 && errno == EAGAIN),
	    now_ms() - begin >= 40 && now_ms() - begin < 1000);
}

CONF_CASE(not_connected)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int listener = conf_listen();

	RECV(fd, 10, 0);
	SAY_RESULT(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY_RESULT(shutdown(fd, SHUT_RDWR));
	RECV(listener, 10, 0);
	SAY_RESULT(send(listener, "x", 1, MSG_NOSIGNAL));
	SAY_RESULT(close(fd));
	SAY_RESULT(close(fd));
	RECV(fd, 10, 0);
	SAY_RESULT(send(fd, "x", 1, MSG_NOSIGNAL));
}

CONF_CASE(disconnect)
{
	struct conf_pair p = conf_pair();
	struct sockaddr addr = {.sa_family = AF_UNSPEC};

	SAY_RESULT(send(p.a, "abc", 3, 0));
	RECV(p.b, 100, 0);
	SAY_RESULT(connect(p.a, &addr, sizeof(addr)));
	settle_reset(p.b);
	RECV(p.b, 100, 0);
	RECV(p.a, 100, 0);
	SAY_RESULT(send(p.a, "x", 1, MSG_NOSIGNAL));
}

static void write_and_exit(void *arg)
{
	if (!pattern_send(*(int *)arg, 0, 100000))
		_exit(1);
}

static void write_and_die(void *arg)
{
	if (!pattern_send(*(int *)arg, 0, 100000))
		_exit(1);
	kill(getpid(), SIGKILL);
}

/* The child holds @b alone when it ends. */
static void last_words(void (*fn)(void *arg))
{
	struct conf_pair p = conf_pair();
	pid_t pid = fork_child(fn, &p.b);

	close(p.b);
	say_ended("the child", pid);
	say("all bytes right: %d", pattern_recv(p.a, 0, 100000));
	RECV(p.a, 100, 0);
}

CONF_CASE(data_before_exit)
{
	last_words(write_and_exit);
}

CONF_CASE(data_before_kill)
{
	last_words(write_and_die);
}

static void fill(int fd)
{
	static char bytes[100000];
	bool full = false;
	size_t sum = 0;

	for (int i = 0; i < 1000 && !full; i++) {
		ssize_t n = send(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

		full = n < 0;
		if (n > 0)
			sum += (size_t)n;
	}
	say("full: %d %s, some bytes went: %d", full, strerrorname_np(errno), sum > 100000);
}

CONF_CASE(full_then_end)
{
	struct conf_pair p = conf_pair();
	char bytes[50000];
	ssize_t n;

	fill(p.a);
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	do
		n = recv(p.b, bytes, sizeof(bytes), 0);
	while (n > 0);
	say_result("recv, at last", n);
}

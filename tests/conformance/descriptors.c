/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "conformance/conf.h"

/* Descriptors of one socket, options, ioctls. */

static char buf[256];

#define RECV(fd, len, flags)                                                                       \
	say_bytes("recv(" #fd ", " #len ", " #flags ")", buf, recv(fd, buf, len, flags))

/* A byte goes from @from to @to. */
static void say_alive(const char *what, int from, int to)
{
	char c = 0;

	say("%s: %d", what,
	    send(from, "q", 1, MSG_NOSIGNAL) == 1 && recv(to, &c, 1, 0) == 1 && c == 'q');
}

CONF_CASE(dup_and_close)
{
	struct conf_pair p = conf_pair();
	int d = dup(p.a);

	say_alive("by the copy", d, p.b);
	SAY_RESULT(close(p.a));
	say_alive("the first one closed", d, p.b);
	say_alive("back", p.b, d);
	RECV(p.b, 10, MSG_DONTWAIT);
	SAY_RESULT(close(d));
	RECV(p.b, 10, 0);
	SAY_RESULT(dup(-1) < 0 ? errno : 0);
	SAY_RESULT(dup(p.a) < 0 ? errno : 0);
}

CONF_CASE(dup2_over_a_socket)
{
	struct conf_pair p = conf_pair(), q = conf_pair();

	SAY_RESULT(dup2(-1, p.a));
	say_alive("a refused dup2 changes nothing", p.a, p.b);
	SAY_RESULT(dup2(p.a, p.a) == p.a);
	SAY_RESULT(dup2(q.a, p.a) == p.a);
	RECV(p.b, 10, 0);
	say_alive("the new socket", p.a, q.b);
	SAY_RESULT(close(q.a));
	say_alive("the new socket alone", p.a, q.b);
	SAY_RESULT(dup3(p.a, p.a, 0));
	SAY_RESULT(dup3(p.a, q.a, O_APPEND));
	SAY_RESULT(dup3(p.a, q.a, O_CLOEXEC) == q.a);
	SAY_RESULT(fcntl(q.a, F_GETFD));
	SAY_RESULT(fcntl(p.a, F_GETFD));
}

CONF_CASE(fcntl_dup)
{
	struct conf_pair p = conf_pair();
	int d = fcntl(p.a, F_DUPFD, 50);
	int e = fcntl(p.a, F_DUPFD_CLOEXEC, 51);

	say("%d %d", d >= 50, e >= 51);
	SAY_RESULT(fcntl(d, F_GETFD));
	SAY_RESULT(fcntl(e, F_GETFD));
	close(p.a);
	say_alive("by a copy", d, p.b);
	close(d);
	say_alive("by the other", e, p.b);
	close(e);
	RECV(p.b, 10, 0);
}

CONF_CASE(close_everything)
{
	struct conf_pair p = conf_pair(), q = conf_pair();
	int keep = dup2(p.a, 5);
	int keep_b = dup2(p.b, 6);
	int last = dup2(q.b, 7);

	SAY_RESULT(close_range(8, ~0u, 0));
	say_alive("after close_range", keep, keep_b);
	for (int fd = 8; fd < 9000; fd++)
		close(fd);
	say_alive("after closing up to 9000", keep, keep_b);
	closefrom(8);
	say_alive("after closefrom", keep_b, keep);
	settle(last);
	RECV(last, 10, MSG_DONTWAIT);
	close(p.a);
	close(p.b);
	close(q.a);
	close(q.b);
	RECV(last, 10, 0);
	p = conf_pair();
	say_alive("a new connection", p.a, p.b);
	SAY_RESULT(close_range(5, 3, 0));
}

CONF_CASE(counts)
{
	struct conf_pair p = conf_pair();
	int n = -1;

	SAY_RESULT(ioctl(p.b, FIONREAD, &n));
	say("%d", n);
	SAY_RESULT(send(p.a, "abcdef", 6, 0));
	settle(p.b);
	SAY_RESULT(ioctl(p.b, FIONREAD, &n));
	say("%d", n);
	RECV(p.b, 2, 0);
	SAY_RESULT(ioctl(p.b, SIOCINQ, &n));
	say("%d", n);
	RECV(p.b, 4, 0);
	SAY_RESULT(ioctl(p.a, SIOCOUTQ, &n));
	SAY_RESULT(ioctl(p.b, SIOCATMARK, &n));
	say("%d", n);
	SAY_RESULT(sockatmark(p.b));
	SAY_RESULT(ioctl(p.b, 0x1234, &n));
}

CONF_CASE(options)
{
	struct conf_pair p = conf_pair();
	int val;
	socklen_t len;

#define OPTION(level, name, value)                                                                 \
	do {                                                                                       \
		val = value;                                                                       \
		SAY_RESULT(setsockopt(p.a, level, name, &val, sizeof(val)));                       \
		len = sizeof(val);                                                                 \
		SAY_RESULT(getsockopt(p.a, level, name, &val, &len));                              \
		say("%d", val);                                                                    \
		say_alive(#name, p.a, p.b);                                                        \
	} while (0)

	OPTION(IPPROTO_TCP, TCP_NODELAY, 1);
	OPTION(IPPROTO_TCP, TCP_CORK, 0);
	OPTION(SOL_SOCKET, SO_KEEPALIVE, 1);
	OPTION(SOL_SOCKET, SO_KEEPALIVE, 0);
	OPTION(SOL_SOCKET, SO_REUSEADDR, 1);
	OPTION(SOL_SOCKET, SO_OOBINLINE, 1);
	OPTION(SOL_SOCKET, SO_RCVLOWAT, 1);
	OPTION(SOL_SOCKET, SO_PRIORITY, 3);
	len = sizeof(val);
	SAY_RESULT(getsockopt(p.a, SOL_SOCKET, SO_TYPE, &val, &len));
	say("%d", val);
	SAY_RESULT(getsockopt(p.a, SOL_SOCKET, 9999, &val, &len));
	SAY_RESULT(setsockopt(p.a, SOL_SOCKET, 9999, &val, len));
}

CONF_CASE(receive_low_water)
{
	struct conf_pair p = conf_pair();
	int val = 4;
	socklen_t len = sizeof(val);

	SAY_RESULT(setsockopt(p.b, SOL_SOCKET, SO_RCVLOWAT, &val, sizeof(val)));
	SAY_RESULT(getsockopt(p.b, SOL_SOCKET, SO_RCVLOWAT, &val, &len));
	say("%d", val);
	SAY_RESULT(send(p.a, "abcd", 4, 0));
	RECV(p.b, 10, 0);
	say_alive("less than asked for, without waiting", p.b, p.a);
}

CONF_CASE(cork)
{
	struct conf_pair p = conf_pair();
	int on = 1, off = 0;

	SAY_RESULT(send(p.a, "ab", 2, MSG_MORE));
	SAY_RESULT(send(p.a, "cd", 2, 0));
	RECV(p.b, 4, MSG_WAITALL);
	SAY_RESULT(setsockopt(p.a, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)));
	SAY_RESULT(send(p.a, "ef", 2, 0));
	SAY_RESULT(setsockopt(p.a, IPPROTO_TCP, TCP_CORK, &off, sizeof(off)));
	RECV(p.b, 2, MSG_WAITALL);
}

CONF_CASE(names)
{
	struct conf_pair p = conf_pair();
	struct sockaddr_in a_own, a_peer, b_own, b_peer;
	socklen_t len = sizeof(a_own);

	SAY_RESULT(getsockname(p.a, (struct sockaddr *)&a_own, &len));
	SAY_RESULT(getpeername(p.a, (struct sockaddr *)&a_peer, &len));
	SAY_RESULT(getsockname(p.b, (struct sockaddr *)&b_own, &len));
	SAY_RESULT(getpeername(p.b, (struct sockaddr *)&b_peer, &len));
	say("%d %d", memcmp(&a_own, &b_peer, sizeof(a_own)),
	    memcmp(&a_peer, &b_own, sizeof(a_own)));
}

CONF_CASE(urgent)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(send(p.a, "abc", 3, 0));
	SAY_RESULT(send(p.a, "X", 1, MSG_OOB));
	SAY_RESULT(send(p.a, "def", 3, 0));
	settle(p.b);
	pause_ms(20);
	RECV(p.b, 100, 0);
	SAY_RESULT(sockatmark(p.b));
	RECV(p.b, 100, MSG_OOB);
	RECV(p.b, 100, 0);
	RECV(p.b, 100, MSG_OOB);
}

CONF_CASE(timestamps)
{
	struct conf_pair p = conf_pair();
	int on = 1;

	SAY_RESULT(setsockopt(p.b, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on)));
	say_alive("with a time stamp", p.a, p.b);
	SAY_RESULT(setsockopt(p.b, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
	say_alive("with zero copy", p.a, p.b);
	say_alive("and back", p.b, p.a);
}

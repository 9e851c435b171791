/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conformance/conf.h"

/* poll, select and epoll: what is ready, and when. */

static char buf[256];

#define RECV(fd, len, flags)                                                                       \
	say_bytes("recv(" #fd ", " #len ", " #flags ")", buf, recv(fd, buf, len, flags))

#define ALL (POLLIN | POLLOUT | POLLRDHUP | POLLPRI)

static void say_poll(const char *what, int fd, short events, int timeout_ms)
{
	struct pollfd pollfd = {.fd = fd, .events = events};
	int n = poll(&pollfd, 1, timeout_ms);

	say("%s: poll = %d,%s%s%s%s%s%s", what, n, pollfd.revents & POLLIN ? " IN" : "",
	    pollfd.revents & POLLOUT ? " OUT" : "", pollfd.revents & POLLRDHUP ? " RDHUP" : "",
	    pollfd.revents & POLLHUP ? " HUP" : "", pollfd.revents & POLLERR ? " ERR" : "",
	    pollfd.revents & POLLNVAL ? " NVAL" : "");
}

/* Until the end of the peer has come. */
static void settle_end(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLRDHUP};

	if (poll(&pollfd, 1, 10000) <= 0)
		conf_broken("no end came");
}

CONF_CASE(poll_states)
{
	struct conf_pair p = conf_pair();

	say_poll("idle", p.b, ALL, 0);
	SAY_RESULT(send(p.a, "abc", 3, 0));
	say_poll("data", p.b, POLLIN | POLLRDHUP, 1000);
	say_poll("data", p.b, ALL, 0);
	RECV(p.b, 2, 0);
	say_poll("one byte left", p.b, ALL, 0);
	RECV(p.b, 2, 0);
	say_poll("read", p.b, ALL, 0);
	say_poll("read, waiting", p.b, POLLIN, 20);
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	settle_end(p.b);
	say_poll("end", p.b, ALL, 0);
	say_poll("own end", p.a, ALL, 0);
	SAY_RESULT(shutdown(p.b, SHUT_WR));
	settle_end(p.a);
	say_poll("both ends", p.b, ALL, 0);
	say_poll("both ends", p.a, ALL, 0);
	SAY_RESULT(close(p.b));
	say_poll("closed", p.b, ALL, 0);
}

CONF_CASE(poll_reset)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(send(p.a, "unread", 6, 0));
	settle(p.b);
	SAY_RESULT(close(p.b));
	settle_end(p.a);
	say_poll("reset", p.a, ALL, 0);
	RECV(p.a, 10, 0);
	say_poll("reported", p.a, ALL, 0);
	RECV(p.a, 10, 0);
}

static void fill(int fd)
{
	static char bytes[100000];

	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	if (errno != EAGAIN)
		conf_broken("fill");
}

static void drain(void *arg)
{
	char bytes[50000];

	while (recv(*(int *)arg, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		pause_ms(1);
}

CONF_CASE(poll_for_room)
{
	struct conf_pair p = conf_pair();

	fill(p.a);
	pause_ms(50);
	fill(p.a);
	say_poll("full", p.a, POLLOUT, 0);
	later(30, drain, &p.b);
	say_poll("room", p.a, POLLOUT, 10000);
	SAY_RESULT(send(p.a, "x", 1, MSG_DONTWAIT));
}

static void send_byte(void *arg)
{
	send(*(int *)arg, "x", 1, 0);
}

CONF_CASE(poll_waits_for_data)
{
	struct conf_pair p = conf_pair(), q = conf_pair();
	struct pollfd fds[3] = {{.fd = p.b, .events = POLLIN},
				{.fd = -1, .events = POLLIN},
				{.fd = q.b, .events = POLLIN}};

	later(30, send_byte, &q.a);
	SAY_RESULT(poll(fds, 3, 10000));
	say("%d %d %d", fds[0].revents, fds[1].revents, fds[2].revents);
	SAY_RESULT(send(p.a, "y", 1, 0));
	settle(p.b);
	SAY_RESULT(poll(fds, 3, -1));
	say("%d %d %d", fds[0].revents, fds[1].revents, fds[2].revents);
}

/* Programs with more than FD_SETSIZE descriptors allocate larger sets; the calls take them. */
CONF_CASE(select_beyond_fd_setsize)
{
	enum { HIGH = 1500 };
	static unsigned long rd[HIGH / (8 * sizeof(unsigned long)) + 1];
	const size_t bits = 8 * sizeof(*rd);
	struct conf_pair p = conf_pair();
	struct timeval none = {0}, long_time = {.tv_sec = 10};

	SAY_RESULT(dup2(p.b, HIGH));
	close(p.b);
	rd[HIGH / bits] = 1ul << HIGH % bits;
	SAY_RESULT(select(HIGH + 1, (fd_set *)rd, NULL, NULL, &none));
	say("%d", (rd[HIGH / bits] >> HIGH % bits & 1) != 0);
	SAY_RESULT(send(p.a, "x", 1, 0));
	rd[HIGH / bits] = 1ul << HIGH % bits;
	SAY_RESULT(select(HIGH + 1, (fd_set *)rd, NULL, NULL, &long_time));
	say("%d", (rd[HIGH / bits] >> HIGH % bits & 1) != 0);
	RECV(HIGH, 10, 0);
}

CONF_CASE(select_states)
{
	struct conf_pair p = conf_pair();
	struct timeval limit = {.tv_usec = 30000};
	fd_set rd, wr;

#define SETS()                                                                                     \
	do {                                                                                       \
		FD_ZERO(&rd);                                                                      \
		FD_ZERO(&wr);                                                                      \
		FD_SET(p.b, &rd);                                                                  \
		FD_SET(p.b, &wr);                                                                  \
	} while (0)
	SETS();
	SAY_RESULT(select(p.b + 1, &rd, NULL, NULL, &limit));
	say("%d, time left %d", FD_ISSET(p.b, &rd), limit.tv_usec != 0);
	SETS();
	SAY_RESULT(select(p.b + 1, &rd, &wr, NULL, NULL));
	say("%d %d", FD_ISSET(p.b, &rd) != 0, FD_ISSET(p.b, &wr) != 0);
	SAY_RESULT(send(p.a, "x", 1, 0));
	settle(p.b);
	SETS();
	limit = (struct timeval){.tv_sec = 10};
	SAY_RESULT(select(p.b + 1, &rd, &wr, NULL, &limit));
	say("%d %d, time left %d", FD_ISSET(p.b, &rd) != 0, FD_ISSET(p.b, &wr) != 0,
	    limit.tv_sec >= 5);
	RECV(p.b, 10, 0);
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	settle_end(p.b);
	SETS();
	SAY_RESULT(select(p.b + 1, &rd, NULL, NULL, NULL));
	close(p.b);
	SETS();
	SAY_RESULT(select(p.b + 1, &rd, NULL, NULL, NULL));
}

static void say_events(const char *what, int ep, int timeout_ms)
{
	struct epoll_event events[4];
	int n = epoll_wait(ep, events, 4, timeout_ms);

	say("%s: epoll_wait = %d", what, n);
	for (int i = 0; i < n; i++)
		say("  %llu:%s%s%s%s%s", (unsigned long long)events[i].data.u64,
		    events[i].events & EPOLLIN ? " IN" : "",
		    events[i].events & EPOLLOUT ? " OUT" : "",
		    events[i].events & EPOLLRDHUP ? " RDHUP" : "",
		    events[i].events & EPOLLHUP ? " HUP" : "",
		    events[i].events & EPOLLERR ? " ERR" : "");
}

static int ctl(int ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = {.events = events, .data.u64 = data};

	return epoll_ctl(ep, op, fd, &event);
}

CONF_CASE(epoll_level)
{
	struct conf_pair p = conf_pair();
	int ep = epoll_create1(EPOLL_CLOEXEC);

	SAY_RESULT(ctl(ep, EPOLL_CTL_ADD, p.b, EPOLLIN | EPOLLRDHUP, 7));
	SAY_RESULT(ctl(ep, EPOLL_CTL_ADD, p.b, EPOLLIN, 7));
	say_events("idle", ep, 0);
	SAY_RESULT(send(p.a, "abc", 3, 0));
	say_events("data", ep, 1000);
	say_events("data still", ep, 1000);
	RECV(p.b, 2, 0);
	say_events("one left", ep, 1000);
	RECV(p.b, 2, 0);
	say_events("read", ep, 20);
	SAY_RESULT(ctl(ep, EPOLL_CTL_MOD, p.b, EPOLLIN | EPOLLOUT, 8));
	say_events("room", ep, 1000);
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	settle_end(p.b);
	SAY_RESULT(ctl(ep, EPOLL_CTL_MOD, p.b, EPOLLIN | EPOLLRDHUP, 9));
	say_events("end", ep, 1000);
	SAY_RESULT(epoll_ctl(ep, EPOLL_CTL_DEL, p.b, NULL));
	say_events("taken out", ep, 0);
	SAY_RESULT(epoll_ctl(ep, EPOLL_CTL_DEL, p.b, NULL));
	SAY_RESULT(ctl(ep, EPOLL_CTL_MOD, p.b, EPOLLIN, 1));
	SAY_RESULT(ctl(ep, EPOLL_CTL_ADD, -1, EPOLLIN, 1));
	SAY_RESULT(ctl(-1, EPOLL_CTL_ADD, p.b, EPOLLIN, 1));
	SAY_RESULT(ctl(ep, EPOLL_CTL_ADD, ep, EPOLLIN, 1));
}

CONF_CASE(epoll_before_promotion)
{
	struct conf_pair p = conf_connect();
	int ep = epoll_create1(EPOLL_CLOEXEC);

	SAY_RESULT(ctl(ep, EPOLL_CTL_ADD, p.b, EPOLLIN, 1));
	SAY_RESULT(ctl(ep, EPOLL_CTL_ADD, p.a, EPOLLIN, 2));
	conf_promote(&p);
	say_events("idle", ep, 20);
	SAY_RESULT(send(p.a, "x", 1, 0));
	say_events("data", ep, 1000);
	RECV(p.b, 10, 0);
	SAY_RESULT(send(p.b, "x", 1, 0));
	say_events("data", ep, 1000);
	RECV(p.a, 10, 0);
	say_events("idle", ep, 20);
	later(30, send_byte, &p.a);
	say_events("data", ep, 10000);
	SAY_RESULT(close(p.b));
	settle_end(p.a);
	say_events("reset, since a byte was unread", ep, 1000);
}

CONF_CASE(epoll_edge)
{
	struct conf_pair p = conf_pair();
	int ep = epoll_create1(EPOLL_CLOEXEC);

	SAY_RESULT(ctl(ep, EPOLL_CTL_ADD, p.b, EPOLLIN | EPOLLET, 7));
	SAY_RESULT(send(p.a, "abc", 3, 0));
	say_events("data", ep, 1000);
	say_events("no news", ep, 20);
	RECV(p.b, 1, 0);
	say_events("no news", ep, 20);
	SAY_RESULT(send(p.a, "d", 1, 0));
	say_events("more data", ep, 1000);
	settle_bytes(p.b, 3);
	RECV(p.b, 100, 0);
	RECV(p.b, 100, MSG_DONTWAIT);
	SAY_RESULT(send(p.a, "e", 1, 0));
	settle(p.b);
	SAY_RESULT(ctl(ep, EPOLL_CTL_MOD, p.b, EPOLLIN | EPOLLET, 8));
	say_events("after MOD", ep, 1000);
	RECV(p.b, 100, 0);
	SAY_RESULT(ctl(ep, EPOLL_CTL_ADD, p.a, EPOLLOUT | EPOLLET, 9));
	say_events("room", ep, 1000);
	say_events("no news", ep, 20);
	SAY_RESULT(epoll_ctl(ep, EPOLL_CTL_DEL, p.b, NULL));
	fill(p.a);
	later(30, drain, &p.b);
	say_events("room again", ep, 10000);
}

CONF_CASE(epoll_oneshot)
{
	struct conf_pair p = conf_pair();
	int ep = epoll_create1(EPOLL_CLOEXEC);

	SAY_RESULT(ctl(ep, EPOLL_CTL_ADD, p.b, EPOLLIN | EPOLLONESHOT, 7));
	SAY_RESULT(send(p.a, "abc", 3, 0));
	say_events("data", ep, 1000);
	say_events("disarmed", ep, 20);
	SAY_RESULT(send(p.a, "d", 1, 0));
	say_events("disarmed", ep, 20);
	SAY_RESULT(ctl(ep, EPOLL_CTL_MOD, p.b, EPOLLIN | EPOLLONESHOT, 8));
	say_events("armed", ep, 1000);
	settle_bytes(p.b, 4);
	RECV(p.b, 100, 0);
	SAY_RESULT(ctl(ep, EPOLL_CTL_MOD, p.b, EPOLLIN | EPOLLONESHOT, 9));
	later(30, send_byte, &p.a);
	say_events("armed", ep, 10000);
}

CONF_CASE(epoll_of_epoll)
{
	struct conf_pair p = conf_pair();
	int inner = epoll_create1(EPOLL_CLOEXEC), outer = epoll_create1(EPOLL_CLOEXEC);

	SAY_RESULT(ctl(inner, EPOLL_CTL_ADD, p.b, EPOLLIN, 1));
	SAY_RESULT(ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 2));
	say_events("idle", outer, 20);
	say_poll("idle", inner, POLLIN, 0);
	SAY_RESULT(send(p.a, "x", 1, 0));
	say_events("data", outer, 1000);
	say_poll("data", inner, POLLIN, 1000);
	say_events("inner", inner, 1000);
	say_events("data still", outer, 1000);
	RECV(p.b, 10, 0);
	say_events("inner, read", inner, 20);
	say_events("read", outer, 20);
	say_poll("read", inner, POLLIN, 0);
}

CONF_CASE(epoll_two_sets)
{
	struct conf_pair p = conf_pair();
	int one = epoll_create1(EPOLL_CLOEXEC), two = epoll_create1(EPOLL_CLOEXEC);
	int copy;

	SAY_RESULT(ctl(one, EPOLL_CTL_ADD, p.b, EPOLLIN, 1));
	SAY_RESULT(ctl(two, EPOLL_CTL_ADD, p.b, EPOLLIN, 2));
	SAY_RESULT(send(p.a, "x", 1, 0));
	say_events("one", one, 1000);
	say_events("two", two, 1000);
	copy = dup(two);
	close(two);
	say_events("a copy of two", copy, 1000);
	SAY_RESULT(close(one));
	RECV(p.b, 10, 0);
	say_events("a copy of two", copy, 20);
	SAY_RESULT(send(p.a, "x", 1, 0));
	say_events("a copy of two", copy, 1000);
	close(p.b);
	say_events("the socket closed", copy, 20);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conformance/conf.h"

/* One thread is in a call on a socket, and another one does something to it. */

static char buf[256];

#define RECV(fd, len, flags)                                                                       \
	say_bytes("recv(" #fd ", " #len ", " #flags ")", buf, recv(fd, buf, len, flags))

static void shut_both(void *arg)
{
	shutdown(*(int *)arg, SHUT_RDWR);
}

static void shut_write(void *arg)
{
	shutdown(*(int *)arg, SHUT_WR);
}

static void send_byte(void *arg)
{
	send(*(int *)arg, "x", 1, 0);
}

CONF_CASE(shutdown_under_a_reader)
{
	struct conf_pair p = conf_pair();

	later(30, shut_both, &p.b);
	RECV(p.b, 10, 0);
	RECV(p.a, 10, 0);
	later_all_done();
}

CONF_CASE(shutdown_under_a_writer)
{
	struct conf_pair p = conf_pair();
	static char bytes[100000];
	ssize_t n;

	later(100, shut_write, &p.a);
	do
		n = send(p.a, bytes, sizeof(bytes), MSG_NOSIGNAL);
	while (n > 0);
	say_result("send, at last", n);
	later_all_done();
}

CONF_CASE(shutdown_under_a_poller)
{
	struct conf_pair p = conf_pair();
	struct pollfd fd = {.fd = p.b, .events = POLLIN | POLLRDHUP};

	later(30, shut_both, &p.b);
	SAY_RESULT(poll(&fd, 1, 10000));
	say("%#x", fd.revents);
	later_all_done();
}

static void close_it(void *arg)
{
	close(*(int *)arg);
}

/* The kernel's call goes on with the socket that it began with. (ThreadSanitizer objects to such a
 * program.) */
CONF_CASE(close_under_a_reader)
{
#ifndef __SANITIZE_THREAD__
	struct conf_pair p = conf_pair();

	later(30, close_it, &p.b);
	later(100, send_byte, &p.a);
	RECV(p.b, 10, 0);
	later_all_done();
	RECV(p.a, 10, 0);
	RECV(p.b, 10, 0);
#endif
}

CONF_CASE(close_under_a_poller)
{
	struct conf_pair p = conf_pair();
	struct pollfd fd = {.fd = p.b, .events = POLLIN};

	later(30, close_it, &p.b);
	SAY_RESULT(poll(&fd, 1, 1000));
	say("%#x", fd.revents);
	later_all_done();
	RECV(p.a, 10, 0);
}

static void put_null_over(void *arg);

/* As the JDK closes a socket: other threads are woken by a signal then, and see a file. */
CONF_CASE(dup2_under_a_reader)
{
	struct conf_pair p = conf_pair();

	later(30, put_null_over, &p.b);
	later(100, send_byte, &p.a);
	RECV(p.b, 10, 0);
	later_all_done();
	RECV(p.a, 10, 0);
}

static void set_nonblocking(void *arg)
{
	fcntl(*(int *)arg, F_SETFL, O_NONBLOCK);
}

CONF_CASE(nonblocking_under_a_reader)
{
	struct conf_pair p = conf_pair();

	later(30, set_nonblocking, &p.b);
	later(100, send_byte, &p.a);
	RECV(p.b, 10, 0);
	RECV(p.b, 10, 0);
	later_all_done();
}

static void *read_one(void *arg)
{
	char c = 0;

	return recv(*(int *)arg, &c, 1, 0) == 1 && c == 'y' ? arg : NULL;
}

CONF_CASE(several_readers)
{
	struct conf_pair p = conf_pair();
	pthread_t readers[4];
	int good = 0;

	for (int i = 0; i < 4; i++)
		pthread_create(&readers[i], NULL, read_one, &p.b);
	pause_ms(30);
	SAY_RESULT(send(p.a, "yy", 2, 0));
	pause_ms(10);
	SAY_RESULT(send(p.a, "yy", 2, 0));
	for (int i = 0; i < 4; i++) {
		void *result;

		pthread_join(readers[i], &result);
		good += result != NULL;
	}
	say("%d", good);
}

static void *wait_for_room(void *arg)
{
	struct pollfd fd = {.fd = *(int *)arg, .events = POLLOUT};

	return poll(&fd, 1, 10000) == 1 && fd.revents == POLLOUT ? arg : NULL;
}

/* A reader and a writer wait on the same end at once. */
CONF_CASE(reader_and_writer_wait)
{
	struct conf_pair p = conf_pair();
	static char bytes[100000];
	pthread_t reader, writer;
	void *read_good, *write_good;

	while (send(p.a, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	pause_ms(50);
	while (send(p.a, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	pthread_create(&reader, NULL, read_one, &p.a);
	pthread_create(&writer, NULL, wait_for_room, &p.a);
	pause_ms(20);
	SAY_RESULT(send(p.b, "y", 1, 0));
	pthread_join(reader, &read_good);
	while (recv(p.b, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		pause_ms(1);
	pthread_join(writer, &write_good);
	say("%d %d", read_good != NULL, write_good != NULL);
}

static void *poll_and_read(void *arg)
{
	struct pollfd fd = {.fd = *(int *)arg, .events = POLLIN};
	static char bytes[8192];
	size_t sum = 0;
	ssize_t n;

	do {
		if (poll(&fd, 1, 5000) != 1)
			break;
		n = recv(fd.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		sum += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EAGAIN));
	return (void *)sum;
}

/* The lane begins while one thread waits for data and the other one sends. */
CONF_CASE(lane_begins_under_a_poller)
{
	static char bytes[8192];

	for (int i = 0; i < 40; i++) {
		struct conf_pair p = conf_connect();
		pthread_t reader;
		void *sum;

		pthread_create(&reader, NULL, poll_and_read, &p.b);
		for (int k = 0; k < 100; k++)
			if (send(p.a, bytes, sizeof(bytes), 0) != sizeof(bytes))
				say("short");
		close(p.a);
		pthread_join(reader, &sum);
		if ((size_t)sum != 100 * sizeof(bytes))
			say("only %zu bytes", (size_t)sum);
		close(p.b);
	}
}

static void *echo(void *arg)
{
	char bytes[100];
	ssize_t n;

	while ((n = recv(*(int *)arg, bytes, sizeof(bytes), 0)) > 0)
		if (send(*(int *)arg, bytes, (size_t)n, 0) != n)
			break;
	return NULL;
}

/* Send @text on the non-blocking @fd, waiting for room if there is none. */
static bool send_when_possible(int fd, const char *text)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	size_t len = strlen(text);

	while (send(fd, text, len, 0) != (ssize_t)len)
		if (errno != EAGAIN || poll(&room, 1, 5000) != 1)
			return false;
	return true;
}

/* Receive @len bytes from @fd, which @ep watches. Whether it told the truth each time. */
static bool receive_when_told(int ep, int fd, ssize_t len)
{
	struct epoll_event event;
	ssize_t n;

	for (; len > 0; len -= n) {
		if (epoll_wait(ep, &event, 1, 5000) != 1)
			return false;
		n = recv(fd, buf, sizeof(buf), 0);
		if (n <= 0)
			return false;
	}
	return len == 0;
}

/* What is reported as readable can be read, while the lane begins as well. */
CONF_CASE(readiness_is_true)
{
	int lies = 0, good = 0;

	for (int i = 0; i < 40; i++) {
		struct conf_pair p = conf_connect();
		int ep = epoll_create1(EPOLL_CLOEXEC);
		struct epoll_event event = {.events = EPOLLIN};
		pthread_t server;

		pthread_create(&server, NULL, echo, &p.b);
		epoll_ctl(ep, EPOLL_CTL_ADD, p.a, &event);
		fcntl(p.a, F_SETFL, O_NONBLOCK);
		for (int k = 0; k < 200; k++) {
			if (!send_when_possible(p.a, "ping"))
				say("stuck at %d", k);
			else if (receive_when_told(ep, p.a, 4))
				good++;
			else
				lies++;
		}
		shutdown(p.a, SHUT_WR);
		pthread_join(server, NULL);
		close(p.a);
		close(p.b);
		close(ep);
	}
	say("%d good, %d lies", good, lies);
}

#define MANY 16

/* Answer on whichever of the connections something comes; until nothing comes any more. */
static void *echo_on_all(void *arg)
{
	const struct conf_pair *pairs = arg;
	struct pollfd fds[MANY];
	char bytes[100];

	for (int i = 0; i < MANY; i++)
		fds[i] = (struct pollfd){.fd = pairs[i].b, .events = POLLIN};
	while (poll(fds, MANY, 1000) > 0)
		for (int i = 0; i < MANY; i++) {
			ssize_t n;

			if (!fds[i].revents)
				continue;
			n = recv(fds[i].fd, bytes, sizeof(bytes), 0);
			if (n <= 0)
				return NULL;
			send(fds[i].fd, bytes, (size_t)n, 0);
		}
	return NULL;
}

/* Some of a short message's bytes are here: the rest, which may have come another way, follows. */
static void receive_rest(int fd, size_t left)
{
	struct pollfd in = {.fd = fd, .events = POLLIN};

	while (left && poll(&in, 1, 5000) > 0) {
		ssize_t n = recv(fd, buf, left, 0);

		if (n <= 0)
			return;
		left -= (size_t)n;
	}
}

/* The same with many connections in one set, whose lanes begin in the midst of each other. */
CONF_CASE(readiness_of_many)
{
	int lies = 0, good = 0;

	for (int round = 0; round < 10; round++) {
		struct conf_pair pairs[MANY];
		struct epoll_event events[2 * MANY];
		int ep = epoll_create1(EPOLL_CLOEXEC);
		pthread_t server;

		for (int i = 0; i < MANY; i++) {
			pairs[i] = conf_connect();
			events[0] = (struct epoll_event){.events = EPOLLIN, .data.fd = pairs[i].a};
			epoll_ctl(ep, EPOLL_CTL_ADD, pairs[i].a, &events[0]);
			fcntl(pairs[i].a, F_SETFL, O_NONBLOCK);
			send_when_possible(pairs[i].a, "ping");
		}
		pthread_create(&server, NULL, echo_on_all, pairs);
		for (int k = 0; k < 100 * MANY;) {
			int n = epoll_wait(ep, events, 2 * MANY, 5000);

			if (n <= 0)
				say("stuck at %d", k);
			for (int i = 0; i < n; i++) {
				ssize_t got = recv(events[i].data.fd, buf, sizeof(buf), 0);

				good += got > 0;
				lies += got <= 0;
				if (got > 0 && got < 4)
					receive_rest(events[i].data.fd, 4 - (size_t)got);
				send_when_possible(events[i].data.fd, "ping");
			}
			k += n > 0 ? n : 100 * MANY;
		}
		for (int i = 0; i < MANY; i++)
			shutdown(pairs[i].a, SHUT_WR);
		pthread_join(server, NULL);
		for (int i = 0; i < MANY; i++) {
			close(pairs[i].a);
			close(pairs[i].b);
		}
		close(ep);
	}
	say("enough were good: %d, lies: %d", good >= 1000 * MANY, lies);
}

static void put_null_over(void *arg)
{
	int null = open("/dev/null", O_RDWR);

	dup2(null, *(int *)arg);
	close(null);
}

CONF_CASE(file_over_a_socket)
{
	struct conf_pair p = conf_pair();

	put_null_over(&p.b);
	SAY_RESULT(read(p.b, buf, 10));
	SAY_RESULT(write(p.b, "abc", 3));
	SAY_RESULT(send(p.b, "abc", 3, 0));
	RECV(p.a, 10, 0);
}

CONF_CASE(standard_stream_reopened)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(dup2(p.b, STDIN_FILENO));
	SAY_RESULT(send(p.a, "line\n", 5, 0));
	say("%s", fgets(buf, sizeof(buf), stdin));
	close(p.b);
	say("%d", freopen("/dev/null", "r", stdin) != NULL);
	RECV(p.a, 10, 0);
	SAY_RESULT(read(STDIN_FILENO, buf, 10));
}

/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "conformance/conf.h"

/* How connections come about, what they inherit, and circumstances under which they live. */

static char buf[256];

#define RECV(fd, len, flags)                                                                       \
	say_bytes("recv(" #fd ", " #len ", " #flags ")", buf, recv(fd, buf, len, flags))

static void say_alive(const char *what, const struct conf_pair *p)
{
	char c = 0, d = 0;

	say("%s: %d", what,
	    send(p->a, "q", 1, MSG_NOSIGNAL) == 1 && recv(p->b, &c, 1, 0) == 1 &&
		    send(p->b, "r", 1, MSG_NOSIGNAL) == 1 && recv(p->a, &d, 1, 0) == 1 &&
		    c == 'q' && d == 'r');
}

static struct sockaddr_in name_of(int fd)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len))
		conf_broken("getsockname");
	return addr;
}

static void say_so_error(int fd)
{
	int error = -1;
	socklen_t len = sizeof(error);

	SAY_RESULT(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
	say("SO_ERROR %s", error ? strerrorname_np(error) : "0");
}

CONF_CASE(nonblocking_connect)
{
	int listener = conf_listen();
	struct sockaddr_in addr = name_of(listener);
	struct conf_pair p = {.a = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)};
	struct pollfd fd = {.fd = p.a, .events = POLLOUT};

	SAY_RESULT(connect(p.a, (struct sockaddr *)&addr, sizeof(addr)));
	SAY_RESULT(poll(&fd, 1, 10000));
	say("%#x", fd.revents);
	say_so_error(p.a);
	SAY_RESULT(connect(p.a, (struct sockaddr *)&addr, sizeof(addr)));
	p.b = accept(listener, NULL, NULL);
	SAY_RESULT((fcntl(p.b, F_GETFL) & O_NONBLOCK) != 0);
	SAY_RESULT(fcntl(p.a, F_SETFL, 0));
	conf_promote(&p);
	say_alive("alive", &p);
}

CONF_CASE(refused_connect)
{
	int listener = conf_listen();
	struct sockaddr_in addr = name_of(listener);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	close(listener);
	SAY_RESULT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	say_so_error(fd);
	SAY_RESULT(send(fd, "x", 1, MSG_NOSIGNAL));
	RECV(fd, 1, 0);
	SAY_RESULT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	SAY_RESULT(close(fd));
}

CONF_CASE(connected_to_itself)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	SAY_RESULT(bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
	addr = name_of(fd);
	SAY_RESULT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	for (int i = 0; i < 5; i++) {
		SAY_RESULT(send(fd, "echo", 4, 0));
		RECV(fd, 4, MSG_WAITALL);
	}
	SAY_RESULT(shutdown(fd, SHUT_WR));
	RECV(fd, 4, 0);
}

CONF_CASE(inherited_time_limit)
{
	int listener = conf_listen();
	struct timeval limit = {.tv_usec = 50000};
	struct conf_pair p;

	SAY_RESULT(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	p.a = conf_connect_to(listener);
	p.b = accept(listener, NULL, NULL);
	conf_promote(&p);
	RECV(p.b, 10, 0);
}

CONF_CASE(inherited_low_water)
{
	int listener = conf_listen();
	int mark = 3;
	struct conf_pair p;
	struct pollfd fd;

	SAY_RESULT(setsockopt(listener, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof(mark)));
	p.a = conf_connect_to(listener);
	p.b = accept(listener, NULL, NULL);
	for (int i = 0; i < 20; i++)
		if (send(p.a, "abc", 3, 0) != 3 || recv(p.b, buf, 10, 0) != 3)
			say("not three");
	fd = (struct pollfd){.fd = p.b, .events = POLLIN};
	SAY_RESULT(send(p.a, "ab", 2, 0));
	SAY_RESULT(poll(&fd, 1, 50));
	SAY_RESULT(send(p.a, "c", 1, 0));
	SAY_RESULT(poll(&fd, 1, 5000));
	RECV(p.b, 10, 0);
}

/* Whether a message came with a time stamp. */
static bool stamped_message(const struct conf_pair *p)
{
	char control[256];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};

	if (send(p->a, "abc", 3, 0) != 3 || recvmsg(p->b, &msg, 0) != 3)
		say("not three");
	return CMSG_FIRSTHDR(&msg) != NULL;
}

CONF_CASE(inherited_timestamps)
{
	int listener = conf_listen();
	int on = 1, stamped = 0;
	struct conf_pair p;

	SAY_RESULT(setsockopt(listener, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on)));
	p.a = conf_connect_to(listener);
	p.b = accept(listener, NULL, NULL);
	/* The kernel begins to stamp a while after the first socket has asked for it. */
	for (int i = 0; i < 2000 && !stamped_message(&p); i++)
		pause_ms(1);
	for (int i = 0; i < 20; i++)
		stamped += stamped_message(&p);
	SAY_RESULT(stamped);
}

CONF_CASE(filtered)
{
	struct conf_pair p = conf_pair();
	struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, 0xffffffff}};
	struct sock_fprog program = {1, all};

	SAY_RESULT(setsockopt(p.b, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)));
	say_alive("with a filter", &p);
	SAY_RESULT(setsockopt(p.b, SOL_SOCKET, SO_DETACH_FILTER, NULL, 0));
	say_alive("without", &p);
}

static struct conf_pair connect_v6(const char *to)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6};
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET6, SOCK_STREAM, 0);
	struct conf_pair p = {.a = socket(AF_INET6, SOCK_STREAM, 0)};

	if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len))
		conf_broken("an IPv6 listener");
	inet_pton(AF_INET6, to, &addr.sin6_addr);
	if (connect(p.a, (struct sockaddr *)&addr, len))
		conf_broken("an IPv6 connection");
	p.b = accept(listener, NULL, NULL);
	close(listener);
	return p;
}

CONF_CASE(over_ipv6)
{
	struct conf_pair p = connect_v6("::1");

	conf_promote(&p);
	say_alive("alive", &p);
}

CONF_CASE(over_mapped_ipv4)
{
	struct conf_pair p = connect_v6("::ffff:127.0.0.1");

	conf_promote(&p);
	say_alive("alive", &p);
}

CONF_CASE(many_connections)
{
	enum { COUNT = 100 };
	static struct conf_pair pairs[COUNT];
	int good = 0;

	for (int i = 0; i < COUNT; i++)
		pairs[i] = conf_pair();
	for (int i = 0; i < COUNT; i++)
		good += send(pairs[i].a, &i, sizeof(i), 0) == sizeof(i);
	for (int i = 0; i < COUNT; i++) {
		int got = -1;

		good += recv(pairs[i].b, &got, sizeof(got), MSG_WAITALL) == sizeof(got) && got == i;
	}
	say("%d", good);
}

CONF_CASE(few_descriptors)
{
	struct rlimit limit = {.rlim_cur = 12, .rlim_max = 12};
	struct conf_pair p, q;

	p = conf_pair();
	SAY_RESULT(setrlimit(RLIMIT_NOFILE, &limit));
	say_alive("one from before", &p);
	q = conf_connect();
	for (int i = 0; i < 20; i++)
		if (send(q.a, "abc", 3, 0) != 3 || recv(q.b, buf, 10, 0) != 3)
			say("not three");
	say_alive("one since then", &q);
	say_alive("one from before", &p);
}

static void become_a_daemon(void *arg)
{
	struct conf_pair *p = arg;
	ssize_t n;

	if (daemon(1, 0))
		_exit(3);
	close(p->a);
	while ((n = recv(p->b, buf, sizeof(buf), 0)) > 0)
		if (send(p->b, buf, (size_t)n, 0) != n)
			_exit(1);
	_exit(0);
}

CONF_CASE(daemon_serves)
{
	struct conf_pair p = conf_pair();
	pid_t pid = fork_child(become_a_daemon, &p);

	say_ended("the daemon's parent", pid);
	close(p.b);
	for (int i = 0; i < 3; i++) {
		SAY_RESULT(send(p.a, "hello", 5, 0));
		RECV(p.a, 5, MSG_WAITALL);
	}
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	RECV(p.a, 5, MSG_WAITALL);
}

CONF_CASE(after_io_uring)
{
	struct conf_pair p = conf_pair(), q;

	/* Whether there is one is the kernel's business. */
	syscall(SYS_io_uring_setup, 0, NULL);
	say_alive("one from before", &p);
	q = conf_connect();
	say_alive("one since then", &q);
}

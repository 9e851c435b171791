/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

/*
 * Many connections that do nothing. Two processes make N connections; for each line on standard
 * input messages go back and forth on one after the other, so that they are promoted; in between
 * both wait, the child in epoll_wait, as servers do. Prints one line of JSON when the connections
 * are there and after each such round; ends at the end of standard input.
 */

#define MESSAGE_BYTES 64
#define MESSAGES 16 /* per connection and round; chosen: more than promote_after */

/* A promoted connection takes three descriptors: the socket and two bells. */
static void raise_limit(uint64_t connections)
{
	struct rlimit limit, wanted = {4 * connections + 1000, 4 * connections + 1000};

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max >= wanted.rlim_max)
		wanted.rlim_max = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &wanted)) {
		limit.rlim_cur = limit.rlim_max; /* so many can be promoted as can be */
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void exchange(int fd, bool first)
{
	char buf[MESSAGE_BYTES] = "";

	if ((first && send(fd, buf, sizeof(buf), 0) != sizeof(buf)) ||
	    recv(fd, buf, sizeof(buf), MSG_WAITALL) != sizeof(buf) ||
	    (!first && send(fd, buf, sizeof(buf), 0) != sizeof(buf)))
		bench_die("exchanging messages");
}

/* The child: answer whatever comes until the parent has gone. */
static void serve(int listener, uint64_t connections)
{
	struct epoll_event event = {.events = EPOLLIN};
	int ep = epoll_create1(EPOLL_CLOEXEC), fd;

	if (ep < 0)
		bench_die("epoll");
	for (uint64_t i = 0; i < connections; i++) {
		fd = accept(listener, NULL, NULL);
		event.data.fd = fd;
		if (fd < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event))
			bench_die("accepting");
	}
	for (;;) {
		if (epoll_wait(ep, &event, 1, -1) == 1)
			exchange(event.data.fd, false);
	}
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"connections", required_argument, NULL, 'n'},
					      {NULL, 0, NULL, 0}};
	uint64_t connections = 10000, rounds = 0;
	int listener, opt, *fds;
	char line[16];
	uint16_t port;
	pid_t child;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (opt == 'n') {
			connections = count_parse(optarg);
		} else {
			fputs("usage: idle [--connections N]\n", stderr);
			return 2;
		}
	}
	raise_limit(connections);
	listener = loopback_listen(1024, &port);
	child = fork();
	if (child < 0)
		bench_die("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(listener, connections);
	}
	close(listener);
	fds = calloc(connections, sizeof(*fds));
	for (uint64_t i = 0; fds && i < connections; i++)
		fds[i] = loopback_connect(port);
	do {
		for (uint64_t i = 0; fds && rounds && i < connections * MESSAGES; i++)
			exchange(fds[i / MESSAGES], true);
		printf("{\"pids\": [%d, %d], \"rounds\": %" PRIu64 "}\n", (int)getpid(), (int)child,
		       rounds++);
		fflush(stdout);
	} while (fgets(line, sizeof(line), stdin));
	kill(child, SIGKILL);
	return 0;
}

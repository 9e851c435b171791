/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "os/clock.h"

/*
 * Connections that live for one request: connect, send, receive the answer, close. The server
 * closes first, as HTTP servers do, so that the client's ports are free again at once.
 */

#define MESSAGE_BYTES 128 /* of the request and of the answer; chosen: a small HTTP request */

struct result {
	uint64_t server_cpu_ns;
};

static void serve(int listener, uint64_t connections, struct result *result)
{
	char buf[MESSAGE_BYTES];
	uint64_t begin_ns = cpu_time_ns();
	int fd;

	for (uint64_t i = 0; i < connections; i++) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0 || recv(fd, buf, sizeof(buf), MSG_WAITALL) != sizeof(buf) ||
		    send(fd, buf, sizeof(buf), 0) != sizeof(buf) || close(fd))
			bench_die("serving");
	}
	result->server_cpu_ns = cpu_time_ns() - begin_ns;
}

static void request(uint16_t port)
{
	char buf[MESSAGE_BYTES] = "request";
	int fd = loopback_connect(port);

	if (send(fd, buf, sizeof(buf), 0) != sizeof(buf) ||
	    recv(fd, buf, sizeof(buf), MSG_WAITALL) != sizeof(buf) || recv(fd, buf, 1, 0) != 0 ||
	    close(fd))
		bench_die("requesting");
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"connections", required_argument, NULL, 'n'},
					      {"cpus", required_argument, NULL, 'c'},
					      {NULL, 0, NULL, 0}};
	struct result *result = shared_memory(sizeof(*result));
	uint64_t connections = 20000, begin_ns, begin_cpu_ns, ns, cpu_ns;
	struct cpus cpus = {{-1, -1}};
	uint16_t port;
	int listener, opt, status;
	pid_t child;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (opt == 'n') {
			connections = count_parse(optarg);
		} else if (opt == 'c') {
			cpus = cpus_parse(optarg);
		} else {
			fputs("usage: connloop [--connections N] [--cpus A,B|none]\n", stderr);
			return 2;
		}
	}
	listener = loopback_listen(128, &port);
	child = fork();
	if (child < 0)
		bench_die("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cpus_pin(&cpus, 1);
		serve(listener, connections, result);
		exit(0);
	}
	cpus_pin(&cpus, 0);
	begin_ns = clock_now_ns();
	begin_cpu_ns = cpu_time_ns();
	for (uint64_t i = 0; i < connections; i++)
		request(port);
	ns = clock_now_ns() - begin_ns;
	cpu_ns = cpu_time_ns() - begin_cpu_ns;
	if (waitpid(child, &status, 0) != child || status != 0)
		return 1;
	printf("{\"connections\": %" PRIu64 ", \"ns_per_connection\": %.0f, "
	       "\"cpu_ns_per_connection\": %.0f}\n",
	       connections, (double)ns / (double)connections,
	       (double)(cpu_ns + result->server_cpu_ns) / (double)connections);
	return 0;
}

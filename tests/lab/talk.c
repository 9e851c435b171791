/* SPDX-License-Identifier: MIT */
/*
 * Two programs that talk over one connection, by socket calls and nothing else: to be measured on
 *TCP, under Shunt, over AF_SMC, and under a library that replaces the calls.
 *
 *	talk [--smc] serve ADDRESS PORT		one connection, then the end
 *	talk [--smc] ask ADDRESS PORT		does what it reads, line by line:
 *
 *		lat SIZE MS	ping-pong; prints half a round trip, and how many messages went
 *				each way
 *		bw SIZE MS	messages one way; prints bytes per second as they arrived
 *		check BYTES MAX	bytes that are known, each way, in messages of 1 to MAX bytes;
 *				prints how many were as they should be
 *
 * Each answer is one line of JSON. The connection stays, so that what is measured is how it runs
 *and not how it begins; neither end ever spins. Where the two disagree on a byte, the program ends
 *with a line on stderr and status 1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/clock.h"

#ifndef AF_SMC
#define AF_SMC 43
#endif

#define MESSAGE_MAX (1u << 20)
/* Messages by which it is found out how many fill the time. */
#define TRIAL_MESSAGES 32u

enum what { WHAT_LAT, WHAT_BW, WHAT_CHECK };

/* In front of each task, in the order of bytes of this machine, which both ends are on. */
struct task {
	uint32_t what, size;
	uint64_t count; /* messages; bytes of a check */
};

static uint8_t buf[MESSAGE_MAX];

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "talk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void send_all(int fd, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	while (len) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n <= 0)
			die("sending");
		at += n;
		len -= (size_t)n;
	}
}

/* False: the other end has closed before the first byte. */
static bool recv_all(int fd, void *bytes, size_t len)
{
	uint8_t *at = bytes;
	size_t left = len;

	while (left) {
		ssize_t n = recv(fd, at, left, 0);

		if (n == 0 && left == len)
			return false;
		if (n <= 0)
			die("receiving");
		at += n;
		left -= (size_t)n;
	}
	return true;
}

static void must_recv(int fd, void *bytes, size_t len)
{
	if (!recv_all(fd, bytes, len)) {
		errno = ECONNRESET;
		die("the other end has closed");
	}
}

/* --- bytes that are known --------------------------------------------------------------------- */

/* Byte @at of the stream: no two blocks of it are alike. */
static uint8_t known(uint64_t at)
{
	return (uint8_t)((at * 0x9e3779b97f4a7c15ull) >> 56);
}

static void send_known(int fd, uint64_t bytes, uint32_t most)
{
	uint32_t draw = 1;

	for (uint64_t at = 0; at < bytes;) {
		uint64_t n;

		draw = draw * 1664525u + 1013904223u;
		n = 1 + (draw >> 8) % most;
		if (n > bytes - at)
			n = bytes - at;
		for (uint64_t i = 0; i < n; i++)
			buf[i] = known(at + i);
		send_all(fd, buf, n);
		at += n;
	}
}

static void recv_known(int fd, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes;) {
		size_t want = bytes - at < sizeof(buf) ? bytes - at : sizeof(buf);
		ssize_t n = recv(fd, buf, want, 0);

		if (n <= 0)
			die("receiving");
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] != known(at + (uint64_t)i)) {
				fprintf(stderr, "talk: byte %" PRIu64 " is wrong\n",
					at + (uint64_t)i);
				exit(1);
			}
		}
		at += (uint64_t)n;
	}
}

/* --- the one that serves ---------------------------------------------------------------------- */

static void serve(int fd)
{
	struct task task;

	while (recv_all(fd, &task, sizeof(task))) {
		if (task.size == 0 || task.size > sizeof(buf)) {
			errno = EINVAL;
			die("a task");
		}
		switch ((enum what)task.what) {
		case WHAT_LAT:
			for (uint64_t i = 0; i < task.count; i++) {
				must_recv(fd, buf, task.size);
				send_all(fd, buf, task.size);
			}
			break;
		case WHAT_BW:
			for (uint64_t left = task.count * task.size; left;) {
				ssize_t n =
					recv(fd, buf, left < sizeof(buf) ? left : sizeof(buf), 0);

				if (n <= 0)
					die("receiving");
				left -= (uint64_t)n;
			}
			send_all(fd, buf, 1);
			break;
		case WHAT_CHECK:
			recv_known(fd, task.count);
			send_known(fd, task.count, task.size);
			break;
		}
	}
}

/* --- the one that asks ------------------------------------------------------------------------ */

/* Nanoseconds that it took. */
static uint64_t ask(int fd, enum what what, uint32_t size, uint64_t count)
{
	const struct task task = {what, size, count};
	uint64_t begin_ns;

	send_all(fd, &task, sizeof(task));
	begin_ns = clock_now_ns();
	switch (what) {
	case WHAT_LAT:
		for (uint64_t i = 0; i < count; i++) {
			send_all(fd, buf, size);
			must_recv(fd, buf, size);
		}
		break;
	case WHAT_BW:
		for (uint64_t i = 0; i < count; i++)
			send_all(fd, buf, size);
		must_recv(fd, buf, 1);
		break;
	case WHAT_CHECK:
		send_known(fd, count, size);
		recv_known(fd, count);
		break;
	}
	return clock_now_ns() - begin_ns;
}

/* How many messages fill @ms. */
static uint64_t count_for(int fd, enum what what, uint32_t size, uint64_t ms)
{
	uint64_t took_ns = ask(fd, what, size, TRIAL_MESSAGES);
	uint64_t count = ms * 1000000 * TRIAL_MESSAGES / (took_ns ? took_ns : 1);

	return count ? count : 1;
}

static void obey(int fd, const char *line)
{
	uint64_t number, limit, count, ns;
	char word[8];

	if (sscanf(line, "%7s %" SCNu64 " %" SCNu64, word, &number, &limit) != 3) {
		errno = EINVAL;
		die(line);
	}
	if (strcmp(word, "check") == 0) {
		ask(fd, WHAT_CHECK, (uint32_t)limit, number);
		printf("{\"equal\": %" PRIu64 "}\n", 2 * number);
	} else if (strcmp(word, "lat") == 0) {
		count = count_for(fd, WHAT_LAT, (uint32_t)number, limit);
		ns = ask(fd, WHAT_LAT, (uint32_t)number, count);
		printf("{\"ns\": %.1f, \"messages\": %" PRIu64 "}\n",
		       (double)ns / 2 / (double)count, count + TRIAL_MESSAGES);
	} else {
		count = count_for(fd, WHAT_BW, (uint32_t)number, limit);
		ns = ask(fd, WHAT_BW, (uint32_t)number, count);
		printf("{\"bytes_per_s\": %.0f, \"messages\": %" PRIu64 "}\n",
		       (double)(number * count) * 1e9 / (double)ns, count + TRIAL_MESSAGES);
	}
	fflush(stdout);
}

static int open_socket(bool is_smc)
{
	const int on = 1;
	int fd = socket(is_smc ? AF_SMC : AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	return fd;
}

int main(int argc, char **argv)
{
	const bool is_smc = argc > 1 && strcmp(argv[1], "--smc") == 0;
	struct sockaddr_in to = {.sin_family = AF_INET};
	const int on = 1;
	char line[64];
	int fd;

	argv += is_smc;
	argc -= is_smc;
	if (argc != 4 || inet_pton(AF_INET, argv[2], &to.sin_addr) != 1) {
		fputs("usage: talk [--smc] serve|ask ADDRESS PORT\n", stderr);
		return 2;
	}
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	fd = open_socket(is_smc);
	if (strcmp(argv[1], "serve") == 0) {
		if (bind(fd, (struct sockaddr *)&to, sizeof(to)) || listen(fd, 1))
			die("listening");
		puts("listening");
		fflush(stdout);
		fd = accept(fd, NULL, NULL);
		if (fd < 0)
			die("accepting");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		serve(fd);
		close(fd);
		return 0;
	}
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("connecting");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	memset(buf, 'x', sizeof(buf));
	while (fgets(line, sizeof(line), stdin))
		obey(fd, line);
	close(fd);
	return 0;
}

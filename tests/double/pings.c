/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"

/*
 * pings listen|connect ADDRESS PORT COUNT MAX [PAUSE]
 *
 * Messages to and fro, one at a time, of 1 to MAX bytes: small ones as likely as large ones. The
 * one that connects begins; it ends after COUNT, or when its standard input does, and waits for
 * PAUSE microseconds before each. Both know each size and each byte. Prints how many messages went,
 * both ways together. Exit status 0: all were right.
 */

#define MAX_BYTES 65536u

static uint8_t buf[MAX_BYTES];

static void die(const char *what, uint64_t round)
{
	fprintf(stderr, "pings: message %" PRIu64 ": %s: %s\n", round, what, strerror(errno));
	exit(1);
}

/* Each order of magnitude as likely as another. */
static size_t size_of(struct prng *prng, size_t max)
{
	size_t top = 1;

	while (top < max && prng_below(prng, 6) > 0)
		top *= 4;
	return 1 + (size_t)prng_below(prng, top < max ? top : max);
}

static uint8_t byte_at(uint64_t round, size_t i)
{
	return (uint8_t)(round * 7 + i * 31 + (i >> 8));
}

static void put(int sock, uint64_t round, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = byte_at(round, i);
	for (size_t done = 0; done < len;) {
		ssize_t n = send(sock, buf + done, len - done, MSG_NOSIGNAL);

		if (n < 0)
			die("sending", round);
		done += (size_t)n;
	}
}

/* False: the stream ends, in front of it. */
static bool get(int sock, uint64_t round, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = recv(sock, buf + done, len - done, 0);

		if (n == 0 && done == 0)
			return false;
		if (n <= 0)
			die("receiving", round);
		done += (size_t)n;
	}
	for (size_t i = 0; i < len; i++) {
		if (buf[i] != byte_at(round, i))
			die("a wrong byte", round);
	}
	return true;
}

static bool is_told_to_end(void)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&in, 1, 0) != 0;
}

static int open_socket(bool listens, const struct sockaddr_in *at)
{
	int on = 1, sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!listens) {
		if (connect(sock, (const struct sockaddr *)at, sizeof(*at)))
			die("connect", 0);
		return sock;
	}
	setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(sock, (const struct sockaddr *)at, sizeof(*at)) || listen(sock, 1))
		die("listen", 0);
	return accept4(sock, NULL, NULL, SOCK_CLOEXEC);
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	uint64_t count, round = 0;
	useconds_t pause_us;
	struct prng prng;
	bool listens;
	size_t max;
	int sock;

	if (argc < 6 || inet_pton(AF_INET, argv[2], &at.sin_addr) != 1)
		return 2;
	listens = strcmp(argv[1], "listen") == 0;
	at.sin_port = htons((uint16_t)atoi(argv[3]));
	count = strtoull(argv[4], NULL, 10);
	max = strtoul(argv[5], NULL, 10);
	pause_us = argc > 6 ? (useconds_t)atoi(argv[6]) : 0;
	if (max < 1 || max > MAX_BYTES)
		return 2;
	prng_init(&prng, 1);
	sock = open_socket(listens, &at);
	if (sock < 0)
		die("accept", 0);
	while (listens || (round < count && !is_told_to_end())) {
		size_t len = size_of(&prng, max);

		if (pause_us && !listens)
			usleep(pause_us);
		if (!listens)
			put(sock, round, len);
		if (!get(sock, round, len)) {
			if (!listens)
				die("an early end", round);
			break;
		}
		if (listens)
			put(sock, round, len);
		round++;
	}
	close(sock);
	printf("%" PRIu64 "\n", 2 * round);
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shunt/shunt.h"

#include "common.h"
#include "os/clock.h"

/*
 * Latency and bandwidth of one connection between two processes: by socket calls, by the native
 * API, or by its zero-copy calls. With --touch the sender writes every byte of each message and the
 * receiver reads it, as a program that uses its data does; else only the transport is measured.
 */

enum api { API_SOCKET, API_NATIVE, API_ZEROCOPY };

static const char *const api_names[] = {"socket", "native", "zerocopy"};

struct options {
	enum api api;
	bool bandwidth, touch;
	uint64_t size, ms;
	struct cpus cpus;
};

struct link {
	const struct options *options;
	int fd;
	struct shunt_stream *stream;
	uint8_t *buf;
	uint64_t seen; /* so that reading is not optimised away */
};

/* What the receiving process tells the other. */
struct result {
	uint64_t bytes, ns;
};

static void produce(const struct link *link, void *buf, size_t len)
{
	if (link->options->touch)
		memset(buf, (int)len, len);
}

static void digest(struct link *link, const void *buf, size_t len)
{
	const uint8_t *bytes = buf;
	uint64_t word;

	for (size_t i = 0; link->options->touch && i + 8 <= len; i += 8) {
		memcpy(&word, bytes + i, 8);
		link->seen += word;
	}
}

static void fail(const char *what, ssize_t rc)
{
	errno = (int)-rc;
	bench_die(what);
}

/* Zero copy when there is a ring; 0 when there is none now. */
static size_t send_in_place(struct link *link, size_t len)
{
	struct iovec iov[2];
	ssize_t n = shunt_reserve(link->stream, len, iov);

	if (n <= 0)
		return 0;
	produce(link, iov[0].iov_base, iov[0].iov_len);
	produce(link, iov[1].iov_base, iov[1].iov_len);
	return shunt_commit(link->stream, (size_t)n) ? 0 : (size_t)n;
}

static size_t recv_in_place(struct link *link, size_t len)
{
	struct iovec iov[2];
	ssize_t n = shunt_peek(link->stream, len, iov);

	if (n <= 0)
		return 0;
	digest(link, iov[0].iov_base, iov[0].iov_len);
	digest(link, iov[1].iov_base, iov[1].iov_len);
	return shunt_consume(link->stream, (size_t)n) ? 0 : (size_t)n;
}

static void send_message(struct link *link)
{
	size_t size = link->options->size, n;
	ssize_t rc;

	for (size_t done = 0; done < size; done += n) {
		n = link->options->api == API_ZEROCOPY ? send_in_place(link, size - done) : 0;
		if (n)
			continue;
		produce(link, link->buf, size - done);
		rc = link->stream ? shunt_send(link->stream, link->buf, size - done, 0)
				  : send(link->fd, link->buf, size - done, 0);
		if (rc < 0)
			fail("sending", link->stream ? rc : -errno);
		n = (size_t)rc;
	}
}

/* Receive at most @len bytes; 0 at the end of the stream. */
static size_t recv_some(struct link *link, size_t len)
{
	size_t n = link->options->api == API_ZEROCOPY ? recv_in_place(link, len) : 0;
	ssize_t rc;

	if (n)
		return n;
	rc = link->stream ? shunt_recv(link->stream, link->buf, len, 0)
			  : recv(link->fd, link->buf, len, 0);
	if (rc < 0)
		fail("receiving", link->stream ? rc : -errno);
	digest(link, link->buf, (size_t)rc);
	return (size_t)rc;
}

static bool recv_message(struct link *link)
{
	size_t n;

	for (size_t left = link->options->size; left; left -= n) {
		n = recv_some(link, left);
		if (!n)
			return false;
	}
	return true;
}

static void open_link(struct link *link, const struct options *options, int fd)
{
	int rc = 0;

	*link = (struct link){.options = options, .fd = fd, .buf = calloc(1, options->size)};
	if (!link->buf)
		bench_die("memory");
	if (options->api != API_SOCKET)
		rc = shunt_attach(fd, &link->stream);
	if (rc)
		fail("attaching", rc);
}

static void finish(struct link *link)
{
	int rc = link->stream ? shunt_shutdown(link->stream, SHUT_WR) : shutdown(link->fd, SHUT_WR);

	if (rc)
		bench_die("shutting down");
}

/* The other process: echo, or swallow and count. The first tenth of the time is for warming up. */
static void serve(struct link *link, struct result *result)
{
	uint64_t warm_ns = link->options->ms * 100000, begin_ns = clock_now_ns();
	size_t n;

	if (!link->options->bandwidth) {
		while (recv_message(link))
			send_message(link);
		finish(link);
		return;
	}
	while ((n = recv_some(link, link->options->size))) {
		result->bytes += n;
		if (warm_ns && clock_now_ns() - begin_ns > warm_ns) {
			warm_ns = 0;
			begin_ns = clock_now_ns();
			result->bytes = 0;
		}
	}
	result->ns = clock_now_ns() - begin_ns;
}

static uint64_t ping(struct link *link, uint64_t duration_ns, uint64_t *ret_ns)
{
	uint64_t begin_ns = clock_now_ns(), rounds = 0;

	do {
		for (int i = 0; i < 16; i++) {
			send_message(link);
			if (!recv_message(link))
				fail("receiving", -ECONNRESET);
		}
		rounds += 16;
		*ret_ns = clock_now_ns() - begin_ns;
	} while (*ret_ns < duration_ns);
	return rounds;
}

static void flood(struct link *link, uint64_t duration_ns)
{
	uint64_t begin_ns = clock_now_ns();

	do {
		for (int i = 0; i < 64; i++)
			send_message(link);
	} while (clock_now_ns() - begin_ns < duration_ns);
}

static void print(const struct link *link, const struct result *result)
{
	const struct options *options = link->options;
	struct shunt_info info = {.size = sizeof(info)};

	if (link->stream && shunt_get_info(link->stream, &info))
		info.lane_tx_bytes = 0;
	printf("{\"api\": \"%s\", \"size\": %" PRIu64 ", ", api_names[options->api], options->size);
	if (options->bandwidth)
		printf("\"bytes_per_s\": %.0f, ", (double)result->bytes * 1e9 / (double)result->ns);
	else
		printf("\"latency_ns\": %.1f, ", (double)result->ns / 2 / (double)result->bytes);
	printf("\"lane_bytes\": %" PRIu64 "}\n", (uint64_t)info.lane_tx_bytes);
}

static void drive(struct link *link, struct result *result, pid_t child)
{
	const struct options *options = link->options;
	int status;

	if (options->bandwidth) {
		flood(link, options->ms * 1100000);
	} else {
		ping(link, options->ms * 100000, &result->ns);
		result->bytes = ping(link, options->ms * 1000000, &result->ns);
	}
	finish(link);
	if (waitpid(child, &status, 0) != child || status != 0)
		fail("the other process", -ECHILD);
	print(link, result);
}

static enum api parse_api(const char *text)
{
	for (int i = 0; i < 3; i++) {
		if (strcmp(api_names[i], text) == 0)
			return (enum api)i;
	}
	fail("--api takes socket, native or zerocopy", -EINVAL);
	return API_SOCKET;
}

static bool parse(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{"api", required_argument, NULL, 'a'},
		{"size", required_argument, NULL, 's'},
		{"ms", required_argument, NULL, 't'},
		{"cpus", required_argument, NULL, 'c'},
		{"bandwidth", no_argument, NULL, 'b'},
		{"touch", no_argument, NULL, 'o'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 'a':
			options->api = parse_api(optarg);
			break;
		case 's':
			options->size = count_parse(optarg);
			break;
		case 't':
			options->ms = count_parse(optarg);
			break;
		case 'c':
			options->cpus = cpus_parse(optarg);
			break;
		case 'b':
			options->bandwidth = true;
			break;
		case 'o':
			options->touch = true;
			break;
		default:
			return false;
		}
	}
	return options->size > 0;
}

int main(int argc, char **argv)
{
	struct options options = {.size = 64, .ms = 1000, .cpus = {{-1, -1}}};
	struct result *result = shared_memory(sizeof(*result));
	struct link link;
	uint16_t port;
	int listener;
	pid_t child;

	if (!parse(argc, argv, &options)) {
		fputs("usage: native [--api socket|native|zerocopy] [--bandwidth] [--touch]\n"
		      "              [--size BYTES] [--ms N] [--cpus A,B|none]\n",
		      stderr);
		return 2;
	}
	listener = loopback_listen(1, &port);
	child = fork();
	if (child < 0)
		bench_die("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cpus_pin(&options.cpus, 1);
		open_link(&link, &options, accept(listener, NULL, NULL));
		close(listener);
		serve(&link, result);
		return 0;
	}
	close(listener);
	cpus_pin(&options.cpus, 0);
	open_link(&link, &options, loopback_connect(port));
	drive(&link, result, child);
	return 0;
}

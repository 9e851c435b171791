/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "os/clock.h"

/*
 * What the memory allows: a message goes back and forth between two processes over two rings in
 * shared memory, with nothing but a copy in, a release store, an acquire load and a copy out: no
 * sleeping, no checks, no daemon, no sockets.
 */

#define RING_BYTES 65536u

struct ring {
	_Alignas(64) _Atomic uint64_t prod;
	_Alignas(64) _Atomic uint64_t cons;
	_Alignas(64) uint8_t bytes[RING_BYTES];
};

static void put(struct ring *ring, uint64_t *at, const void *buf, size_t len)
{
	size_t pos = *at % RING_BYTES;
	size_t first = len < RING_BYTES - pos ? len : RING_BYTES - pos;

	while (*at + len - atomic_load_explicit(&ring->cons, memory_order_acquire) > RING_BYTES)
		;
	memcpy(ring->bytes + pos, buf, first);
	memcpy(ring->bytes, (const uint8_t *)buf + first, len - first);
	*at += len;
	/* Partner: the acquire load in get(). */
	atomic_store_explicit(&ring->prod, *at, memory_order_release);
}

static void get(struct ring *ring, uint64_t *at, void *buf, size_t len)
{
	size_t pos = *at % RING_BYTES;
	size_t first = len < RING_BYTES - pos ? len : RING_BYTES - pos;

	/* Partner: the release store in put(). */
	while (atomic_load_explicit(&ring->prod, memory_order_acquire) - *at < len)
		;
	memcpy(buf, ring->bytes + pos, first);
	memcpy((uint8_t *)buf + first, ring->bytes, len - first);
	*at += len;
	atomic_store_explicit(&ring->cons, *at, memory_order_release);
}

static void echo(struct ring rings[2], size_t size)
{
	static uint8_t buf[RING_BYTES];
	uint64_t rx = 0, tx = 0;

	for (;;) {
		get(&rings[0], &rx, buf, size);
		put(&rings[1], &tx, buf, size);
	}
}

static double measure(struct ring rings[2], size_t size, uint64_t duration_ns)
{
	static uint8_t buf[RING_BYTES];
	static uint64_t rx, tx; /* measured more than once */
	uint64_t rounds = 0, begin_ns = clock_now_ns(), now_ns;

	do {
		for (int i = 0; i < 1000; i++) {
			put(&rings[0], &tx, buf, size);
			get(&rings[1], &rx, buf, size);
		}
		rounds += 1000;
		now_ns = clock_now_ns();
	} while (now_ns - begin_ns < duration_ns);
	return (double)(now_ns - begin_ns) / (double)rounds / 2;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"size", required_argument, NULL, 's'},
					      {"ms", required_argument, NULL, 't'},
					      {"cpus", required_argument, NULL, 'c'},
					      {NULL, 0, NULL, 0}};
	struct cpus cpus = {{-1, -1}};
	struct ring *rings = shared_memory(2 * sizeof(*rings));
	uint64_t size = 64, ms = 1000;
	double latency_ns;
	pid_t child;
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (opt == 's') {
			size = count_parse(optarg);
		} else if (opt == 't') {
			ms = count_parse(optarg);
		} else if (opt == 'c') {
			cpus = cpus_parse(optarg);
		} else {
			fputs("usage: ringpong [--size BYTES] [--ms N] [--cpus A,B|none]\n",
			      stderr);
			return 2;
		}
	}
	if (size == 0 || size > RING_BYTES) {
		fprintf(stderr, "ringpong: a message has 1 to %u bytes\n", RING_BYTES);
		return 2;
	}
	child = fork();
	if (child < 0)
		bench_die("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cpus_pin(&cpus, 1);
		echo(rings, size);
	}
	cpus_pin(&cpus, 0);
	measure(rings, size, ms * 100000); /* a tenth of the time, to warm up */
	latency_ns = measure(rings, size, ms * 1000000);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	printf("{\"size\": %" PRIu64 ", \"latency_ns\": %.1f}\n", size, latency_ns);
	return 0;
}

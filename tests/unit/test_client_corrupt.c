/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <shunt/shunt.h>

#include "base/prng.h"
#include "client/sock.h"
#include "os/clock.h"

#include "lib/child.h"
#include "lib/net.h"
#include "lib/shuntd.h"
#include "lib/tap.h"

/*
 * A peer that writes random words into its own half, at full speed. Its connection is reset, and
 * nothing else happens: the victim lives, and its other connections work.
 */

#define RAGE_NS 1000000000u
#define GIVE_UP_NS 10000000000u

struct scene {
	struct shuntd daemon;
	int bad[2];  /* victim, hostile peer */
	int good[2]; /* victim, honest peer */
};

static struct shunt_stream *attach(int fd)
{
	struct shunt_stream *stream = NULL;

	CHECK_OK(shunt_attach(fd, &stream));
	return stream;
}

static bool on_ring(struct shunt_stream *stream)
{
	struct shunt_info info = {.size = sizeof(info)};

	return CHECK_OK(shunt_get_info(stream, &info)) && info.tx_lane == SHUNT_LANE_RING &&
	       info.rx_lane == SHUNT_LANE_RING;
}

/* Send a number and have it come back. */
static bool ping(struct shunt_stream *stream, uint32_t number)
{
	uint32_t back = ~number;

	return CHECK_EQ(shunt_send(stream, &number, sizeof(number), 0), sizeof(number)) &&
	       CHECK_EQ(shunt_recv(stream, &back, sizeof(back), MSG_WAITALL), sizeof(back)) &&
	       CHECK_EQ(back, number);
}

static void echo_until_end(struct shunt_stream *stream)
{
	char byte;

	while (shunt_recv(stream, &byte, 1, 0) == 1 && shunt_send(stream, &byte, 1, 0) == 1)
		;
}

static void honest(void *arg)
{
	struct scene *scene = arg;

	close(scene->bad[0]);
	close(scene->bad[1]);
	close(scene->good[0]);
	echo_until_end(attach(scene->good[1]));
}

static void hostile(void *arg)
{
	struct scene *scene = arg;
	struct shunt_stream *stream = attach(scene->bad[1]);
	struct half_ctl *own;
	struct prng prng;
	uint64_t end;
	char byte;

	close(scene->bad[0]);
	close(scene->good[0]);
	close(scene->good[1]);
	while (!on_ring(stream))
		if (shunt_recv(stream, &byte, 1, 0) != 1 || shunt_send(stream, &byte, 1, 0) != 1)
			return;
	own = ((struct sock *)stream)->lane.own;
	prng_init(&prng, (uint64_t)getpid());
	for (end = clock_now_ns() + RAGE_NS; clock_now_ns() < end;) {
		uint64_t *words = (uint64_t *)own;
		uint64_t value = prng_chance(&prng, 50) ? prng_next(&prng) : prng_below(&prng, 9);

		words[prng_below(&prng, sizeof(*own) / sizeof(*words))] = value;
	}
}

/* Talk to the hostile peer until it is over, and to the honest one all the time. */
static void victim(void *arg)
{
	struct scene *scene = arg;
	struct shunt_stream *bad = attach(scene->bad[0]), *good = attach(scene->good[0]);
	uint64_t begin = clock_now_ns();
	char bytes[256] = {0};
	uint32_t round = 0;
	ssize_t n;

	close(scene->bad[1]);
	close(scene->good[1]);
	do {
		if (!ping(good, round++))
			return;
		n = shunt_send(bad, bytes, 1 + round % 8, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0 || n == -EAGAIN)
			n = shunt_recv(bad, bytes, sizeof(bytes), MSG_DONTWAIT);
	} while ((n > 0 || n == -EAGAIN) && clock_now_ns() - begin < GIVE_UP_NS);
	CHECK(n == 0 || n == -ECONNRESET || n == -EPIPE);
	for (int i = 0; i < 1000 && ping(good, round++); i++)
		;
	CHECK(on_ring(good));
	CHECK_EQ(shunt_close(bad), 0);
	CHECK_EQ(shunt_close(good), 0);
}

TAP_CASE(random_words_in_a_half_reset_one_connection)
{
	struct scene scene;
	pid_t pids[3];

	for (int run = 0; run < 3; run++) {
		REQUIRE(shuntd_start(&scene.daemon, "promote_after = 1;\n"));
		setenv("SHUNT_RUNTIME_DIR", scene.daemon.dir, 1);
		REQUIRE_OK(net_pair(NET_V4, scene.bad));
		REQUIRE_OK(net_pair(NET_V4, scene.good));
		pids[0] = child_start(CHILD_UID_SAME, honest, &scene);
		pids[1] = child_start(CHILD_UID_SAME, hostile, &scene);
		pids[2] = child_start(CHILD_UID_SAME, victim, &scene);
		for (int i = 0; i < 2; i++) {
			close(scene.bad[i]);
			close(scene.good[i]);
		}
		for (int i = 2; i >= 0; i--)
			child_finish(pids[i]);
		shuntd_stop(&scene.daemon);
	}
}

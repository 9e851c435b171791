/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"
#include "os/bell.h"
#include "os/clock.h"

#include "lib/child.h"
#include "lib/lane.h"
#include "lib/net.h"
#include "lib/tap.h"

/*
 * Clients that mean no good. After each: the offender is refused or cut off with a reason in the
 * log, an innocent pair gets its lane as ever, and the daemon holds what it held before.
 */

#define SECONDS_OF_STORM 3

struct scene {
	struct shuntd daemon;
	struct lane_end innocent[2]; /* on a lane all the time */
	int fds, halves;
};

/* Wait until the daemon has as many descriptors as before: it may still be cleaning up. */
static bool settles(const struct scene *scene)
{
	uint64_t limit = clock_now_ns() + SHUNTD_WAIT_MS * 1000000ull;

	while (shuntd_count_fds(&scene->daemon) != scene->fds && clock_now_ns() < limit)
		usleep(5000);
	return CHECK_EQ(shuntd_count_fds(&scene->daemon), scene->fds) &&
	       CHECK_EQ(shuntd_count_halves(&scene->daemon), scene->halves);
}

static bool scene_open(struct scene *scene, const char *conf)
{
	int tcp[2];

	if (!shuntd_start(&scene->daemon, conf) || !CHECK_OK(net_pair(NET_V4, tcp)) ||
	    !lane_init(&scene->daemon, tcp, scene->innocent) || !lane_pair(scene->innocent, 1) ||
	    !lane_complete(scene->innocent, 1))
		return false;
	/* Its last steps of this, and the end of the start's probing connection. */
	do {
		scene->fds = shuntd_count_fds(&scene->daemon);
		usleep(50000);
	} while (shuntd_count_fds(&scene->daemon) != scene->fds);
	scene->halves = shuntd_count_halves(&scene->daemon);
	return CHECK(scene->fds > 0) && CHECK_EQ(scene->halves, 2);
}

/* A new pair is served in a bounded time. */
static void others_are_served(const struct scene *scene)
{
	struct lane_end ends[2];
	int tcp[2];

	if (CHECK_OK(net_pair(NET_V4, tcp)) && lane_init(&scene->daemon, tcp, ends) &&
	    lane_pair(ends, 1))
		lane_complete(ends, 1);
	lane_ends_close(ends);
}

static void scene_close(struct scene *scene)
{
	others_are_served(scene);
	settles(scene);
	lane_say_drained(&scene->innocent[0], 1);
	lane_say_drained(&scene->innocent[1], 1);
	msg_is_silent(scene->innocent[0].sock); /* nobody told him anything */
	if (lane_pair(scene->innocent, 2))
		lane_complete(scene->innocent, 2);
	lane_ends_close(scene->innocent);
	shuntd_stop(&scene->daemon);
}

static const struct ctl_msg hello = {.type = CTL_HELLO, .u.hello = {.version = CTL_VERSION}};

TAP_CASE(garbage_is_cut_off)
{
	struct prng prng;
	struct scene scene;
	uint8_t bytes[CTL_MAX_BYTES];

	REQUIRE(scene_open(&scene, ""));
	prng_init(&prng, 3);
	for (int i = 0; i < 200; i++) {
		int sock = i % 2 ? shuntd_session(&scene.daemon, 0) : shuntd_connect(&scene.daemon);
		size_t len = 1 + prng_below(&prng, sizeof(bytes));

		for (size_t b = 0; b < len; b++)
			bytes[b] = (uint8_t)prng_next(&prng);
		CHECK_EQ(send(sock, bytes, len, MSG_NOSIGNAL), len);
		msg_expect_cut(sock);
		close(sock);
	}
	CHECK(shuntd_logged(&scene.daemon, "cut off: garbage (unknown type)"));
	scene_close(&scene);
}

TAP_CASE(truncated_and_oversized_messages_are_cut_off)
{
	static char huge[65536];
	struct scene scene;
	uint8_t bytes[CTL_MAX_BYTES];
	size_t len = ctl_encode(&hello, bytes);
	int sock;

	REQUIRE(scene_open(&scene, ""));
	for (size_t cut = 1; cut < len; cut++) {
		sock = shuntd_connect(&scene.daemon);
		CHECK_EQ(send(sock, bytes, cut, MSG_NOSIGNAL), cut);
		msg_expect_cut(sock);
		close(sock);
	}
	memcpy(huge, bytes, len);
	for (size_t size = CTL_MAX_BYTES + 1; size <= sizeof(huge); size *= 2) {
		sock = shuntd_connect(&scene.daemon);
		CHECK_EQ(send(sock, huge, size, MSG_NOSIGNAL), size);
		msg_expect_cut(sock);
		close(sock);
	}
	sock = shuntd_connect(&scene.daemon);
	CHECK_EQ(send(sock, bytes, 0, MSG_NOSIGNAL), 0); /* empty */
	msg_expect_cut(sock);
	close(sock);
	scene_close(&scene);
}

TAP_CASE(wrong_numbers_of_descriptors_are_cut_off)
{
	struct scene scene;
	struct ctl_msg reg = {.type = CTL_REGISTER, .token = 1, .u.reg = {.fd = 3, .epoch = 1}};
	int fds[FD_PASS_MAX], sock;

	REQUIRE(scene_open(&scene, ""));
	for (size_t i = 0; i < FD_PASS_MAX; i++)
		fds[i] = scene.innocent[0].tcp;
	for (size_t n = 0; n <= FD_PASS_MAX; n++) {
		if (n == 1)
			continue;
		sock = shuntd_session(&scene.daemon, 0);
		CHECK_OK(msg_send(sock, &reg, fds, n));
		msg_expect_cut(sock);
		close(sock);
		sock = shuntd_connect(&scene.daemon); /* a greeting takes one */
		CHECK_OK(msg_send(sock, &hello, fds, n ? n : 2));
		msg_expect_cut(sock);
		close(sock);
	}
	scene_close(&scene);
}

/* A session with @scene's daemon on which @msg, with @fd if not negative, ends it. */
static void expect_ending(struct scene *scene, bool greeted, const struct ctl_msg *msg, int fd)
{
	int sock = greeted ? shuntd_session(&scene->daemon, 0) : shuntd_connect(&scene->daemon);

	CHECK_OK(msg_send(sock, msg, &fd, fd >= 0));
	if (!msg_expect_cut(sock))
		tap_diag("by %s", ctl_type_name(msg->type));
	close(sock);
}

TAP_CASE(messages_out_of_order_are_cut_off)
{
	const struct ctl_msg query = {.type = CTL_QUERY, .u.query = {0, -1, -1}};
	const struct ctl_msg reg = {.type = CTL_REGISTER, .token = 1, .u.reg = {3, 1, 0}};
	const struct ctl_msg with_token = {
		.type = CTL_HELLO, .token = 1, .u.hello = {.version = CTL_VERSION}};
	struct scene scene;
	int tool;

	REQUIRE(scene_open(&scene, ""));
	expect_ending(&scene, false, &query, -1);
	expect_ending(&scene, false, &reg, scene.innocent[0].tcp);
	expect_ending(&scene, false, &with_token, -1);
	expect_ending(&scene, true, &hello, -1); /* again */
	tool = shuntd_session(&scene.daemon, CTL_HELLO_TOOL);
	CHECK_OK(msg_send(tool, &reg, &scene.innocent[0].tcp, 1)); /* a tool has no connections */
	msg_expect_cut(tool);
	close(tool);
	CHECK(shuntd_logged(&scene.daemon, "out of order"));
	scene_close(&scene);
}

/* On a fresh pair: @msg, of its first end, cuts that end's session off. */
static void ends_a_pair(struct scene *scene, const struct ctl_msg *msg, bool complete, bool twice)
{
	struct lane_end ends[2];
	int tcp[2];

	if (!CHECK_OK(net_pair(NET_V4, tcp)) || !lane_init(&scene->daemon, tcp, ends) ||
	    !lane_pair(ends, 1) || (complete && !lane_complete(ends, 1)))
		return;
	for (int i = 0; i <= twice; i++)
		CHECK_OK(msg_send(ends[0].sock, msg, tcp, ctl_min_fds(msg->type)));
	if (!msg_expect_cut(ends[0].sock))
		tap_diag("by %s, complete %d", ctl_type_name(msg->type), complete);
	lane_ends_close(ends);
}

TAP_CASE(replayed_and_impossible_lane_messages_are_cut_off)
{
	const struct ctl_msg mapped = {.type = CTL_MAPPED, .token = 100, .u.mapped = {1}};
	const struct ctl_msg mapped_later = {.type = CTL_MAPPED, .token = 100, .u.mapped = {2}};
	const struct ctl_msg drained_later = {
		.type = CTL_DRAINED, .token = 100, .u.drained = {.epoch = UINT32_MAX}};
	const struct ctl_msg reg = {.type = CTL_REGISTER, .token = 100, .u.reg = {3, 1, 0}};
	const struct ctl_msg adopted = {.type = CTL_ADOPT, .token = 100, .u.adopt = {3, 1, 0, {0}}};
	struct scene scene;

	REQUIRE(scene_open(&scene, ""));
	ends_a_pair(&scene, &mapped, false, true);
	ends_a_pair(&scene, &mapped, true, false);
	ends_a_pair(&scene, &mapped_later, false, false);
	ends_a_pair(&scene, &drained_later, false, false);
	ends_a_pair(&scene, &drained_later, true, false);
	ends_a_pair(&scene, &reg, false, false);
	ends_a_pair(&scene, &reg, true, false);
	ends_a_pair(&scene, &adopted, true, false);
	scene_close(&scene);
}

/* What honest clients may send when messages cross does no harm, however often. */
TAP_CASE(messages_about_nothing_are_ignored)
{
	static const enum ctl_type types[] = {CTL_CANCEL, CTL_MAPPED, CTL_DRAINED, CTL_STATE,
					      CTL_CLOSED};
	struct scene scene;
	int sock;
	char *text;

	REQUIRE(scene_open(&scene, ""));
	sock = shuntd_session(&scene.daemon, 0);
	for (int i = 0; i < 1000; i++) {
		struct ctl_msg msg = {.type = types[i % 5], .token = (uint64_t)i};

		if (msg.type == CTL_MAPPED || msg.type == CTL_DRAINED)
			msg.u.mapped.epoch = 1;
		CHECK_OK(msg_send(sock, &msg, NULL, 0));
	}
	text = msg_query(sock, CTL_QUERY_STATS, -1, -1);
	CHECK(text && strstr(text, "\"stray_messages\":1000"));
	free(text);
	close(sock);
	scene_close(&scene);
}

/* Epochs are numbers that a client chooses: the last one there is leads nowhere, quietly. */
TAP_CASE(the_last_epoch_is_the_end)
{
	struct scene scene;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(scene_open(&scene, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&scene.daemon, tcp, ends) && lane_pair(ends, UINT32_MAX) &&
		lane_complete(ends, UINT32_MAX));
	lane_say_drained(&ends[0], UINT32_MAX);
	msg_register(ends[0].sock, ends[0].token, tcp[0], 1);
	msg_expect_refused(ends[0].sock, ends[0].token, REASON_PROTOCOL);
	lane_ends_close(ends);
	scene_close(&scene);
}

TAP_CASE(a_client_that_does_not_read_is_cut_off)
{
	const struct ctl_msg ask = {.type = CTL_QUERY, .token = 1, .u.query = {0, -1, -1}};
	struct scene scene;
	int sock, rc = 0;

	REQUIRE(scene_open(&scene, "send_backlog = 20;"));
	sock = shuntd_session(&scene.daemon, 0);
	for (int i = 0; i < 1000000 && rc == 0; i++)
		rc = msg_send(sock, &ask, NULL, 0);
	CHECK(rc == -EPIPE || rc == -ECONNRESET);
	CHECK(shuntd_logged(&scene.daemon, "cut off: does not read its messages"));
	close(sock);
	scene_close(&scene);
}

TAP_CASE(a_client_that_says_nothing_is_cut_off)
{
	struct scene scene;
	int sock;

	REQUIRE(scene_open(&scene, "hello_wait_ms = 100;"));
	sock = shuntd_connect(&scene.daemon);
	msg_expect_cut(sock);
	CHECK(shuntd_logged(&scene.daemon, "cut off: said nothing"));
	close(sock);
	scene_close(&scene);
}

/* Who has an ear of its kick can open the pipe behind it for writing, make that blocking, and fill
 * it; ringing it must not stop the daemon. */
TAP_CASE(a_full_kick_stops_nobody)
{
	const struct ctl_msg request = {
		.type = CTL_DEMOTE_REQ, .token = 3, .u.demote_req = {.pid = getpid(), .fd = -1}};
	const char junk[4096] = {0};
	struct scene scene;
	struct lane_end ends[2];
	int tcp[2], tool, kick;

	REQUIRE(scene_open(&scene, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&scene.daemon, tcp, ends) && lane_pair(ends, 1) &&
		lane_complete(ends, 1));
	kick = bell_copy(ends[0].kick);
	CHECK_OK(kick);
	while (write(kick, junk, sizeof(junk)) > 0 || write(kick, junk, 1) > 0)
		;
	CHECK_OK(fcntl(kick, F_SETFL, 0));
	tool = shuntd_session(&scene.daemon, CTL_HELLO_TOOL);
	CHECK_OK(msg_send(tool, &request, NULL, 0));
	msg_expect(tool, CTL_ANSWER, NULL, NULL);
	for (int i = 0; i < 2; i++)
		msg_expect(scene.innocent[i].sock, CTL_DEMOTE, NULL, NULL);
	close(tool);
	close(kick);
	lane_ends_close(ends); /* kicks again, for the dead */
	scene_close(&scene);
}

struct storm {
	const struct shuntd *daemon;
	unsigned int count;
};

/* Connects as fast as possible, and leaves: at once, after garbage, or in the middle of things. */
static void rage(void *arg)
{
	const struct storm *storm = arg;
	uint64_t start = clock_now_ns(), limit = start + SECONDS_OF_STORM * 1000000000ull;
	uint8_t bytes[CTL_MAX_BYTES];
	size_t len = ctl_encode(&hello, bytes);
	unsigned int n = 0;

	for (; clock_now_ns() < limit; n++) {
		int sock = shuntd_connect(storm->daemon);

		if (sock < 0)
			continue; /* the backlog is full */
		if (n % 4 == 1)
			send(sock, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		else if (n % 4 == 2)
			send(sock, bytes, 7, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(sock);
	}
	tap_diag("%u connects per second by one of two",
		 (unsigned int)(n * 1000000000ull / (clock_now_ns() - start)));
	CHECK(n > 100);
}

TAP_CASE(a_storm_of_connects_disturbs_nobody)
{
	struct scene scene;
	struct storm storm = {.daemon = &scene.daemon};
	uint64_t limit, worst = 0;
	pid_t pids[2];
	long memory;

	REQUIRE(scene_open(&scene, ""));
	storm.count = 0;
	child_run(CHILD_UID_SAME, rage, &storm); /* so that memory pools have their size */
	settles(&scene);
	memory = shuntd_status(&scene.daemon, "VmRSS");
	for (int i = 0; i < 2; i++)
		pids[i] = child_start(CHILD_UID_SAME, rage, &storm);
	limit = clock_now_ns() + SECONDS_OF_STORM * 1000000000ull;
	while (clock_now_ns() < limit) {
		uint64_t start = clock_now_ns();

		others_are_served(&scene);
		if (clock_now_ns() - start > worst)
			worst = clock_now_ns() - start;
	}
	for (int i = 0; i < 2; i++)
		child_finish(pids[i]);
	tap_diag("slowest pairing meanwhile: %u ms", (unsigned int)(worst / 1000000));
	CHECK(settles(&scene));
	/* Sanitizers keep freed memory for a while. */
	if (!getenv("ASAN_OPTIONS"))
		CHECK(shuntd_status(&scene.daemon, "VmRSS") < memory + 1024);
	scene_close(&scene);
}

/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"

#include "lib/child.h"
#include "lib/lane.h"
#include "lib/net.h"
#include "lib/tap.h"

/* Through two epochs, with payload in both directions before and between. */
static void pair_twice(const struct shuntd *daemon, enum net_family family)
{
	struct lane_end ends[2];
	char bytes[100] = "";
	int tcp[2], rc;

	rc = net_pair(family, tcp);
	if (rc < 0) {
		tap_diag("family %d: no such connection here: %s", (int)family, strerror(-rc));
		return;
	}
	if (!lane_init(daemon, tcp, ends))
		return;
	CHECK_EQ(write(tcp[0], bytes, 100), 100);
	CHECK_EQ(write(tcp[1], bytes, 70), 70);
	CHECK_EQ(recv(tcp[1], bytes, 60, MSG_WAITALL), 60);
	if (lane_pair(ends, 1) && lane_complete(ends, 1)) {
		lane_drop(&ends[0]);
		lane_drop(&ends[1]);
		lane_say_drained(&ends[0], 1);
		lane_say_drained(&ends[1], 1);
		CHECK_EQ(write(tcp[0], bytes, 100), 100);
		if (lane_pair(ends, 2))
			lane_complete(ends, 2);
	}
	lane_ends_close(ends);
}

TAP_CASE(two_ends_are_paired_in_every_address_family)
{
	struct shuntd daemon;

	REQUIRE(shuntd_start(&daemon, ""));
	pair_twice(&daemon, NET_V4);
	pair_twice(&daemon, NET_V6);
	pair_twice(&daemon, NET_MAPPED);
	pair_twice(&daemon, NET_MIXED);
	shuntd_stop(&daemon);
}

TAP_CASE(the_higher_epoch_of_the_two_is_taken)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends));
	msg_register(ends[0].sock, ends[0].token, tcp[0], 1);
	msg_register(ends[1].sock, ends[1].token, tcp[1], 7);
	for (int i = 0; i < 2; i++) {
		msg_expect(ends[i].sock, CTL_REGISTERED, NULL, NULL);
		lane_await_pair(&ends[i], 7);
	}
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(the_other_half_comes_only_when_it_is_mapped)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1));
	msg_is_silent(ends[0].sock);
	lane_say_mapped(&ends[1], 1);
	lane_await_peer(&ends[0], 1);
	msg_is_silent(ends[1].sock);
	lane_say_mapped(&ends[0], 1);
	lane_await_peer(&ends[1], 1);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

/* Whoever leaves before both have both halves takes the lane with it. */
TAP_CASE(a_lane_that_is_not_complete_is_taken_back)
{
	const struct ctl_msg cancel = {.type = CTL_CANCEL, .token = 100};
	struct shuntd daemon;
	struct lane_end ends[2];
	struct ctl_msg msg;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1));
	lane_say_mapped(&ends[1], 1);
	lane_await_peer(&ends[0], 1);
	CHECK_OK(msg_send(ends[0].sock, &cancel, NULL, 0));
	for (int i = 0; i < 2; i++) {
		REQUIRE(msg_expect(ends[i].sock, CTL_UNPAIR, &msg, NULL));
		CHECK_EQ(msg.token, ends[i].token);
		CHECK_EQ(msg.u.unpair.epoch, 1);
		CHECK_EQ(msg.u.unpair.reason, i ? REASON_PEER_LEFT : REASON_CANCELLED);
		lane_drop(&ends[i]);
	}
	/* A message that crossed is ignored; the next epoch is possible; then one dies. */
	lane_say_mapped(&ends[1], 1);
	REQUIRE(lane_pair(ends, 2));
	close(ends[0].sock);
	ends[0].sock = -1;
	REQUIRE(msg_expect(ends[1].sock, CTL_UNPAIR, &msg, NULL));
	CHECK_EQ(msg.u.unpair.reason, REASON_PEER_DIED);
	lane_ends_close(ends);
	CHECK_EQ(shuntd_count_halves(&daemon), 0);
	shuntd_stop(&daemon);
}

/* The canceller never said ready, so the other one, which may hold both halves, drops the epoch. */
TAP_CASE(a_cancel_that_crossed_the_last_message_is_told_to_the_other)
{
	const struct ctl_msg cancel = {.type = CTL_CANCEL, .token = 100};
	struct shuntd daemon;
	struct lane_end ends[2];
	struct ctl_msg msg;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	CHECK_OK(msg_send(ends[0].sock, &cancel, NULL, 0));
	REQUIRE(msg_expect(ends[0].sock, CTL_UNPAIR, &msg, NULL));
	REQUIRE(msg_expect(ends[1].sock, CTL_UNPAIR, &msg, NULL));
	CHECK_EQ(msg.u.unpair.reason, REASON_PEER_LEFT);
	CHECK(lane_rings(ends[1].kick));
	lane_drop(&ends[0]);
	lane_drop(&ends[1]);
	lane_say_drained(&ends[1], 1);
	lane_pair(ends, 2);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

/* Whether @fd sees the end of the stream before @ms are over. */
static bool sees_eof(int fd, int ms)
{
	struct pollfd poll_in = {.fd = fd, .events = POLLIN};
	char byte;

	return poll(&poll_in, 1, ms) == 1 && read(fd, &byte, 1) == 0;
}

TAP_CASE(a_late_other_end_is_refused_and_the_socket_let_go)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, "pair_wait_ms = 200;"));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends));
	msg_register(ends[0].sock, ends[0].token, tcp[0], 1);
	msg_expect(ends[0].sock, CTL_REGISTERED, NULL, NULL);
	msg_expect_refused(ends[0].sock, ends[0].token, REASON_PEER_UNKNOWN);
	/* The daemon has closed its duplicate when it says so: our close is the last one. */
	close(tcp[0]);
	ends[0].tcp = -1;
	CHECK(sees_eof(tcp[1], SHUNTD_WAIT_MS));
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(an_end_waits_for_one_that_has_not_drained)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, "pair_wait_ms = 200;"));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	lane_say_drained(&ends[0], 1);
	msg_register(ends[0].sock, ends[0].token, tcp[0], 2);
	msg_expect(ends[0].sock, CTL_REGISTERED, NULL, NULL);
	msg_expect_refused(ends[0].sock, ends[0].token, REASON_PROMOTE_WAIT);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(cancelling_lets_the_socket_go)
{
	const struct ctl_msg cancel = {.type = CTL_CANCEL, .token = 100};
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, "pair_wait_ms = 60000;"));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends));
	msg_register(ends[0].sock, ends[0].token, tcp[0], 1);
	msg_expect(ends[0].sock, CTL_REGISTERED, NULL, NULL);
	CHECK_OK(msg_send(ends[0].sock, &cancel, NULL, 0));
	msg_expect_refused(ends[0].sock, ends[0].token, REASON_CANCELLED);
	close(tcp[0]);
	ends[0].tcp = -1;
	CHECK(sees_eof(tcp[1], SHUNTD_WAIT_MS));
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

struct waiter {
	const struct shuntd *daemon;
	int tcp[2];
	int ready;
	bool with_child;
};

/* Registers and then sleeps for ever; a forked child may hold the session's socket open. */
static void wait_for_death(void *arg)
{
	struct waiter *waiter = arg;
	int sock = shuntd_session(waiter->daemon, 0);
	pid_t child = 0;

	close(waiter->tcp[1]);
	msg_register(sock, 1, waiter->tcp[0], 1);
	msg_expect(sock, CTL_REGISTERED, NULL, NULL);
	if (waiter->with_child)
		child = fork();
	if (waiter->with_child && child == 0)
		close(waiter->tcp[0]);
	else
		CHECK_EQ(write(waiter->ready, &child, sizeof(child)), sizeof(child));
	for (;;)
		pause();
}

static void kill_a_waiter(const struct shuntd *daemon, bool with_child)
{
	struct waiter waiter = {.daemon = daemon, .with_child = with_child};
	pid_t pid, child = 0;
	int ready[2];

	REQUIRE_OK(net_pair(NET_V4, waiter.tcp));
	REQUIRE_OK(pipe(ready));
	waiter.ready = ready[1];
	pid = child_start(CHILD_UID_SAME, wait_for_death, &waiter);
	close(waiter.tcp[0]);
	CHECK_EQ(read(ready[0], &child, sizeof(child)), sizeof(child));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* Long before pair_wait_ms. */
	CHECK(sees_eof(waiter.tcp[1], SHUNTD_WAIT_MS));
	if (child > 0)
		kill(child, SIGKILL);
	close(waiter.tcp[1]);
	close(ready[0]);
	close(ready[1]);
}

TAP_CASE(the_fin_of_a_killed_waiter_is_not_hidden)
{
	struct shuntd daemon;

	REQUIRE(shuntd_start(&daemon, "pair_wait_ms = 60000;"));
	kill_a_waiter(&daemon, false);
	kill_a_waiter(&daemon, true);
	shuntd_stop(&daemon);
}

/* A connection between two given ports. */
static bool connect_ports(uint16_t from, uint16_t to, int ret_tcp[2])
{
	const struct linger reset = {1, 0};
	const int one = 1;
	struct sockaddr_in a = {.sin_family = AF_INET}, b = {.sin_family = AF_INET};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = b.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons(from);
	b.sin_port = htons(to);
	ret_tcp[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(ret_tcp[0], SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&b, sizeof(b)) || listen(listener, 1) ||
	    bind(ret_tcp[0], (struct sockaddr *)&a, sizeof(a)) ||
	    connect(ret_tcp[0], (struct sockaddr *)&b, sizeof(b)))
		return CHECK_EQ(errno, 0);
	ret_tcp[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	/* So that the ports are free at once when they are closed. */
	for (int i = 0; i < 2; i++)
		setsockopt(ret_tcp[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	return CHECK_OK(ret_tcp[1]);
}

TAP_CASE(a_stale_end_of_reused_ports_is_not_paired)
{
	const uint16_t from = (uint16_t)(20000 + getpid() % 10000), to = (uint16_t)(from + 1);
	struct shuntd daemon;
	struct lane_end old[2], ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, "pair_wait_ms = 60000;"));
	REQUIRE(connect_ports(from, to, tcp));
	REQUIRE(lane_init(&daemon, tcp, old));
	/* One end waits and is reset by the other; its program has not noticed. */
	msg_register(old[0].sock, old[0].token, old[0].tcp, 1);
	msg_expect(old[0].sock, CTL_REGISTERED, NULL, NULL);
	close(old[1].tcp);
	/* The same ports once more, while the old socket still exists. */
	REQUIRE(connect_ports(from, to, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends));
	msg_register(ends[1].sock, ends[1].token, ends[1].tcp, 1);
	msg_expect(ends[1].sock, CTL_REGISTERED, NULL, NULL);
	msg_expect_refused(old[0].sock, old[0].token, REASON_NOT_CONNECTED);
	msg_is_silent(ends[1].sock);
	/* The right one comes. */
	msg_register(ends[0].sock, ends[0].token, ends[0].tcp, 1);
	msg_expect(ends[0].sock, CTL_REGISTERED, NULL, NULL);
	CHECK(lane_await_pair(&ends[0], 1) && lane_await_pair(&ends[1], 1));
	old[1].tcp = -1;
	lane_ends_close(old);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

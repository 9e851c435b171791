/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/child.h"
#include "lib/lane.h"
#include "lib/net.h"
#include "lib/tap.h"

/*
 * What gets no lane, and why: each refusal has its reason, and the session goes on.
 */

static void expect_refusal(int sock, int fd, enum reason reason)
{
	static uint64_t token = 1000;

	REQUIRE_OK(fd);
	msg_register(sock, ++token, fd, 1);
	msg_expect_refused(sock, token, reason);
	close(fd);
}

static int self_connected(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len) ||
	    connect(fd, (struct sockaddr *)&addr, len))
		return -errno;
	return fd;
}

static int listening(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return listen(fd, 1) ? -errno : fd;
}

static int udp_connected(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(9)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : fd;
}

TAP_CASE(descriptors_that_are_no_connection_are_refused)
{
	struct shuntd daemon;
	int sock, fds[2], pair[2];

	REQUIRE(shuntd_start(&daemon, ""));
	sock = shuntd_session(&daemon, 0);
	REQUIRE(sock >= 0);
	REQUIRE_OK(pipe(fds));
	expect_refusal(sock, fds[0], REASON_NOT_TCP);
	expect_refusal(sock, fds[1], REASON_NOT_TCP);
	REQUIRE_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	expect_refusal(sock, pair[0], REASON_NOT_TCP);
	close(pair[1]);
	expect_refusal(sock, udp_connected(), REASON_NOT_TCP);
	expect_refusal(sock, eventfd(0, 0), REASON_NOT_TCP);
	expect_refusal(sock, dup(sock), REASON_NOT_TCP);
	expect_refusal(sock, socket(AF_INET, SOCK_STREAM, 0), REASON_NOT_CONNECTED);
	expect_refusal(sock, socket(AF_INET6, SOCK_STREAM, 0), REASON_NOT_CONNECTED);
	expect_refusal(sock, listening(), REASON_NOT_CONNECTED);
	expect_refusal(sock, self_connected(), REASON_SELF_CONNECT);
	fd_close(sock);
	shuntd_stop(&daemon);
}

TAP_CASE(connections_that_are_not_eligible_are_refused)
{
	struct shuntd daemon;
	int sock, tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	sock = shuntd_session(&daemon, 0);
	REQUIRE(sock >= 0);

	REQUIRE_OK(net_pair(NET_V4, tcp));
	shutdown(tcp[1], SHUT_WR);
	usleep(10000);
	expect_refusal(sock, dup(tcp[0]), REASON_FIN_SEEN);
	expect_refusal(sock, tcp[1], REASON_FIN_SEEN);

	REQUIRE_OK(net_pair(NET_V4, tcp));
	if (setsockopt(tcp[0], SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) == 0)
		expect_refusal(sock, tcp[0], REASON_BOUND_TO_DEVICE);
	else
		tap_diag("not tried: binding to a device is not allowed here");

	if (setsockopt(tcp[1], IPPROTO_TCP, TCP_ULP, "tls", 4) == 0)
		expect_refusal(sock, tcp[1], REASON_KTLS);
	else
		tap_diag("not tried: no kernel TLS here");
	fd_close(sock);
	shuntd_stop(&daemon);
}

/* A connection of another network namespace, through descriptors made there. */
static int pair_elsewhere(int ret_tcp[2])
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), rc;

	if (home < 0 || unshare(CLONE_NEWNET))
		return -errno;
	rc = system("ip link set lo up 2>/dev/null") ? -ENOSYS : net_pair(NET_V4, ret_tcp);
	if (setns(home, CLONE_NEWNET))
		rc = -errno;
	close(home);
	return rc;
}

TAP_CASE(another_network_namespace_is_refused)
{
	struct shuntd daemon;
	int sock, tcp[2], rc;

	rc = pair_elsewhere(tcp);
	if (rc < 0)
		SKIP("no network namespace could be made: %s", strerror(-rc));
	REQUIRE(shuntd_start(&daemon, ""));
	sock = shuntd_session(&daemon, 0);
	expect_refusal(sock, dup(tcp[0]), REASON_OTHER_NETNS);
	expect_refusal(sock, tcp[1], REASON_OTHER_NETNS);
	fd_close(sock);
	shuntd_stop(&daemon);
}

/* Somebody else's socket, got through fork or SCM_RIGHTS: one registration each. */
TAP_CASE(a_socket_that_is_registered_already_is_refused)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2], thief;

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends));
	thief = shuntd_session(&daemon, 0);
	REQUIRE(thief >= 0);
	msg_register(ends[0].sock, ends[0].token, tcp[0], 1);
	msg_expect(ends[0].sock, CTL_REGISTERED, NULL, NULL);
	expect_refusal(thief, dup(tcp[0]), REASON_SEVERAL_HOLDERS);
	expect_refusal(ends[0].sock, dup(tcp[0]), REASON_SEVERAL_HOLDERS);
	/* Its owner gets his lane all the same. */
	msg_register(ends[1].sock, ends[1].token, tcp[1], 1);
	msg_expect(ends[1].sock, CTL_REGISTERED, NULL, NULL);
	CHECK(lane_await_pair(&ends[0], 1) && lane_await_pair(&ends[1], 1));
	expect_refusal(thief, dup(tcp[1]), REASON_SEVERAL_HOLDERS);
	fd_close(thief);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(connections_beyond_the_quota_are_refused)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2], other[2];

	REQUIRE(shuntd_start(&daemon, "connections_per_uid = 2;"));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE_OK(net_pair(NET_V4, other));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	expect_refusal(ends[0].sock, dup(other[0]), REASON_OVER_QUOTA);
	lane_ends_close(ends);
	/* What is given back can be taken again. */
	REQUIRE(lane_init(&daemon, other, ends) && lane_pair(ends, 1));
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(ring_memory_beyond_the_quota_is_refused)
{
	struct shuntd daemon;
	struct lane_end ends[2], more[2];
	int tcp[2], other[2];

	REQUIRE(shuntd_start(&daemon, "ring_bytes_per_uid = 786432;")); /* three rings */
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE_OK(net_pair(NET_V4, other));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1));
	REQUIRE(lane_init(&daemon, other, more));
	for (int i = 0; i < 2; i++) {
		msg_register(more[i].sock, more[i].token, more[i].tcp, 1);
		msg_expect(more[i].sock, CTL_REGISTERED, NULL, NULL);
	}
	msg_expect_refused(more[0].sock, more[0].token, REASON_OVER_QUOTA);
	msg_expect_refused(more[1].sock, more[1].token, REASON_OVER_QUOTA);
	lane_ends_close(ends);
	while (shuntd_count_halves(&daemon) > 0)
		usleep(1000);
	CHECK(lane_pair(more, 1));
	lane_ends_close(more);
	shuntd_stop(&daemon);
}

TAP_CASE(registrations_beyond_the_rate_must_wait)
{
	struct shuntd daemon;
	struct ctl_msg msg;
	int sock, tcp[2], refused = 0;

	REQUIRE(shuntd_start(&daemon, "registrations_per_s = 5;"));
	sock = shuntd_session(&daemon, 0);
	for (uint64_t token = 1; token <= 20; token++) {
		REQUIRE_OK(net_pair(NET_V4, tcp));
		msg_register(sock, token, tcp[0], 1);
		REQUIRE(CHECK_OK(msg_recv(sock, &msg, &(struct fd_bag){0})));
		if (msg.type == CTL_REFUSED) {
			CHECK_EQ(msg.u.refused.reason, REASON_OVER_QUOTA);
			CHECK(msg.u.refused.retry_ms > 0 && msg.u.refused.retry_ms <= 1000);
			refused++;
		}
		close(tcp[0]);
		close(tcp[1]);
	}
	CHECK(refused >= 1 && refused <= 15);
	fd_close(sock);
	shuntd_stop(&daemon);
}

TAP_CASE(sessions_beyond_the_quota_are_turned_away)
{
	struct shuntd daemon;
	int socks[3];

	REQUIRE(shuntd_start(&daemon, "sessions_per_uid = 2;"));
	socks[0] = shuntd_session(&daemon, 0);
	socks[1] = shuntd_session(&daemon, CTL_HELLO_TOOL);
	socks[2] = shuntd_connect(&daemon);
	msg_expect_refused(socks[2], 0, REASON_OVER_QUOTA);
	msg_expect_cut(socks[2]);
	for (int i = 0; i < 3; i++)
		fd_close(socks[i]);
	shuntd_stop(&daemon);
}

TAP_CASE(another_version_is_refused)
{
	const struct ctl_msg hello = {.type = CTL_HELLO, .u.hello = {.version = 99}};
	struct shuntd daemon;
	int sock;

	REQUIRE(shuntd_start(&daemon, ""));
	sock = shuntd_connect(&daemon);
	CHECK_OK(msg_send(sock, &hello, NULL, 0));
	if (msg_expect(sock, CTL_REFUSED, &(struct ctl_msg){0}, NULL))
		msg_expect_cut(sock);
	fd_close(sock);
	shuntd_stop(&daemon);
}

struct stranger {
	const struct shuntd *daemon;
	int tcp;
	pid_t victim;
	bool is_served;
};

/* What another user sees and may do. */
static void be_stranger(void *arg)
{
	const struct stranger *stranger = arg;
	struct ctl_msg request = {
		.type = CTL_DEMOTE_REQ,
		.token = 3,
		.u.demote_req = {.pid = stranger->victim, .fd = -1},
	};
	struct ctl_msg answer;
	char *text;
	int sock;

	if (!stranger->is_served) {
		sock = shuntd_connect(stranger->daemon);
		if (sock >= 0)
			msg_expect_refused(sock, 0, REASON_NOT_ELIGIBLE);
		else
			CHECK_EQ(sock, -EACCES); /* the socket's mode keeps him out */
		return;
	}
	sock = shuntd_session(stranger->daemon, 0);
	text = msg_query(sock, CTL_QUERY_SS, -1, -1);
	CHECK_STR(text, "{\"connections\":[]}");
	free(text);
	CHECK_OK(msg_send(sock, &request, NULL, 0));
	if (msg_expect(sock, CTL_ANSWER, &answer, NULL)) {
		CHECK_EQ(answer.u.answer.result, -EACCES);
		CHECK_EQ(answer.u.answer.count, 0);
	}
	msg_register(sock, 1, stranger->tcp, 1);
	msg_expect(sock, CTL_REGISTERED, NULL, NULL);
	msg_expect(sock, CTL_PAIR, NULL, NULL);
}

TAP_CASE(other_users_are_served_but_kept_apart)
{
	struct stranger stranger = {.is_served = true, .victim = getpid()};
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2], other[2];

	if (!child_can_switch())
		SKIP("only root can become another user");
	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE_OK(net_pair(NET_V4, other));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	/* A connection with the stranger is paired like any other. */
	msg_register(ends[0].sock, 55, other[0], 1);
	msg_expect(ends[0].sock, CTL_REGISTERED, NULL, NULL);
	stranger.daemon = &daemon;
	stranger.tcp = other[1];
	child_run(CHILD_UID_OTHER, be_stranger, &stranger);
	msg_expect(ends[0].sock, CTL_PAIR, NULL, NULL);
	msg_expect(ends[0].sock, CTL_UNPAIR, NULL, NULL);
	msg_is_silent(ends[1].sock); /* no DEMOTE came */
	lane_ends_close(ends);
	close(other[0]);
	close(other[1]);
	shuntd_stop(&daemon);
}

TAP_CASE(a_private_daemon_serves_its_user_only)
{
	struct stranger stranger = {.is_served = false};
	struct shuntd daemon;

	if (!child_can_switch())
		SKIP("only root can become another user");
	REQUIRE(shuntd_start(&daemon, "users = \"own\";"));
	stranger.daemon = &daemon;
	child_run(CHILD_UID_OTHER, be_stranger, &stranger);
	fd_close(shuntd_session(&daemon, 0));
	shuntd_stop(&daemon);
}

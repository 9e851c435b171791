/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"

#include "lib/child.h"
#include "lib/lane.h"
#include "lib/net.h"
#include "lib/tap.h"

/* The counter moves after the message is in the socket, so we may be early. */
static bool await_mail(const struct notice_page *page, uint32_t slot, uint64_t value)
{
	for (int i = 0; i < SHUNTD_WAIT_MS && notice_mail(page, slot) < value; i++)
		usleep(1000);
	return CHECK_EQ(notice_mail(page, slot), value);
}

TAP_CASE(mail_moves_the_counter_of_ones_own_slot)
{
	struct shuntd daemon;
	struct notice_page *page = NULL, *page_b = NULL;
	uint32_t slot = 0, slot_b = 0;
	int sock, sock_b;
	char *text;

	REQUIRE(shuntd_start(&daemon, ""));
	sock = shuntd_session_with_page(&daemon, &page, &slot);
	sock_b = shuntd_session_with_page(&daemon, &page_b, &slot_b);
	REQUIRE(page && page_b && slot != slot_b);
	CHECK(notice_alive(page));
	await_mail(page, slot, 1); /* WELCOME */
	await_mail(page, slot_b, 1);
	text = msg_query(sock, CTL_QUERY_STATUS, -1, -1);
	free(text);
	await_mail(page, slot, 2);
	await_mail(page, slot_b, 1);
	fd_close(sock);
	fd_close(sock_b);
	shuntd_stop(&daemon);
	CHECK(!notice_alive(page));
}

/* A program that never sleeps has nothing but the counter to learn of it by. */
TAP_CASE(a_session_that_is_cut_off_moves_the_counter)
{
	static const char garbage[CTL_MAX_BYTES];
	struct shuntd daemon;
	struct notice_page *page = NULL;
	uint32_t slot = 0;
	char byte;
	int sock;

	REQUIRE(shuntd_start(&daemon, ""));
	sock = shuntd_session_with_page(&daemon, &page, &slot);
	REQUIRE(page);
	await_mail(page, slot, 1); /* WELCOME */
	CHECK_EQ(send(sock, garbage, sizeof(garbage), MSG_NOSIGNAL), (ssize_t)sizeof(garbage));
	await_mail(page, slot, 2);
	/* What it finds then is the end. */
	CHECK_EQ(recv(sock, &byte, 1, MSG_DONTWAIT), 0);
	CHECK(notice_alive(page));
	fd_close(sock);
	shuntd_stop(&daemon);
}

TAP_CASE(the_kernel_tells_of_a_killed_daemon)
{
	struct shuntd daemon;
	struct notice_page *page = NULL;
	uint32_t slot = 0;
	int sock;

	REQUIRE(shuntd_start(&daemon, ""));
	sock = shuntd_session_with_page(&daemon, &page, &slot);
	REQUIRE(page);
	CHECK(notice_alive(page));
	shuntd_kill(&daemon, SIGKILL);
	CHECK(!notice_alive(page));
	fd_close(sock);
	REQUIRE(shuntd_restart(&daemon)); /* over the socket and the lock that were left */
	CHECK(!notice_alive(page));
	shuntd_stop(&daemon);
}

TAP_CASE(a_death_kicks_the_other_side_and_tells_nobody)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	close(ends[0].sock);
	ends[0].sock = -1;
	CHECK(lane_rings(ends[1].kick));
	msg_is_silent(ends[1].sock);
	lane_say_drained(&ends[1], 1);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

static void ask_demote(int sock, int result, uint32_t count)
{
	const struct ctl_msg request = {
		.type = CTL_DEMOTE_REQ,
		.token = 3,
		.u.demote_req = {.pid = getpid(), .fd = -1},
	};
	struct ctl_msg answer;

	CHECK_OK(msg_send(sock, &request, NULL, 0));
	if (msg_expect(sock, CTL_ANSWER, &answer, NULL)) {
		CHECK_EQ(answer.u.answer.result, result);
		CHECK_EQ(answer.u.answer.count, count);
	}
}

static bool expect_demote(struct lane_end *end)
{
	struct ctl_msg msg;

	return msg_expect(end->sock, CTL_DEMOTE, &msg, NULL) && CHECK_EQ(msg.token, end->token) &&
	       CHECK_EQ(msg.u.demote.reason, REASON_REQUESTED) && lane_rings(end->kick);
}

TAP_CASE(a_request_demotes_both_ends_once)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2], tool;

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	tool = shuntd_session(&daemon, CTL_HELLO_TOOL);
	REQUIRE(tool >= 0);
	ask_demote(tool, -ESRCH, 0);
	REQUIRE(lane_init(&daemon, tcp, ends));
	ask_demote(tool, -ENOENT, 0);
	REQUIRE(lane_pair(ends, 1) && lane_complete(ends, 1));
	ask_demote(tool, 0, 2);
	CHECK(expect_demote(&ends[0]) && expect_demote(&ends[1]));
	msg_is_silent(ends[0].sock);
	ask_demote(tool, 0, 2);
	CHECK(expect_demote(&ends[0]) && expect_demote(&ends[1]));
	lane_ends_close(ends);
	fd_close(tool);
	shuntd_stop(&daemon);
}

static void adopt(struct lane_end *end, uint32_t epoch)
{
	const struct ctl_msg msg = {
		.type = CTL_ADOPT,
		.token = end->token,
		.u.adopt = {.fd = end->tcp, .epoch = epoch, .totals = {1, 2, 3, 4, 5}},
	};
	struct ctl_msg reply;

	CHECK_OK(msg_send(end->sock, &msg, &end->tcp, 1));
	if (msg_expect(end->sock, CTL_REGISTERED, &reply, NULL)) {
		CHECK_EQ(reply.u.registered.held, 0);
		CHECK_EQ(reply.u.registered.epoch, epoch);
	}
}

static bool lane_hangs_up(int kick)
{
	struct pollfd hup = {.fd = kick};

	return CHECK_EQ(poll(&hup, 1, SHUNTD_WAIT_MS), 1) && CHECK(hup.revents & POLLHUP);
}

/* Kill the daemon under a complete lane, start another, open sessions with it. */
static bool replace_daemon(struct shuntd *daemon, struct lane_end ends[2])
{
	shuntd_kill(daemon, SIGKILL);
	if (!shuntd_restart(daemon))
		return false;
	for (int i = 0; i < 2; i++) {
		msg_expect_cut(ends[i].sock);
		CHECK(lane_hangs_up(ends[i].kick));
		close(ends[i].sock);
		close(ends[i].kick);
		ends[i].sock = shuntd_session_with_kick(daemon, &ends[i].kick);
		if (ends[i].sock < 0)
			return false;
	}
	return true;
}

TAP_CASE(a_successor_adopts_running_lanes)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2], tool;
	char *text;

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	REQUIRE(replace_daemon(&daemon, ends));
	adopt(&ends[0], 1);
	adopt(&ends[1], 1);
	tool = shuntd_session(&daemon, CTL_HELLO_TOOL);
	REQUIRE(tool >= 0);
	text = msg_query(tool, CTL_QUERY_SS, getpid(), -1);
	CHECK(text && strstr(text, "\"lane\":\"ring\""));
	CHECK(text && strstr(text, "\"lane_bytes\":{\"tx\":3,\"rx\":4}"));
	free(text);
	ask_demote(tool, 0, 2);
	CHECK(expect_demote(&ends[0]) && expect_demote(&ends[1]));
	for (int i = 0; i < 2; i++) {
		lane_say_drained(&ends[i], 1);
		lane_drop(&ends[i]);
	}
	CHECK(lane_pair(ends, 2) && lane_complete(ends, 2));
	lane_ends_close(ends);
	fd_close(tool);
	shuntd_stop(&daemon);
}

/* One end never had both halves, or has drained them, when the daemon died. */
TAP_CASE(an_adopted_end_is_told_that_the_other_is_through)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	struct ctl_msg msg;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	REQUIRE(replace_daemon(&daemon, ends));
	adopt(&ends[0], 1);
	msg_register(ends[1].sock, ends[1].token, tcp[1], 2);
	msg_expect(ends[1].sock, CTL_REGISTERED, NULL, NULL);
	REQUIRE(msg_expect(ends[0].sock, CTL_UNPAIR, &msg, NULL));
	CHECK_EQ(msg.u.unpair.epoch, 1);
	CHECK(lane_rings(ends[0].kick));
	/* Both ways of being through with it: DRAINED, or a registration for a later epoch. */
	lane_drop(&ends[0]);
	lane_drop(&ends[1]);
	msg_register(ends[0].sock, ends[0].token, tcp[0], 2);
	msg_expect(ends[0].sock, CTL_REGISTERED, NULL, NULL);
	CHECK(lane_await_pair(&ends[0], 2) && lane_await_pair(&ends[1], 2));
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

/* A forked holder takes the lane over when the process that registered it is gone. */
TAP_CASE(another_holder_may_adopt)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2], tool;

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	close(ends[0].sock);
	CHECK(lane_hangs_up(ends[0].kick));
	close(ends[0].kick);
	ends[0].sock = shuntd_session_with_kick(&daemon, &ends[0].kick);
	REQUIRE(ends[0].sock >= 0);
	CHECK(lane_rings(ends[1].kick));
	adopt(&ends[0], 1);
	tool = shuntd_session(&daemon, CTL_HELLO_TOOL);
	ask_demote(tool, 0, 2);
	CHECK(expect_demote(&ends[0]) && expect_demote(&ends[1]));
	CHECK_EQ(shuntd_count_halves(&daemon), 2);
	lane_ends_close(ends);
	fd_close(tool);
	shuntd_stop(&daemon);
}

/*
 * Parent and child with a session each hold the same end: both are asked and kicked, each death is
 * told to the other holder and to the peer, and who is left goes on.
 */
TAP_CASE(several_holders_are_all_kicked)
{
	struct shuntd daemon;
	struct lane_end ends[2], child;
	int tcp[2], tool;
	char *text;

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	child = ends[0];
	child.token = 7;
	child.sock = shuntd_session_with_kick(&daemon, &child.kick);
	REQUIRE(child.sock >= 0);
	adopt(&child, 1);
	tool = shuntd_session(&daemon, CTL_HELLO_TOOL);
	text = msg_query(tool, CTL_QUERY_STATS, -1, -1);
	CHECK(text && strstr(text, "\"seen\":2,\"open\":2"));
	free(text);
	ask_demote(tool, 0, 3);
	CHECK(expect_demote(&ends[0]) && expect_demote(&ends[1]) && expect_demote(&child));

	close(ends[0].sock); /* the one that registered it */
	CHECK(lane_rings(child.kick) && lane_rings(ends[1].kick));
	close(ends[0].kick);
	ends[0] = child;
	ask_demote(tool, 0, 2);
	CHECK(expect_demote(&ends[0]) && expect_demote(&ends[1]));
	CHECK(lane_is_silent(child.kick));
	for (int i = 0; i < 2; i++) {
		lane_say_drained(&ends[i], 1);
		lane_drop(&ends[i]);
	}
	CHECK(lane_pair(ends, 2) && lane_complete(ends, 2));
	lane_ends_close(ends);
	fd_close(tool);
	shuntd_stop(&daemon);
}

/* Run shuntd with @argv[1…]; its exit status. */
static int run_shuntd(const char *const argv[], const char *errors)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (!freopen(errors, "w", stderr))
			_exit(126);
		execv(getenv("SHUNTD"), (char *const *)argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TAP_CASE(a_second_daemon_is_kept_out_of_a_directory)
{
	struct shuntd daemon;
	const char *argv[] = {"shuntd", "--runtime-dir", daemon.dir, NULL};
	char path[64], line[256] = "", expected[256];
	FILE *file;

	REQUIRE(shuntd_start(&daemon, ""));
	snprintf(path, sizeof(path), "%s.err", daemon.dir);
	CHECK_EQ(run_shuntd(argv, path), 1);
	file = fopen(path, "re");
	REQUIRE(file && fgets(line, sizeof(line), file));
	fclose(file);
	unlink(path);
	snprintf(expected, sizeof(expected),
		 "shuntd: error: another shuntd (pid %d) serves %s already\n", (int)daemon.pid,
		 daemon.dir);
	CHECK_STR(line, expected);
	fd_close(shuntd_session(&daemon, 0)); /* the first one is still there */
	shuntd_stop(&daemon);
}

TAP_CASE(wrong_calls_end_with_status_2)
{
	static const char *const calls[][4] = {
		{"shuntd", "--nonsense", NULL},	       {"shuntd", "argument", NULL},
		{"shuntd", "--exit-idle", "0", NULL},  {"shuntd", "--exit-idle", "5x", NULL},
		{"shuntd", "--exit-idle", "-1", NULL},
	};
	static const char *const one[] = {"shuntd", "--runtime-dir", "relative", NULL};
	static const char *const two[] = {"shuntd", "--config", "/nonexistent", NULL};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		CHECK_EQ(run_shuntd(calls[i], "/dev/null"), 2);
	CHECK_EQ(run_shuntd(one, "/dev/null"), 1);
	CHECK_EQ(run_shuntd(two, "/dev/null"), 1);
}

TAP_CASE(it_ends_when_idle_and_asked_to)
{
	char dir[] = "/tmp/shunt-test-XXXXXX", path[64];
	const char *argv[] = {"shuntd", "--runtime-dir", dir, "--exit-idle", "1", NULL};

	REQUIRE(mkdtemp(dir));
	CHECK_EQ(run_shuntd(argv, "/dev/null"), 0);
	snprintf(path, sizeof(path), "%s/shuntd.lock", dir);
	unlink(path);
	CHECK_OK(rmdir(dir));
}

/* With clients, on lanes and waiting far off, nothing wakes the daemon. */
TAP_CASE(an_idle_daemon_sleeps)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	long before;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	usleep(200000);
	before = shuntd_status(&daemon, "voluntary_ctxt_switches");
	usleep(1500000);
	CHECK(before > 0);
	CHECK_EQ(shuntd_status(&daemon, "voluntary_ctxt_switches"), before);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

/* systemd made the socket: it stays when the daemon goes. */
TAP_CASE(a_passed_socket_is_served)
{
	struct shuntd daemon = {.dir = "/tmp/shunt-test-XXXXXX"};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0), client;
	char pid[16];

	REQUIRE(mkdtemp(daemon.dir));
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/shuntd.sock", daemon.dir);
	REQUIRE_OK(bind(sock, (struct sockaddr *)&addr, sizeof(addr)));
	REQUIRE_OK(listen(sock, 5));
	daemon.pid = fork();
	if (daemon.pid == 0) {
		dup2(sock, 3);
		snprintf(pid, sizeof(pid), "%d", (int)getpid());
		setenv("LISTEN_PID", pid, 1);
		setenv("LISTEN_FDS", "1", 1);
		execl(getenv("SHUNTD"), "shuntd", "--runtime-dir", daemon.dir, (char *)NULL);
		_exit(127);
	}
	client = shuntd_session(&daemon, 0);
	CHECK_OK(client);
	fd_close(client);
	close(sock);
	CHECK_EQ(shuntd_kill(&daemon, SIGTERM), 0);
	CHECK_OK(unlink(addr.sun_path));
	unlink(shuntd_path(&daemon, "shuntd.lock"));
	CHECK_OK(rmdir(daemon.dir));
}

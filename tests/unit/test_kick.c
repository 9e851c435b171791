/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shunt/shunt.h>

#include "client/epoll.h"
#include "client/fork.h"
#include "client/poll.h"
#include "client/session.h"
#include "client/sock.h"
#include "client/stream.h"

#include "lib/child.h"
#include "lib/lane.h"
#include "lib/net.h"
#include "lib/tap.h"

/*
 * The kick, with a real daemon and the real library. One connection: a sleeper at one end, at the
 * other a parent that does nothing and its child, which stores a byte and dies before it rings the
 * bell. The side lives on, so that TCP says nothing: only the daemon can wake the sleeper.
 */

enum how { IN_RECV, IN_POLL, IN_EPOLL, HOWS };

static const char *const how_names[HOWS] = {"recv", "poll", "epoll_wait"};

struct scene {
	struct shuntd daemon;
	int tcp[2]; /* sleeper, the other end */
	int say[2]; /* to the test: 'e' the lane runs, 'c' the child's session too, 'd' got the byte
		     */
	int ask[2]; /* to the child: 'a' open a session, 'g' store and die, 's' send and stay */
	int stay[2]; /* hangs up when it is over */
	enum how how;
	pid_t sleeper, parent;
};

/* Longest time for anything to happen that has to. Chosen: a sanitizer is slow. */
#define PATIENCE_MS SHUNTD_WAIT_MS

static struct sock *attach(int fd)
{
	struct shunt_stream *stream = NULL;

	CHECK_OK(shunt_attach(fd, &stream));
	return (struct sock *)stream;
}

static bool on_ring(struct sock *sock)
{
	struct shunt_info info = {.size = sizeof(info)};

	return CHECK_OK(shunt_get_info((struct shunt_stream *)sock, &info)) &&
	       info.tx_lane == SHUNT_LANE_RING && info.rx_lane == SHUNT_LANE_RING;
}

static void say(const struct scene *scene, char what)
{
	CHECK_EQ(write(scene->say[1], &what, 1), 1);
}

/* Until the test has seen enough. */
static void stay(const struct scene *scene)
{
	struct pollfd end = {.fd = scene->stay[0], .events = POLLIN};

	close(scene->stay[1]);
	poll(&end, 1, -1);
	_exit(0);
}

static void wait_readable(const struct scene *scene, struct sock *sock)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct pollfd fd = {.fd = sock->fd, .events = POLLIN};
	int ep;

	if (scene->how == IN_POLL) {
		CHECK_EQ(poll_call(&fd, 1, NULL, NULL), 1);
	} else if (scene->how == IN_EPOLL) {
		ep = epoll_create1(EPOLL_CLOEXEC);
		CHECK_OK(epoll_ctl_call(ep, EPOLL_CTL_ADD, sock->fd, &event));
		CHECK_EQ(epoll_wait_call(ep, &event, 1, NULL, NULL), 1);
	}
}

static void sleeper(void *arg)
{
	const struct scene *scene = arg;
	struct sock *sock = attach(scene->tcp[0]);
	char byte = 0;

	close(scene->tcp[1]);
	while (sock_recv(sock, &byte, 1, 0) == 1 && byte != 'e')
		CHECK_EQ(sock_send(sock, &byte, 1, 0), 1);
	say(scene, 'e');
	wait_readable(scene, sock);
	CHECK_EQ(sock_recv(sock, &byte, 1, 0), 1);
	CHECK_EQ(byte, 'x');
	say(scene, 'd');
	stay(scene);
}

/* A session of this process's own, in which the daemon knows of the lane. */
static void open_session(void)
{
	for (int i = 0; i < PATIENCE_MS && session_ensure(); i++)
		usleep(1000);
	for (int i = 0; i < PATIENCE_MS && session_view.adopt_last; i++) {
		usleep(1000);
		session_poll();
	}
	CHECK_EQ(session_view.adopt_last, 0);
}

static void child_of_other_end(const struct scene *scene, struct sock *sock)
{
	char order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_session();
	say(scene, 'c');
	while (read(scene->ask[0], &order, 1) == 1 && order == 'a') {
		session_poll(); /* finds the old session gone */
		open_session();
		say(scene, 'c');
	}
	if (order == 'g')
		sock->bell_peer = -1; /* it dies before it rings this */
	CHECK_EQ(sock_send(sock, "x", 1, 0), 1);
	if (order == 'g')
		raise(SIGKILL);
	stay(scene);
}

static void other_end(void *arg)
{
	const struct scene *scene = arg;
	struct sock *sock = attach(scene->tcp[1]);
	char byte = 0;
	pid_t pid;

	close(scene->tcp[0]);
	CHECK_OK(fork_init(NULL));
	while (!on_ring(sock))
		if (sock_send(sock, &byte, 1, 0) != 1 || sock_recv(sock, &byte, 1, 0) != 1)
			return;
	CHECK_EQ(sock_send(sock, "e", 1, 0), 1);
	pid = fork();
	if (pid == 0)
		child_of_other_end(scene, sock);
	stay(scene);
}

static bool hear(const struct scene *scene, char what)
{
	struct pollfd say = {.fd = scene->say[0], .events = POLLIN};
	char got = 0;

	return CHECK_EQ(poll(&say, 1, PATIENCE_MS), 1) &&
	       CHECK_EQ(read(scene->say[0], &got, 1), 1) && CHECK_EQ(got, what);
}

static long switches_of(pid_t pid)
{
	const struct shuntd process = {.pid = pid};

	return shuntd_status(&process, "voluntary_ctxt_switches");
}

/* Whether the sleeper sleeps, and not in bits: nothing wakes it for longer than it sleeps alone. */
static bool sleeps_soundly(const struct scene *scene)
{
	long before = -1, now = -2;

	for (int i = 0; i < PATIENCE_MS / 1300 && now != before; i++) {
		before = switches_of(scene->sleeper);
		usleep(1300000);
		now = switches_of(scene->sleeper);
	}
	return CHECK(now > 0) && CHECK_EQ(now, before);
}

static bool scene_open(struct scene *scene, enum how how)
{
	bool ok;

	scene->how = how;
	ok = shuntd_start(&scene->daemon, "promote_after = 1;\n") &&
	     CHECK_OK(net_pair(NET_V4, scene->tcp)) && CHECK_OK(pipe2(scene->say, O_CLOEXEC)) &&
	     CHECK_OK(pipe2(scene->ask, O_CLOEXEC)) && CHECK_OK(pipe2(scene->stay, O_CLOEXEC));
	if (!ok)
		return false;
	tap_diag("asleep in %s", how_names[how]);
	setenv("SHUNT_RUNTIME_DIR", scene->daemon.dir, 1);
	scene->sleeper = child_start(CHILD_UID_SAME, sleeper, scene);
	scene->parent = child_start(CHILD_UID_SAME, other_end, scene);
	close(scene->tcp[0]);
	close(scene->tcp[1]);
	close(scene->stay[0]);
	/* In any order: both are ready. */
	for (int i = 0; i < 2; i++) {
		struct pollfd say = {.fd = scene->say[0], .events = POLLIN};
		char got = 0;

		if (!CHECK_EQ(poll(&say, 1, PATIENCE_MS), 1) ||
		    !CHECK_EQ(read(scene->say[0], &got, 1), 1) || !CHECK(got == 'e' || got == 'c'))
			return false;
	}
	return sleeps_soundly(scene);
}

static void order(const struct scene *scene, char what)
{
	CHECK_EQ(write(scene->ask[1], &what, 1), 1);
}

static void scene_close(struct scene *scene)
{
	close(scene->stay[1]);
	child_finish(scene->sleeper);
	child_finish(scene->parent);
	close(scene->say[0]);
	close(scene->say[1]);
	close(scene->ask[0]);
	close(scene->ask[1]);
	shuntd_stop(&scene->daemon);
}

TAP_CASE(a_death_before_the_bell_wakes_every_kind_of_sleeper)
{
	for (enum how how = 0; how < HOWS; how++) {
		struct scene scene;

		REQUIRE(scene_open(&scene, how));
		order(&scene, 'g');
		hear(&scene, 'd');
		scene_close(&scene);
	}
}

/* The sleeper learns at once that the daemon is gone, and looks for itself from then on. */
TAP_CASE(without_a_daemon_sleepers_look_for_themselves)
{
	for (enum how how = 0; how < HOWS; how++) {
		struct scene scene;

		REQUIRE(scene_open(&scene, how));
		shuntd_kill(&scene.daemon, SIGKILL);
		order(&scene, 'g');
		hear(&scene, 'd');
		REQUIRE(shuntd_restart(&scene.daemon));
		scene_close(&scene);
	}
}

TAP_CASE(a_successor_kicks_those_who_were_asleep)
{
	for (enum how how = 0; how < HOWS; how++) {
		struct scene scene;

		REQUIRE(scene_open(&scene, how));
		shuntd_kill(&scene.daemon, SIGKILL);
		REQUIRE(shuntd_restart(&scene.daemon));
		order(&scene, 'a');
		hear(&scene, 'c');
		CHECK(sleeps_soundly(&scene)); /* it has found the daemon, and trusts it */
		order(&scene, 'g');
		hear(&scene, 'd');
		scene_close(&scene);
	}
}

/* Whether the sleeper's end is on its way back: it has read the daemon's message, and nobody else
 * can have: the parent at the other end sleeps outside of the library, and so does the child. */
static bool leaves(const struct scene *scene, int tool)
{
	bool leaving = false;

	for (int i = 0; i < PATIENCE_MS / 10 && !leaving; i++) {
		char *text = msg_query(tool, CTL_QUERY_SS, scene->sleeper, -1);

		leaving = text && strstr(text, "\"state\":\"leaving\"");
		free(text);
		usleep(10000);
	}
	return CHECK(leaving);
}

TAP_CASE(a_request_to_demote_wakes_every_kind_of_sleeper)
{
	for (enum how how = 0; how < HOWS; how++) {
		struct ctl_msg request = {.type = CTL_DEMOTE_REQ, .token = 3};
		struct scene scene;
		int tool;

		REQUIRE(scene_open(&scene, how));
		tool = shuntd_session(&scene.daemon, CTL_HELLO_TOOL);
		request.u.demote_req = (struct ctl_demote_req){.pid = scene.sleeper, .fd = -1};
		CHECK_OK(msg_send(tool, &request, NULL, 0));
		msg_expect(tool, CTL_ANSWER, NULL, NULL);
		leaves(&scene, tool);
		order(&scene, 's');
		hear(&scene, 'd');
		close(tool);
		scene_close(&scene);
	}
}

#define LANES 1000

/* What it holds for a moment only, behind a message that it has sent, is closed by then. */
static int settled_fds(const struct shuntd *daemon, int expected)
{
	for (int i = 0; i < 100 && shuntd_count_fds(daemon) != expected; i++)
		usleep(10000);
	return shuntd_count_fds(daemon);
}

static struct lane_end many[LANES][2];

/* LANES lanes between two sessions. @ret_first: the daemon's descriptors behind the first one. */
static bool many_begin(struct shuntd *daemon, int *ret_first)
{
	struct rlimit limit;
	int tcp[2];

	lane_ring_bytes = 4096;
	if (!CHECK_OK(getrlimit(RLIMIT_NOFILE, &limit)))
		return false;
	limit.rlim_cur = limit.rlim_max;
	if (!CHECK_OK(setrlimit(RLIMIT_NOFILE, &limit)) ||
	    !shuntd_start(daemon, "ring_bytes = 4096;"))
		return false;
	for (int i = 0; i < LANES; i++) {
		if (!CHECK_OK(net_pair(NET_V4, tcp)) ||
		    (i == 0 && !lane_init(daemon, tcp, many[0])))
			return false;
		for (int k = 0; k < 2; k++) {
			many[i][k] = many[0][k];
			many[i][k].tcp = tcp[k];
			many[i][k].token = 1000u + (unsigned int)i;
		}
		if (!lane_pair(many[i], 1) || !lane_complete(many[i], 1))
			return false;
		lane_drop(&many[i][0]);
		lane_drop(&many[i][1]);
		if (i == 0)
			*ret_first = settled_fds(daemon, 0);
	}
	return true;
}

static void many_end(struct shuntd *daemon)
{
	for (int i = 1; i < LANES; i++)
		for (int k = 0; k < 2; k++)
			close(many[i][k].tcp);
	lane_ends_close(many[0]);
	shuntd_stop(daemon);
	lane_ring_bytes = LANE_RING_BYTES;
}

TAP_CASE(the_daemon_has_no_descriptor_per_lane)
{
	struct shuntd daemon;
	int first = 0;

	REQUIRE(many_begin(&daemon, &first));
	CHECK(first > 0);
	CHECK_EQ(settled_fds(&daemon, first), first);
	many_end(&daemon);
}

/* All lanes of a process are asked at once, and it reads nothing meanwhile. */
TAP_CASE(a_request_for_more_lanes_than_messages_are_kept_for_reaches_all)
{
	const struct ctl_msg ask = {
		.type = CTL_DEMOTE_REQ,
		.token = 7,
		.u.demote_req = {.pid = getpid(), .fd = -1},
	};
	struct shuntd daemon;
	struct ctl_msg msg;
	int tool, first;

	REQUIRE(many_begin(&daemon, &first));
	tool = shuntd_session(&daemon, CTL_HELLO_TOOL);
	REQUIRE_OK(msg_send(tool, &ask, NULL, 0));
	REQUIRE(msg_expect(tool, CTL_ANSWER, &msg, NULL));
	CHECK_EQ(msg.u.answer.count, 2 * LANES);
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < LANES; i++)
			REQUIRE(msg_expect(many[0][k].sock, CTL_DEMOTE, &msg, NULL));
	close(tool);
	many_end(&daemon);
}

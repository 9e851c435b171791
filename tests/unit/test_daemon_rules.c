/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/lane.h"
#include "lib/net.h"
#include "lib/tap.h"

/*
 * Rules: whom they keep on TCP, what is said of it, and what happens when they change.
 */

#define KEEPS_ACCEPTED                                                                             \
	"rules = (\n"                                                                              \
	"  { port = 1; action = \"tcp\"; },\n"                                                     \
	"  { direction = \"in\"; to = \"127.0.0.0/8\"; action = \"tcp\"; }\n"                      \
	");\n"
#define KEEPS_ALL "\n\nrules = ( { action = \"tcp\"; } );\n"
#define KEEPS_OTHERS                                                                               \
	"rules = ( { program = \"no-such-program\"; action = \"tcp\"; },\n"                        \
	"{ to = \"127.0.0.1\"; action = \"accelerate\"; }, { action = \"tcp\"; } );\n"

/* REFUSED of @token by a rule, and when it may ask again. */
static bool kept(int sock, uint64_t token)
{
	struct ctl_msg msg;

	return msg_expect(sock, CTL_REFUSED, &msg, NULL) && CHECK_EQ(msg.token, token) &&
	       CHECK_EQ(msg.u.refused.reason, REASON_KEPT_BY_RULE) &&
	       CHECK_EQ(msg.u.refused.retry_ms, 60000);
}

static bool registered(int sock)
{
	struct ctl_msg msg;

	return msg_expect(sock, CTL_REGISTERED, &msg, NULL);
}

/* Whether what @kind answers about this process holds @text. */
static bool says(int sock, enum ctl_query kind, const char *text)
{
	char *answer = msg_query(sock, kind, kind == CTL_QUERY_WHY ? getpid() : -1, -1);
	bool found = answer && strstr(answer, text);

	if (!found)
		tap_diag("%s", answer ? answer : "no answer");
	free(answer);
	return CHECK(found);
}

static void configure(const struct shuntd *daemon, const char *conf)
{
	FILE *file = fopen(shuntd_path(daemon, "conf"), "we");

	REQUIRE(file != NULL);
	fputs(conf, file);
	fclose(file);
}

static void reload(const struct shuntd *daemon, const char *conf)
{
	configure(daemon, conf);
	CHECK_OK(kill(daemon->pid, SIGHUP));
}

TAP_CASE(who_comes_second_is_told_at_once)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, KEEPS_ACCEPTED));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends));
	msg_register(ends[1].sock, ends[1].token, tcp[1], 1);
	kept(ends[1].sock, ends[1].token);
	msg_register(ends[0].sock, ends[0].token, tcp[0], 1);
	registered(ends[0].sock);
	kept(ends[0].sock, ends[0].token);
	says(ends[0].sock, CTL_QUERY_SS, "\"reason\":\"kept_by_rule\"");
	says(ends[0].sock, CTL_QUERY_SS, "\"rule\":2");
	says(ends[0].sock, CTL_QUERY_WHY, "rule 2 of the settings, in line 3");
	says(ends[0].sock, CTL_QUERY_STATS, "\"refusals\":{\"kept_by_rule\":2}");
	/* Asked again and again: that is no news. */
	for (int i = 0; i < 20; i++) {
		msg_register(ends[1].sock, ends[1].token, tcp[1], 1);
		kept(ends[1].sock, ends[1].token);
	}
	says(ends[0].sock, CTL_QUERY_WHY, "first registered");
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(who_waits_already_is_told_at_once)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, KEEPS_ACCEPTED));
	REQUIRE_OK(net_pair(NET_MAPPED, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends));
	msg_register(ends[0].sock, ends[0].token, tcp[0], 1);
	registered(ends[0].sock);
	msg_register(ends[1].sock, ends[1].token, tcp[1], 1);
	kept(ends[1].sock, ends[1].token);
	kept(ends[0].sock, ends[0].token);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(who_no_rule_keeps_gets_a_lane)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, KEEPS_OTHERS));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends));
	CHECK(lane_pair(ends, 1) && lane_complete(ends, 1));
	says(ends[0].sock, CTL_QUERY_RULES,
	     "{\"rules\":[{\"number\":1,\"line\":1,\"keys\":{\"program\":\"no-such-program\","
	     "\"action\":\"tcp\"}},{\"number\":2,\"line\":2,\"keys\":{\"to\":\"127.0.0.1\","
	     "\"action\":\"accelerate\"}},");
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

static bool asked(const struct lane_end *end)
{
	struct ctl_msg msg;

	return msg_expect(end->sock, CTL_DEMOTE, &msg, NULL) && CHECK_EQ(msg.token, end->token) &&
	       CHECK_EQ(msg.u.demote.reason, REASON_KEPT_BY_RULE);
}

TAP_CASE(a_lane_ends_when_new_rules_say_so)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	reload(&daemon, KEEPS_OTHERS);
	CHECK(shuntd_logged(&daemon, "the section rules has changed, from now on"));
	CHECK(msg_is_silent(ends[0].sock));
	reload(&daemon, KEEPS_ACCEPTED); /* one end is enough */
	CHECK(asked(&ends[0]) && asked(&ends[1]));
	CHECK(msg_is_silent(ends[0].sock) && msg_is_silent(ends[1].sock));
	lane_say_drained(&ends[0], 1);
	lane_say_drained(&ends[1], 1);
	msg_register(ends[1].sock, ends[1].token, tcp[1], 2);
	kept(ends[1].sock, ends[1].token);
	/* And back: nobody is called, but who asks gets one. */
	reload(&daemon, "");
	CHECK(msg_is_silent(ends[1].sock));
	CHECK(lane_pair(ends, 2));
	says(ends[0].sock, CTL_QUERY_WHY, "rule 2 of the settings");
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(who_waits_is_refused_when_new_rules_say_so)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, "pair_wait_ms = 60000;"));
	REQUIRE_OK(net_pair(NET_V6, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends));
	msg_register(ends[0].sock, ends[0].token, tcp[0], 1);
	registered(ends[0].sock);
	reload(&daemon, KEEPS_ALL);
	kept(ends[0].sock, ends[0].token);
	says(ends[0].sock, CTL_QUERY_WHY, "rule 1 of the settings, in line 3");
	/* A file that is wrong changes nothing. */
	reload(&daemon, "rules = ( { action = \"udp\"; } );");
	CHECK(shuntd_logged(&daemon, "action of a rule must be"));
	says(ends[0].sock, CTL_QUERY_SS, "\"rule\":1");
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(a_lane_of_a_predecessor_is_under_the_new_rules)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	struct ctl_msg msg = {.type = CTL_ADOPT};
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	shuntd_kill(&daemon, SIGKILL);
	configure(&daemon, KEEPS_ACCEPTED);
	REQUIRE(shuntd_restart(&daemon));
	for (int i = 0; i < 2; i++) {
		fd_close(ends[i].sock);
		fd_close(ends[i].kick);
		ends[i].sock = shuntd_session_with_kick(&daemon, &ends[i].kick);
		msg.token = ends[i].token;
		msg.u.adopt = (struct ctl_adopt){.fd = tcp[i], .epoch = 1};
		REQUIRE_OK(msg_send(ends[i].sock, &msg, &tcp[i], 1));
		registered(ends[i].sock);
	}
	CHECK(asked(&ends[0]) && asked(&ends[1]));
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

/* What comes with a greeting as the executable may be anything. */
TAP_CASE(any_descriptor_may_come_with_a_greeting)
{
	const struct ctl_msg hello = {.type = CTL_HELLO, .u.hello = {.version = CTL_VERSION}};
	struct shuntd daemon;
	struct ctl_msg msg;
	int pipes[2], sock, tool, before;

	REQUIRE(shuntd_start(&daemon, "rdma = \"off\";" KEEPS_ALL));
	REQUIRE_OK(pipe(pipes));
	tool = shuntd_session(&daemon, CTL_HELLO_TOOL);
	/* Until it has opened all that it opens for itself. */
	do {
		before = shuntd_count_fds(&daemon);
		usleep(200000);
	} while (shuntd_count_fds(&daemon) != before);
	for (int i = 0; i < 2; i++) {
		sock = shuntd_connect(&daemon);
		REQUIRE_OK(msg_send(sock, &hello, &pipes[i], 1));
		CHECK(msg_expect(sock, CTL_WELCOME, &msg, NULL));
		close(sock);
		for (int j = 0; j < 1000 && shuntd_count_fds(&daemon) > before; j++)
			usleep(1000);
		CHECK_EQ(shuntd_count_fds(&daemon), before);
	}
	close(tool);
	close(pipes[0]);
	close(pipes[1]);
	shuntd_stop(&daemon);
}

/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/lane.h"
#include "lib/net.h"
#include "lib/tap.h"

static json_t *query(int sock, enum ctl_query kind, int32_t pid, int32_t fd)
{
	char *text = msg_query(sock, kind, pid, fd);
	json_t *json = text ? json_loads(text, 0, NULL) : NULL;

	CHECK(json);
	free(text);
	return json;
}

/* The connection of @fd in the answer to ss or why, owned by *@ret_answer. */
static const json_t *connection(int sock, enum ctl_query kind, int fd, json_t **ret_answer)
{
	json_t *answer = query(sock, kind, getpid(), fd);

	*ret_answer = answer;
	CHECK_EQ(json_array_size(json_object_get(answer, "connections")), 1);
	return json_array_get(json_object_get(answer, "connections"), 0);
}

static long long number(const json_t *object, const char *key, const char *inner)
{
	const json_t *value = json_object_get(object, key);

	if (inner)
		value = json_object_get(value, inner);
	return json_is_integer(value) ? json_integer_value(value) : -1;
}

static const char *string(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "(none)";
}

static bool ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

TAP_CASE(ss_shows_a_connection_and_its_live_bytes)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	const json_t *shown;
	json_t *answer;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1));
	shown = connection(ends[0].sock, CTL_QUERY_SS, tcp[0], &answer);
	CHECK_EQ(number(shown, "pid", NULL), getpid());
	CHECK_EQ(number(shown, "fd", NULL), tcp[0]);
	CHECK_EQ(number(shown, "epoch", NULL), 1);
	CHECK_STR(string(shown, "lane"), "tcp");
	CHECK_STR(string(shown, "state"), "registered");
	CHECK_STR(string(shown, "reason"), "none");
	CHECK(strncmp(string(shown, "local"), "127.0.0.1:", 10) == 0);
	CHECK(strncmp(string(shown, "comm"), "unit-daemon_sta", 15) == 0);
	json_decref(answer);

	REQUIRE(lane_complete(ends, 1));
	shown = connection(ends[0].sock, CTL_QUERY_SS, tcp[0], &answer);
	CHECK_STR(string(shown, "state"), "mapped");
	json_decref(answer);

	atomic_store(&ends[0].own->tx_start, opt_some(0));
	atomic_store(&ends[0].own->prod, 1234);
	atomic_store(&ends[0].own->cons, 99);
	shown = connection(ends[0].sock, CTL_QUERY_SS, tcp[0], &answer);
	CHECK_STR(string(shown, "lane"), "ring");
	CHECK_STR(string(shown, "state"), "ring");
	CHECK_EQ(number(shown, "lane_bytes", "tx"), 1234);
	CHECK_EQ(number(shown, "lane_bytes", "rx"), 99);
	json_decref(answer);

	lane_say_drained(&ends[0], 1);
	shown = connection(ends[0].sock, CTL_QUERY_SS, tcp[0], &answer);
	CHECK_STR(string(shown, "lane"), "tcp");
	CHECK_STR(string(shown, "reason"), "requested");
	CHECK_EQ(number(shown, "tcp_bytes", "tx"), 10);
	CHECK_EQ(number(shown, "lane_bytes", "tx"), 1000);
	CHECK_EQ(number(shown, "lane_changes", "rx"), 2);
	json_decref(answer);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(a_process_may_have_any_name)
{
	const char *name = "a\xff\"\\\x01\xc3";
	struct shuntd daemon;
	struct lane_end ends[2];
	json_t *answer;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1));
	REQUIRE_OK(prctl(PR_SET_NAME, name));
	CHECK_STR(string(connection(ends[0].sock, CTL_QUERY_SS, tcp[0], &answer), "comm"),
		  "a?\"\\??");
	json_decref(answer);
	prctl(PR_SET_NAME, "unit-daemon_status");
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

/* An owner may write what he likes into his half: it is shown, and nothing else happens. */
TAP_CASE(nonsense_in_a_half_does_no_harm)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	json_t *answer;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V6, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	memset(ends[0].own, 0xff, HALF_CTL_BYTES);
	connection(ends[1].sock, CTL_QUERY_SS, tcp[0], &answer);
	json_decref(answer);
	json_decref(query(ends[1].sock, CTL_QUERY_STATS, -1, -1));
	json_decref(query(ends[1].sock, CTL_QUERY_WHY, -1, -1));
	close(ends[0].sock);
	ends[0].sock = -1;
	json_decref(query(ends[1].sock, CTL_QUERY_STATS, -1, -1));
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(why_tells_the_history_in_words)
{
	static const char *const expected[] = {
		"first registered",
		"waits for the other end",
		"paired with the other end",
		"both ends hold the lane",
		"Someone asked for TCP with shunt demote.",
		"The program attached kernel TLS to the socket.",
	};
	struct ctl_msg state = {
		.type = CTL_STATE,
		.token = 100,
		.u.state = {.state = CTL_STATE_PINNED, .reason = REASON_KTLS},
	};
	const json_t *shown, *events;
	struct shuntd daemon;
	struct lane_end ends[2];
	struct ctl_msg query_none = {.type = CTL_QUERY, .token = 1};
	struct ctl_msg none;
	json_t *answer;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	lane_say_drained(&ends[0], 1);
	state.u.state.fd = tcp[0];
	CHECK_OK(msg_send(ends[0].sock, &state, NULL, 0));
	shown = connection(ends[0].sock, CTL_QUERY_WHY, tcp[0], &answer);
	CHECK_STR(string(shown, "state"), "pinned");
	CHECK_STR(string(shown, "reason"), "ktls");
	events = json_object_get(shown, "events");
	CHECK_EQ(json_array_size(events), 6);
	for (size_t i = 0; i < 6; i++) {
		const json_t *event = json_array_get(events, i);

		CHECK(number(event, "time_ms", NULL) > 1600000000000);
		if (!CHECK(ends_with(string(event, "text"), expected[i])))
			tap_diag("%s", string(event, "text"));
	}
	json_decref(answer);
	/* A connection that is not there. */
	query_none.u.query = (struct ctl_query_msg){CTL_QUERY_WHY, getpid(), 9999};
	CHECK_OK(msg_send(ends[0].sock, &query_none, NULL, 0));
	if (msg_expect(ends[0].sock, CTL_ANSWER, &none, NULL))
		CHECK(none.u.answer.result < 0);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

/* The history is bounded: the last events stay. */
TAP_CASE(a_long_history_keeps_its_end)
{
	struct ctl_msg state = {.type = CTL_STATE, .token = 100};
	const json_t *shown, *events;
	struct shuntd daemon;
	struct lane_end ends[2];
	json_t *answer;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1));
	state.u.state.fd = tcp[0];
	for (int i = 0; i < 100; i++) {
		state.u.state.state = i % 2 ? CTL_STATE_TCP : CTL_STATE_LEAVING;
		CHECK_OK(msg_send(ends[0].sock, &state, NULL, 0));
	}
	shown = connection(ends[0].sock, CTL_QUERY_WHY, tcp[0], &answer);
	events = json_object_get(shown, "events");
	CHECK_EQ(json_array_size(events), 16);
	CHECK_STR(string(json_array_get(events, 15), "text"), "state told by the program: tcp");
	json_decref(answer);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(stats_keep_the_totals_of_closed_connections)
{
	struct ctl_msg closed = {
		.type = CTL_CLOSED,
		.u.closed = {.reason = REASON_CLOSED,
			     .epochs = 1,
			     .demotions = 1,
			     .totals = {100, 200, 5000, 6000, 3}},
	};
	struct shuntd daemon;
	struct lane_end ends[2];
	json_t *stats;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, "pair_wait_ms = 50;"));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	for (int i = 0; i < 2; i++) {
		lane_say_drained(&ends[i], 1);
		closed.token = ends[i].token;
		CHECK_OK(msg_send(ends[i].sock, &closed, NULL, 0));
	}
	msg_register(ends[0].sock, 7, tcp[0], 1);
	msg_expect(ends[0].sock, CTL_REGISTERED, NULL, NULL);
	msg_expect_refused(ends[0].sock, 7, REASON_PEER_UNKNOWN);
	/* Behind all that the other session has sent. */
	json_decref(query(ends[1].sock, CTL_QUERY_STATUS, -1, -1));
	stats = query(ends[0].sock, CTL_QUERY_STATS, -1, -1);
	CHECK_EQ(number(stats, "seen", NULL), 3);
	CHECK_EQ(number(stats, "open", NULL), 1);
	CHECK_EQ(number(stats, "promoted", NULL), 2);
	CHECK_EQ(number(stats, "lanes", NULL), 2);
	CHECK_EQ(number(stats, "lane_changes", NULL), 6);
	CHECK_EQ(number(stats, "tcp_bytes", "tx"), 200);
	CHECK_EQ(number(stats, "lane_bytes", "rx"), 12000);
	CHECK_EQ(number(stats, "demotions", "requested"), 2);
	CHECK_EQ(number(stats, "refusals", "peer_unknown"), 1);
	json_decref(stats);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(status_describes_the_daemon)
{
	struct shuntd daemon;
	json_t *status;
	int sock;

	REQUIRE(shuntd_start(&daemon, "ring_bytes = 8192;"));
	sock = shuntd_session(&daemon, CTL_HELLO_TOOL);
	status = query(sock, CTL_QUERY_STATUS, -1, -1);
	CHECK_EQ(number(status, "pid", NULL), daemon.pid);
	CHECK_EQ(number(status, "sessions", NULL), 1);
	CHECK_EQ(number(status, "connections", NULL), 0);
	CHECK_EQ(number(status, "ring_bytes", NULL), 8192);
	json_decref(status);
	fd_close(sock);
	shuntd_stop(&daemon);
}

TAP_CASE(queries_in_a_loop_are_put_off)
{
	const struct ctl_msg ask = {
		.type = CTL_QUERY,
		.token = 1,
		.u.query = {.kind = CTL_QUERY_SS, .pid = -1, .fd = -1},
	};
	struct shuntd daemon;
	struct ctl_msg answer;
	int sock, put_off = 0;

	REQUIRE(shuntd_start(&daemon, ""));
	sock = shuntd_session(&daemon, CTL_HELLO_TOOL);
	for (int i = 0; i < 200; i++) {
		CHECK_OK(msg_send(sock, &ask, NULL, 0));
		REQUIRE(msg_expect(sock, CTL_ANSWER, &answer, NULL));
		put_off += answer.u.answer.result < 0;
	}
	CHECK(put_off > 0);
	fd_close(sock);
	shuntd_stop(&daemon);
}

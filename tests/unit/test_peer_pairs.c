/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"

#include "lib/peer.h"
#include "lib/tap.h"

/*
 * Two daemons and real connections between them. Nobody makes lanes between hosts here, so a match
 * ends with "no link" on both sides.
 */

struct ends {
	int tcp[2], socks[2];
};

static bool ends_open(const struct shuntd daemons[2], struct ends *ends)
{
	return CHECK_OK(peer_connect(0, 1, ends->tcp)) &&
	       (ends->socks[0] = shuntd_session(&daemons[0], 0)) >= 0 &&
	       (ends->socks[1] = shuntd_session(&daemons[1], 0)) >= 0;
}

static void ends_close(struct ends *ends)
{
	for (int i = 0; i < 2; i++) {
		close(ends->tcp[i]);
		close(ends->socks[i]);
	}
}

/* Register end @i; the daemon keeps a duplicate. */
static void ends_register(struct ends *ends, int i, uint32_t epoch)
{
	msg_register(ends->socks[i], 1, ends->tcp[i], epoch);
	msg_expect(ends->socks[i], CTL_REGISTERED, NULL, NULL);
}

static void expect_no_link(struct ends *ends)
{
	for (int i = 0; i < 2; i++)
		msg_expect_refused(ends->socks[i], 1, REASON_NO_LINK);
}

static void match_once(const struct shuntd daemons[2], int first)
{
	struct ends ends;

	REQUIRE(ends_open(daemons, &ends));
	CHECK_EQ(write(ends.tcp[0], "some bytes", 10), 10);
	CHECK_EQ(write(ends.tcp[1], "more", 4), 4);
	ends_register(&ends, first, 1);
	ends_register(&ends, !first, 1);
	expect_no_link(&ends);
	ends_close(&ends);
}

TAP_CASE(a_connection_is_matched_and_counted_on_both_hosts)
{
	struct shuntd daemons[2];

	REQUIRE(peer_pair_start(daemons, ""));
	for (int i = 0; i < 10; i++)
		match_once(daemons, i & 1);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(peer_total(&daemons[i], "matches"), 10);
		CHECK(peer_total(&daemons[i], "offers_sent") >= 10);
		CHECK_EQ(peer_count(&daemons[i], "up"), 1);
		CHECK_EQ(peer_count(&daemons[i], "strays"), -1);
		CHECK_EQ(peer_total(&daemons[i], "strays"), 0);
	}
	peer_pair_stop(daemons);
}

/* Both ends at once, and no session yet: both daemons dial. */
TAP_CASE(crossing_calls_leave_one_session)
{
	for (int round = 0; round < 8; round++) {
		struct shuntd daemons[2];
		struct ends ends;

		REQUIRE(peer_pair_start(daemons, ""));
		REQUIRE(ends_open(daemons, &ends));
		for (int i = 0; i < 2; i++)
			msg_register(ends.socks[i], 1, ends.tcp[i], 1);
		for (int i = 0; i < 2; i++)
			msg_expect(ends.socks[i], CTL_REGISTERED, NULL, NULL);
		expect_no_link(&ends);
		for (int i = 0; i < 2; i++) {
			peer_await(&daemons[i], "up", 1);
			CHECK_EQ(peer_count(&daemons[i], "up"), 1);
			CHECK_EQ(peer_total(&daemons[i], "matches"), 1);
		}
		ends_close(&ends);
		peer_pair_stop(daemons);
	}
}

TAP_CASE(the_late_side_is_waited_for)
{
	struct shuntd daemons[2];
	struct ends ends;

	REQUIRE(peer_pair_start(daemons, ""));
	REQUIRE(ends_open(daemons, &ends));
	ends_register(&ends, 0, 3);
	peer_await_total(&daemons[1], "offers_received", 1);
	usleep(300000);
	CHECK_EQ(peer_count(&daemons[0], "offers_waiting"), 1);
	CHECK_EQ(peer_count(&daemons[1], "claims_waiting"), 1);
	ends_register(&ends, 1, 1);
	expect_no_link(&ends);
	CHECK_EQ(peer_total(&daemons[0], "matches"), 1);
	CHECK_EQ(peer_total(&daemons[1], "matches"), 1);
	CHECK_EQ(peer_count(&daemons[0], "offers_waiting"), 0);
	CHECK_EQ(peer_count(&daemons[1], "claims_waiting"), 0);
	ends_close(&ends);
	peer_pair_stop(daemons);
}

TAP_CASE(an_end_that_nobody_comes_for_is_let_go)
{
	struct shuntd daemons[2];
	struct ends ends;

	REQUIRE(peer_pair_start(daemons, "offer_wait_ms = 200;"));
	REQUIRE(ends_open(daemons, &ends));
	ends_register(&ends, 0, 1);
	msg_expect_refused(ends.socks[0], 1, REASON_PEER_UNKNOWN);
	CHECK_EQ(peer_total(&daemons[1], "offers_received"), 1);
	usleep(300000);
	CHECK_EQ(peer_count(&daemons[1], "claims_waiting"), 0);
	ends_close(&ends);
	peer_pair_stop(daemons);
}

TAP_CASE(a_withdrawn_offer_matches_nothing)
{
	const struct ctl_msg cancel = {.type = CTL_CANCEL, .token = 1};
	struct shuntd daemons[2];
	struct ends ends;

	REQUIRE(peer_pair_start(daemons, "offer_wait_ms = 1000;"));
	REQUIRE(ends_open(daemons, &ends));
	ends_register(&ends, 0, 1);
	peer_await(&daemons[1], "claims_waiting", 1);
	CHECK_OK(msg_send(ends.socks[0], &cancel, NULL, 0));
	msg_expect_refused(ends.socks[0], 1, REASON_CANCELLED);
	for (int i = 0; i < 200 && peer_count(&daemons[1], "claims_waiting") > 0; i++)
		usleep(10000);
	CHECK_EQ(peer_count(&daemons[1], "claims_waiting"), 0);
	ends_register(&ends, 1, 1);
	msg_expect_refused(ends.socks[1], 1, REASON_PEER_UNKNOWN);
	CHECK_EQ(peer_total(&daemons[1], "matches"), 0);
	ends_close(&ends);
	peer_pair_stop(daemons);
}

/* The program that waits dies: its socket must not live on here. */
TAP_CASE(an_end_whose_session_ends_takes_its_offer_along)
{
	struct shuntd daemons[2];
	struct ends ends;

	REQUIRE(peer_pair_start(daemons, "offer_wait_ms = 20000;"));
	REQUIRE(ends_open(daemons, &ends));
	ends_register(&ends, 0, 1);
	peer_await(&daemons[1], "claims_waiting", 1);
	close(ends.socks[0]);
	for (int i = 0; i < 500 && peer_count(&daemons[1], "claims_waiting") > 0; i++)
		usleep(10000);
	CHECK_EQ(peer_count(&daemons[1], "claims_waiting"), 0);
	close(ends.tcp[0]);
	CHECK_EQ(read(ends.tcp[1], &ends, 1), 0);
	close(ends.tcp[1]);
	close(ends.socks[1]);
	peer_pair_stop(daemons);
}

TAP_CASE(a_daemon_that_was_killed_is_found_again)
{
	struct shuntd daemons[2];

	REQUIRE(peer_pair_start(daemons, "peer_retry_min_ms = 20;"));
	match_once(daemons, 0);
	for (int round = 0; round < 6; round++) {
		shuntd_kill(&daemons[round & 1], SIGKILL);
		REQUIRE(shuntd_restart(&daemons[round & 1]));
		/* Whoever was left alone for a moment may be called again. */
		usleep(100000);
		match_once(daemons, round / 2 & 1);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(peer_count(&daemons[i], "up"), 1);
	peer_pair_stop(daemons);
}

TAP_CASE(an_orderly_end_says_goodbye)
{
	struct shuntd daemons[2];

	REQUIRE(peer_pair_start(daemons, ""));
	match_once(daemons, 0);
	shuntd_stop(&daemons[1]);
	CHECK(shuntd_logged(&daemons[0], "goodbye: The other daemon ended."));
	for (int i = 0; i < 500 && peer_count(&daemons[0], "unreachable_hosts") < 1; i++)
		usleep(10000);
	CHECK_EQ(peer_count(&daemons[0], "unreachable_hosts"), 1);
	shuntd_stop(&daemons[0]);
}

/* Twenty connections to a host without a daemon: one call, then peace. */
TAP_CASE(a_host_without_a_daemon_is_left_in_peace)
{
	struct shuntd daemon;
	int sock, tcp[2];
	json_t *json, *host;

	REQUIRE(shuntd_start(&daemon, peer_conf_text(0, 1, 1,
						     "offer_wait_ms = 100;\n"
						     "peer_retry_min_ms = 60000;")));
	sock = shuntd_session(&daemon, 0);
	for (uint64_t i = 1; i <= 20; i++) {
		REQUIRE_OK(peer_connect(0, 1, tcp));
		msg_register(sock, i, tcp[0], 1);
		msg_expect(sock, CTL_REGISTERED, NULL, NULL);
		msg_expect_refused(sock, i, REASON_NO_PEER_DAEMON);
		close(tcp[0]);
		close(tcp[1]);
	}
	CHECK_EQ(peer_count(&daemon, "dials"), 1);
	json = peer_query(&daemon);
	host = json_array_get(json_object_get(json, "unreachable"), 0);
	CHECK_STR(json_string_value(json_object_get(host, "address")), peer_ip(1));
	CHECK_STR(json_string_value(json_object_get(host, "why")), "no shuntd listens there");
	CHECK_EQ(json_integer_value(json_object_get(host, "failures")), 1);
	CHECK(json_integer_value(json_object_get(host, "retry_in_ms")) > 30000);
	json_decref(json);
	close(sock);
	shuntd_stop(&daemon);
}

/* The pause doubles up to its limit: 100, 200, 400, 400 … */
TAP_CASE(the_pause_between_calls_grows)
{
	struct shuntd daemon;
	int sock, tcp[2];
	long dials;

	REQUIRE(shuntd_start(&daemon,
			     peer_conf_text(0, 1, 1,
					    "offer_wait_ms = 2500; peer_retry_min_ms = 100;"
					    "peer_retry_max_ms = 400;")));
	sock = shuntd_session(&daemon, 0);
	REQUIRE_OK(peer_connect(0, 1, tcp));
	msg_register(sock, 1, tcp[0], 1);
	msg_expect(sock, CTL_REGISTERED, NULL, NULL);
	msg_expect_refused(sock, 1, REASON_NO_PEER_DAEMON);
	dials = peer_count(&daemon, "dials");
	tap_diag("%ld calls in 2.5 s", dials);
	CHECK(dials >= 3 && dials <= 8); /* at 0, 100, 300, 700, 1100, 1500, 1900, 2300 */
	close(sock);
	close(tcp[0]);
	close(tcp[1]);
	shuntd_stop(&daemon);
}

/* Two ends of one host are paired there, and nobody else hears of them. */
TAP_CASE(connections_within_the_host_are_nobodys_business)
{
	struct shuntd daemons[2];
	int sock, tcp[2];

	REQUIRE(peer_pair_start(daemons, ""));
	sock = shuntd_session(&daemons[0], 0);
	REQUIRE_OK(peer_connect(0, 0, tcp));
	for (uint64_t i = 0; i < 2; i++)
		msg_register(sock, 1 + i, tcp[i], 1);
	msg_expect(sock, CTL_REGISTERED, NULL, NULL);
	msg_expect(sock, CTL_REGISTERED, NULL, NULL);
	msg_expect(sock, CTL_PAIR, NULL, NULL);
	msg_expect(sock, CTL_PAIR, NULL, NULL);
	CHECK_EQ(peer_count(&daemons[0], "dials"), 0);
	CHECK_EQ(peer_total(&daemons[0], "offers_sent"), 0);
	close(sock);
	close(tcp[0]);
	close(tcp[1]);
	peer_pair_stop(daemons);
}

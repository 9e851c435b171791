/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/peer.h"
#include "lib/tap.h"

/*
 * Keys that are taken away, changed and brought back while the daemon runs: SIGHUP has it look.
 */

/* The daemon of host 0, with key 1 for all and key 2 for host 2. */
static bool start(struct shuntd *daemon)
{
	char conf[1024];

	snprintf(
		conf, sizeof(conf),
		"peer_sessions = \"on\"; peer_listen = \"%s\"; rdma = \"off\"; peer_key = \"%s\";\n"
		"peers = ( { address = \"%s\"; }, { address = \"%s\"; key = \"%s\"; } );\n",
		peer_ip(0), peer_key_file(1), peer_ip(1), peer_ip(2), peer_key_file(2));
	return shuntd_start(daemon, conf) && peer_await(daemon, "listening", 1);
}

static void look_again(const struct shuntd *daemon)
{
	CHECK_OK(kill(daemon->pid, SIGHUP));
	/* The signal is there before the question, and both wait for the same turn of the loop, or
	 * the question for the next. */
	for (int i = 0; i < 2; i++)
		CHECK(peer_count(daemon, "port") > 0);
}

static bool open_up(struct hand *hand, unsigned int host, unsigned int key, unsigned int who)
{
	return CHECK(hand_open(hand, host, 0, key)) && hand_hello(hand, who);
}

static bool lives(struct hand *hand)
{
	const struct peer_msg ping = {.type = PEER_PING, .u.ping = {.serial = 5}};

	return hand_send(hand, &ping) && hand_expect(hand, PEER_PONG, NULL);
}

/* Put the contents of @from into @to. */
static void copy(const char *from, const char *to)
{
	char command[256];

	snprintf(command, sizeof(command), "cp -p %s %s", from, to);
	CHECK_EQ(system(command), 0);
}

TAP_CASE(nothing_has_changed)
{
	struct shuntd daemon;
	struct hand one, two;

	REQUIRE(start(&daemon) && open_up(&one, 1, 1, 5) && open_up(&two, 2, 2, 6));
	look_again(&daemon);
	CHECK(lives(&one));
	CHECK(lives(&two));
	hand_close(&one);
	hand_close(&two);
	shuntd_stop(&daemon);
}

static void taken_away(struct shuntd *daemon, const char *saved, struct hand *other)
{
	struct hand hand;

	/* We have it still; the daemon does not look by itself. */
	copy(saved, peer_key_file(1));
	CHECK(shuntd_logged(daemon, "is revoked"));
	CHECK_EQ(peer_count(daemon, "up"), 1);
	CHECK(lives(other));
	/* Neither the key of old nor trust, which was never wanted, lets anybody in. */
	CHECK(!hand_open(&hand, 1, 0, 1));
	CHECK(!hand_open(&hand, 1, 0, 0));
	CHECK(!hand_open(&hand, 3, 0, 1));
	CHECK_EQ(peer_count(daemon, "up"), 1);
}

TAP_CASE(the_key_is_taken_away_and_comes_back)
{
	char saved[64];
	struct hand one, two;
	struct shuntd daemon;

	snprintf(saved, sizeof(saved), "%s.saved", peer_key_file(1));
	copy(peer_key_file(1), saved);
	REQUIRE(start(&daemon) && open_up(&one, 1, 1, 5) && open_up(&two, 2, 2, 6));
	CHECK_OK(unlink(peer_key_file(1)));
	look_again(&daemon);
	CHECK_EQ(hand_expect_end(&one), PEER_BYE_NOT_ALLOWED);
	hand_close(&one);
	taken_away(&daemon, saved, &two);
	look_again(&daemon);
	CHECK(shuntd_logged(&daemon, "is back"));
	REQUIRE(open_up(&one, 1, 1, 5));
	CHECK(lives(&one));
	CHECK(lives(&two));
	hand_close(&one);
	hand_close(&two);
	unlink(saved);
	shuntd_stop(&daemon);
}

TAP_CASE(a_key_that_others_may_read_now_is_none)
{
	struct shuntd daemon;
	struct hand one, two;

	REQUIRE(start(&daemon) && open_up(&one, 1, 1, 5) && open_up(&two, 2, 2, 6));
	CHECK_OK(chmod(peer_key_file(2), 0644));
	look_again(&daemon);
	CHECK_EQ(hand_expect_end(&two), PEER_BYE_NOT_ALLOWED);
	hand_close(&two);
	CHECK(shuntd_logged(&daemon, "may be read or written by others"));
	CHECK(lives(&one));
	/* Its entry names a key of its own: that for all is not for it. */
	CHECK(!hand_open(&two, 2, 0, 2));
	CHECK(!hand_open(&two, 2, 0, 1));
	CHECK_OK(chmod(peer_key_file(2), 0600));
	look_again(&daemon);
	REQUIRE(open_up(&two, 2, 2, 6));
	CHECK(lives(&two));
	hand_close(&one);
	hand_close(&two);
	shuntd_stop(&daemon);
}

TAP_CASE(another_key)
{
	struct hand one, two, late;
	struct shuntd daemon;
	struct peer_msg msg;

	REQUIRE(start(&daemon) && open_up(&one, 1, 1, 5) && open_up(&two, 2, 2, 6));
	/* One that has not said hello yet is no better. */
	REQUIRE(hand_open(&late, 3, 0, 1));
	/* With its hello the daemon says that TLS is done for it, too. */
	REQUIRE_OK(hand_recv(&late, &msg, SHUNTD_WAIT_MS));
	CHECK_EQ(msg.type, PEER_HELLO);
	copy(peer_key_file(3), peer_key_file(1));
	look_again(&daemon);
	CHECK_EQ(hand_expect_end(&one), PEER_BYE_NOT_ALLOWED);
	CHECK_EQ(hand_expect_end(&late), PEER_BYE_NOT_ALLOWED);
	hand_close(&one);
	hand_close(&late);
	CHECK(shuntd_logged(&daemon, "is another one now"));
	REQUIRE(open_up(&one, 1, 3, 5));
	CHECK(lives(&one));
	CHECK(lives(&two));
	hand_close(&one);
	hand_close(&two);
	shuntd_stop(&daemon);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"
#include "base/util.h"
#include "os/clock.h"

#include "lib/peer.h"
#include "lib/tap.h"

/*
 * Peers that have the key and mean harm, and strangers. After each, a good peer and a local pair
 * still get what they should.
 */

static const char quick[] = "peer_handshake_ms = 400; offer_wait_ms = 400;";

/* One daemon, of host 0; host 1 is played here. */
static bool start(struct shuntd *daemon, const char *more)
{
	return shuntd_start(daemon, peer_conf_text(0, 1, 1, more)) &&
	       peer_await(daemon, "listening", 1);
}

static bool open_up(struct hand *hand, unsigned int who)
{
	return CHECK(hand_open(hand, 1, 0, 1)) && hand_hello(hand, who);
}

static void local_pair_works(const struct shuntd *daemon)
{
	int sock = shuntd_session(daemon, 0), tcp[2];

	REQUIRE_OK(peer_connect(0, 0, tcp));
	for (uint64_t i = 0; i < 2; i++)
		msg_register(sock, 1 + i, tcp[i], 1);
	msg_expect(sock, CTL_REGISTERED, NULL, NULL);
	msg_expect(sock, CTL_REGISTERED, NULL, NULL);
	msg_expect(sock, CTL_PAIR, NULL, NULL);
	msg_expect(sock, CTL_PAIR, NULL, NULL);
	close(sock);
	close(tcp[0]);
	close(tcp[1]);
}

/* A connection whose other end is here is matched with a good offer. */
static void good_peer_works(const struct shuntd *daemon, unsigned int who)
{
	struct sockaddr_in local, remote;
	socklen_t len = sizeof(local);
	struct peer_msg msg, offer;
	int sock, tcp[2];
	struct hand hand;

	REQUIRE(open_up(&hand, who));
	sock = shuntd_session(daemon, 0);
	REQUIRE_OK(peer_connect(1, 0, tcp));
	getsockname(tcp[0], (struct sockaddr *)&local, &len);
	getpeername(tcp[0], (struct sockaddr *)&remote, &len);
	msg_register(sock, 1, tcp[1], 1);
	REQUIRE(hand_expect(&hand, PEER_OFFER, &offer));
	CHECK_EQ(offer.u.offer.local.port, ntohs(remote.sin_port));
	CHECK_EQ(offer.u.offer.remote.port, ntohs(local.sin_port));
	msg = hand_offer(99, 1, ntohs(local.sin_port), 0, ntohs(remote.sin_port));
	CHECK(hand_send(&hand, &msg));
	REQUIRE(hand_expect(&hand, PEER_REFUSE, &msg));
	CHECK_EQ(msg.u.refuse.your_id, 99);
	CHECK_STR(reason_name(msg.u.refuse.reason), "no_link");
	msg_expect(sock, CTL_REGISTERED, NULL, NULL);
	msg_expect_refused(sock, 1, REASON_NO_LINK);
	close(sock);
	close(tcp[0]);
	close(tcp[1]);
	hand_close(&hand);
}

static void all_is_well(struct shuntd *daemon)
{
	local_pair_works(daemon);
	good_peer_works(daemon, 0x77);
	shuntd_stop(daemon);
}

TAP_CASE(garbage_in_place_of_tls)
{
	struct shuntd daemon;
	struct prng prng;

	prng_init(&prng, 3);
	REQUIRE(start(&daemon, quick));
	for (int round = 0; round < 20; round++) {
		int fd = hand_connect(1, 0);
		uint8_t bytes[3000];
		ssize_t n;

		REQUIRE_OK(fd);
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)prng_next(&prng);
		if (round & 1) /* the beginning of a TLS record */
			memcpy(bytes, "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03", 11);
		(void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
		do {
			n = recv(fd, bytes, sizeof(bytes), 0);
		} while (n > 0);
		close(fd);
	}
	CHECK(peer_count(&daemon, "tls") >= 20);
	all_is_well(&daemon);
}

TAP_CASE(silence_in_place_of_tls_or_hello)
{
	struct shuntd daemon;
	struct hand hand;
	uint64_t since;
	char byte;
	int fd;

	REQUIRE(start(&daemon, quick));
	fd = hand_connect(1, 0);
	since = clock_now_ns();
	while (recv(fd, &byte, 1, 0) > 0) /* why, as TLS says it */
		;
	CHECK(clock_now_ns() - since >= 300000000u);
	close(fd);
	REQUIRE(hand_open(&hand, 1, 0, 1));
	hand_expect_end(&hand);
	hand_close(&hand);
	CHECK_EQ(peer_count(&daemon, "tls"), 2);
	all_is_well(&daemon);
}

/* More calls than a stranger may have open: those beyond are closed, and others get through. */
TAP_CASE(a_crowd_of_silent_calls)
{
	struct shuntd daemon;
	int fds[40], closed = 0;

	REQUIRE(start(&daemon, "peer_handshake_ms = 3000; peer_pending_max = 20;"));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = hand_connect(1 + (unsigned int)i % 2, 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		struct pollfd poll_in = {.fd = fds[i], .events = POLLIN};

		closed += poll(&poll_in, 1, 20) == 1;
	}
	/* Host 2 has no place beyond its eight, host 1 neither. */
	CHECK_EQ(closed, 40 - 16);
	CHECK_EQ(peer_count(&daemon, "crowd"), closed);
	local_pair_works(&daemon);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	all_is_well(&daemon);
}

/* Well-framed or not, what is not allowed ends the session with the right goodbye. */
TAP_CASE(messages_that_break_the_rules)
{
	static const struct {
		size_t len;
		uint8_t bytes[40];
		enum peer_bye why;
		bool before_hello;
	} bad[] = {
		{8, {0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0}, PEER_BYE_PROTOCOL, true},
		{8, {0, 0, 0, 8, 0, 99, 0, 0}, PEER_BYE_PROTOCOL, true},
		{16, {0, 0, 0, 16, 0, PEER_PING, 0, 0}, PEER_BYE_PROTOCOL, true},
		{8, {0, 0, 0, 8, 0, PEER_HELLO, 0, 1}, PEER_BYE_PROTOCOL, true},
		{8, {0, 0, 8, 1, 0, PEER_HELLO, 0, 0}, PEER_BYE_PROTOCOL, false},
		{9, {0, 0, 0, 9, 0, PEER_PING, 0, 0}, PEER_BYE_PROTOCOL, false},
		{16, {0, 0, 0, 16, 0, PEER_WITHDRAW, 0, 0}, PEER_BYE_PROTOCOL, false},
		{18,
		 {0, 0, 0, 18, 0, PEER_REFUSE, 0, 0, [15] = 1, [16] = 0xff},
		 PEER_BYE_PROTOCOL,
		 false},
	};
	struct shuntd daemon;
	struct hand hand;
	struct peer_msg msg;
	uint8_t bytes[PEER_FRAME_MAX];
	size_t len;

	REQUIRE(start(&daemon, quick));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		REQUIRE(hand_open(&hand, 1, 0, 1));
		if (!bad[i].before_hello)
			hand_hello(&hand, 5);
		hand_write(&hand, bad[i].bytes, bad[i].len);
		CHECK_EQ(hand_expect_end(&hand), bad[i].why);
		hand_close(&hand);
	}
	/* Another version */
	REQUIRE(hand_open(&hand, 1, 0, 1));
	msg = hand_hello_msg(5);
	len = peer_encode(&msg, bytes);
	bytes[13] = 2;
	hand_write(&hand, bytes, len);
	CHECK_EQ(hand_expect_end(&hand), PEER_BYE_VERSION);
	hand_close(&hand);
	/* Another UUID in the middle */
	REQUIRE(open_up(&hand, 5));
	msg = hand_hello_msg(6);
	hand_send(&hand, &msg);
	CHECK_EQ(hand_expect_end(&hand), PEER_BYE_PROTOCOL);
	hand_close(&hand);
	CHECK_EQ(peer_count(&daemon, "protocol"), ARRAY_SIZE(bad) + 2);
	CHECK(shuntd_logged(&daemon, "cut off: its message is garbage (wrong length)"));
	all_is_well(&daemon);
}

/* The daemon's own UUID, as a mirror would say it. */
TAP_CASE(a_mirror_is_seen_through)
{
	struct peer_msg msg;
	struct shuntd daemon;
	struct hand hand;

	REQUIRE(start(&daemon, quick));
	REQUIRE(hand_open(&hand, 1, 0, 1));
	REQUIRE_OK(hand_recv(&hand, &msg, SHUNTD_WAIT_MS));
	CHECK_EQ(msg.type, PEER_HELLO);
	hand_send(&hand, &msg);
	CHECK_EQ(hand_expect_end(&hand), PEER_BYE_SELF);
	hand_close(&hand);
	all_is_well(&daemon);
}

/* It speaks for its own address only. */
TAP_CASE(claims_of_other_hosts_connections)
{
	struct peer_msg msg, refused;
	struct shuntd daemon;
	struct hand hand;

	REQUIRE(start(&daemon, quick));
	REQUIRE(open_up(&hand, 5));
	for (uint64_t id = 1; id <= 50; id++) {
		msg = hand_offer(id, 2, 1000, 0, 80);
		CHECK(hand_send(&hand, &msg));
		REQUIRE(hand_expect(&hand, PEER_REFUSE, &refused));
		CHECK_EQ(refused.u.refuse.your_id, id);
		CHECK_STR(reason_name(refused.u.refuse.reason), "not_eligible");
	}
	CHECK_EQ(peer_count(&daemon, "claims"), 50);
	CHECK_EQ(peer_count(&daemon, "claims_waiting"), 0);
	CHECK(shuntd_logged(&daemon, "claims a connection of"));
	hand_close(&hand);
	all_is_well(&daemon);
}

/* A victim's connection is offered with figures that can't be its own: it is not given away. */
TAP_CASE(figures_that_do_not_fit)
{
	struct sockaddr_in local, remote;
	socklen_t len = sizeof(local);
	struct peer_msg msg, refused;
	struct shuntd daemon;
	struct hand hand;
	int sock, tcp[2];

	REQUIRE(start(&daemon, quick));
	REQUIRE(open_up(&hand, 5));
	sock = shuntd_session(&daemon, 0);
	REQUIRE_OK(peer_connect(1, 0, tcp));
	getsockname(tcp[0], (struct sockaddr *)&local, &len);
	getpeername(tcp[0], (struct sockaddr *)&remote, &len);
	for (uint64_t kind = 0; kind < 3; kind++) {
		msg_register(sock, 1, tcp[1], 1);
		msg_expect(sock, CTL_REGISTERED, NULL, NULL);
		REQUIRE(hand_expect(&hand, PEER_OFFER, NULL));
		msg = hand_offer(100 + kind, 1, ntohs(local.sin_port), 0, ntohs(remote.sin_port));
		if (kind == 0)
			msg.u.offer.received_bytes = 1; /* nothing was written here */
		else if (kind == 1)
			msg.u.offer.acked_bytes = msg.u.offer.written_bytes = 1;
		else
			msg.u.offer.sent_syn = 0; /* nobody did, then */
		CHECK(hand_send(&hand, &msg));
		REQUIRE(hand_expect(&hand, PEER_REFUSE, &refused));
		CHECK_EQ(refused.u.refuse.your_id, 100 + kind);
		CHECK_STR(reason_name(refused.u.refuse.reason), "stale_peer");
		REQUIRE(hand_expect(&hand, PEER_WITHDRAW, NULL));
		msg_expect_refused(sock, 1, REASON_STALE_PEER);
	}
	CHECK_EQ(peer_total(&daemon, "matches"), 0);
	close(sock);
	close(tcp[0]);
	close(tcp[1]);
	hand_close(&hand);
	all_is_well(&daemon);
}

/* A refusal from afar is for now, never for good; and only of what was offered to it. */
TAP_CASE(refusals_of_every_kind)
{
	const struct peer_msg refuse = {.type = PEER_REFUSE,
					.u.refuse = {.your_id = 999, .reason = REASON_KTLS}};
	struct shuntd daemon;
	struct peer_msg msg, offer;
	struct hand hand;
	int sock, tcp[2];

	REQUIRE(start(&daemon, "offer_wait_ms = 5000;"));
	REQUIRE(open_up(&hand, 5));
	CHECK(hand_send(&hand, &refuse)); /* of nothing */
	sock = shuntd_session(&daemon, 0);
	REQUIRE_OK(peer_connect(1, 0, tcp));
	msg_register(sock, 1, tcp[1], 1);
	msg_expect(sock, CTL_REGISTERED, NULL, NULL);
	REQUIRE(hand_expect(&hand, PEER_OFFER, &offer));
	msg = refuse;
	msg.u.refuse.your_id = offer.u.offer.id + 1;
	CHECK(hand_send(&hand, &msg));
	CHECK(msg_is_silent(sock));
	msg.u.refuse.your_id = offer.u.offer.id;
	CHECK(hand_send(&hand, &msg));
	msg_expect_refused(sock, 1, REASON_PEER_LEFT);
	CHECK(hand_send(&hand, &msg)); /* again */
	close(sock);
	close(tcp[0]);
	close(tcp[1]);
	hand_close(&hand);
	all_is_well(&daemon);
}

/* Whatever is about lanes and links that do not exist. */
TAP_CASE(messages_about_nothing)
{
	const struct peer_address there = {.family = 4, .addr = {127, 0, 0, 2}, .port = 5};
	const struct peer_lane_at at = {.id = 1, .local = there, .remote = there, .epoch = 3};
	const struct peer_msg stray[] = {
		{.type = PEER_LOST, .u.lane_at = at},
		{.type = PEER_REPLAYED, .u.lane_at = at},
		{.type = PEER_NONCE, .u.nonce = {.id = 5}},
		{.type = PEER_PONG, .u.ping = {.serial = 7}},
		{.type = PEER_WITHDRAW, .u.withdraw = {.id = 9}},
	};
	const struct peer_msg ask = {.type = PEER_NONCE_ASK, .u.nonce_ask = {.id = 8}};
	const struct peer_msg match = {
		.type = PEER_MATCH,
		.u.match = {.own_id = 3, .your_id = 4, .epoch = 1, .ring_bytes = 65536}};
	struct shuntd daemon;
	struct peer_msg msg;
	struct hand hand;

	REQUIRE(start(&daemon, quick));
	REQUIRE(open_up(&hand, 5));
	for (size_t i = 0; i < ARRAY_SIZE(stray); i++)
		CHECK(hand_send(&hand, &stray[i]));
	CHECK(hand_send(&hand, &ask));
	REQUIRE(hand_expect(&hand, PEER_NONCE, &msg));
	CHECK_EQ(msg.u.nonce.id, 8);
	CHECK_EQ(msg.u.nonce.reason, REASON_NO_LINK);
	CHECK(hand_send(&hand, &match));
	REQUIRE(hand_expect(&hand, PEER_REFUSE, &msg));
	CHECK_EQ(msg.u.refuse.your_id, 3);
	CHECK_EQ(peer_total(&daemon, "strays"), 3);
	hand_close(&hand);
	all_is_well(&daemon);
}

TAP_CASE(a_flood_of_offers)
{
	struct shuntd daemon;
	struct peer_msg msg;
	struct hand hand;
	int refused = 0;
	long rss;

	REQUIRE(start(&daemon, "peer_offers_max = 100; offer_wait_ms = 2000;"));
	REQUIRE(open_up(&hand, 5));
	rss = shuntd_status(&daemon, "VmRSS");
	for (uint64_t i = 0; i < 20000; i++) {
		msg = hand_offer(1 + i, 1, 1024 + (unsigned int)i % 5000, 0, 80);
		if (!CHECK(hand_send(&hand, &msg)))
			break;
		while (hand_recv(&hand, &msg, 0) == 0)
			refused +=
				msg.type == PEER_REFUSE && msg.u.refuse.reason == REASON_OVER_QUOTA;
	}
	peer_await_total(&daemon, "offers_received", 20000);
	while (hand_recv(&hand, &msg, 300) == 0)
		refused += msg.type == PEER_REFUSE;
	CHECK(refused > 1000);
	CHECK(peer_count(&daemon, "claims_waiting") <= 100);
	CHECK(shuntd_status(&daemon, "VmRSS") < rss + 4096 + KEPT_KIB);
	local_pair_works(&daemon);
	hand_close(&hand);
	all_is_well(&daemon);
}

/* The same offer again and again is one offer. */
TAP_CASE(an_offer_that_is_repeated)
{
	const struct peer_msg msg = hand_offer(7, 1, 1024, 0, 80);
	struct shuntd daemon;
	struct hand hand;

	REQUIRE(start(&daemon, ""));
	REQUIRE(open_up(&hand, 5));
	for (int i = 0; i < 1000; i++)
		CHECK(hand_send(&hand, &msg));
	peer_await_total(&daemon, "offers_received", 1000);
	CHECK_EQ(peer_count(&daemon, "claims_waiting"), 1);
	hand_close(&hand);
	all_is_well(&daemon);
}

/* Asks, and reads no answer: what is kept for it is bounded, then it is cut off. */
TAP_CASE(a_peer_that_does_not_read)
{
	const struct peer_msg ping = {.type = PEER_PING};
	struct pollfd poll_out;
	struct shuntd daemon;
	struct hand hand;
	long rss, sent = 0;

	REQUIRE(start(&daemon, "peer_backlog = 65536; peer_messages_per_s = 10000000;"));
	REQUIRE(open_up(&hand, 5));
	rss = shuntd_status(&daemon, "VmRSS");
	poll_out = (struct pollfd){.fd = hand.fd, .events = POLLOUT};
	while (poll(&poll_out, 1, 5000) == 1 && sent < 3000000 && hand_send(&hand, &ping))
		sent++;
	tap_diag("%ld questions until it was cut off", sent);
	CHECK(peer_count(&daemon, "slow") >= 1);
	CHECK(shuntd_status(&daemon, "VmRSS") < rss + 8192 + KEPT_KIB);
	CHECK(shuntd_logged(&daemon, "it does not read what it is told"));
	hand_close(&hand);
	all_is_well(&daemon);
}

TAP_CASE(a_peer_that_falls_silent)
{
	struct shuntd daemon;
	struct hand hand;
	struct peer_msg msg;
	int pings = 0;

	REQUIRE(start(&daemon, "peer_ping_ms = 100; peer_dead_ms = 500;"));
	REQUIRE(open_up(&hand, 5));
	while (hand_recv(&hand, &msg, SHUNTD_WAIT_MS) == 0)
		pings += msg.type == PEER_PING;
	CHECK(pings >= 2);
	CHECK_EQ(peer_count(&daemon, "slow"), 1);
	hand_close(&hand);
	all_is_well(&daemon);
}

/* Too fast is slowed down, not cut off. */
TAP_CASE(a_peer_that_talks_too_fast)
{
	const struct peer_msg pong = {.type = PEER_PONG};
	uint64_t since = clock_now_ns();
	struct shuntd daemon;
	struct hand hand;

	REQUIRE(start(&daemon, "peer_messages_per_s = 200;"));
	REQUIRE(open_up(&hand, 5));
	for (int i = 0; i < 400; i++)
		CHECK(hand_send(&hand, &pong));
	peer_await_total(&daemon, "messages_received", 401);
	CHECK(clock_now_ns() - since > 900000000u); /* 200 at once, 200 more in a second */
	CHECK_EQ(peer_count(&daemon, "up"), 1);
	hand_close(&hand);
	all_is_well(&daemon);
}

/* Random changes of good streams, with the key. */
TAP_CASE(random_streams)
{
	struct shuntd daemon;
	struct prng prng;

	prng_init(&prng, 8);
	REQUIRE(start(&daemon, quick));
	for (int round = 0; round < 60; round++) {
		uint8_t bytes[4 * PEER_FRAME_MAX];
		struct peer_msg msg;
		struct hand hand;
		size_t len = 0;

		REQUIRE(open_up(&hand, 5));
		for (uint64_t i = 0; i < 30; i++) {
			msg = hand_offer(1 + i, 1, 1024 + (unsigned int)i, 0, 80);
			len += peer_encode(&msg, bytes + len);
		}
		for (uint64_t i = prng_below(&prng, 10); i > 0; i--)
			bytes[prng_below(&prng, len)] = (uint8_t)prng_next(&prng);
		hand_write(&hand, bytes, prng_below(&prng, len));
		hand_close(&hand);
	}
	all_is_well(&daemon);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/half.h"
#include "os/tcp.h"
#include "remote_replay.h"

#include "lib/net.h"
#include "lib/tap.h"

/* What a daemon does for its end of a lane, alone with the halves and a socket. */

#define RING 524288u
#define TASKS_MAX 1000

struct stage {
	int tcp[2]; /* the client's socket, and the other end's */
	struct half_ctl *half, *fed;
	struct remote_end r;
};

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset * 31 + offset / 251);
}

/* A daemon, or its successor: it has the halves and the socket, and knows nothing. */
static void begin(struct stage *stage)
{
	struct remote_end *r = &stage->r;

	close(r->sock);
	*r = (struct remote_end){
		.half = stage->half,
		.fed = stage->fed,
		.half_ring_bytes = RING,
		.fed_ring_bytes = RING,
		.sock = fcntl(stage->tcp[0], F_DUPFD_CLOEXEC, 0),
		.lost = true,
		.can_replay = true,
	};
	CHECK(r->sock >= 0);
	r->shut = tcp_syn_bias(r->sock, &r->syn_bias) == -ESHUTDOWN;
}

/* A client that has started at once and written @prod bytes; the other end is there. */
static void open_stage(struct stage *stage, uint64_t prod)
{
	const int little = 16384;

	*stage = (struct stage){.r = {.sock = -1}};
	REQUIRE_OK(net_pair(NET_V4, stage->tcp));
	setsockopt(stage->tcp[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
	setsockopt(stage->tcp[1], SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
	stage->half = aligned_alloc(4096, half_bytes(RING));
	stage->fed = aligned_alloc(4096, half_bytes(RING));
	REQUIRE(stage->half && stage->fed);
	memset(stage->half, 0, half_bytes(RING));
	memset(stage->fed, 0, half_bytes(RING));
	for (uint64_t at = prod > RING ? prod - RING : 0; at < prod; at++)
		half_ring(stage->half)[at % RING] = byte_at(at);
	stage->half->ready = stage->fed->ready = 1;
	stage->half->tx_start = opt_some(0);
	stage->half->rx_seen = 1;
	stage->half->prod = prod;
	begin(stage);
}

static void close_stage(struct stage *stage)
{
	close(stage->r.sock);
	close(stage->tcp[0]);
	close(stage->tcp[1]);
	free(stage->half);
	free(stage->fed);
}

/* Do all that is to be done. 0, or what went wrong. */
static int run(struct stage *stage)
{
	enum remote_task task;
	int rc = 0;

	for (int i = 0; i < TASKS_MAX && rc >= 0; i++) {
		task = remote_next(&stage->r);
		if (task == REMOTE_DO_NOTHING || task == REMOTE_DO_HAND_OVER)
			return 0;
		rc = remote_do(&stage->r, task);
	}
	CHECK(rc < 0); /* or it never ends */
	return rc;
}

/* Take what has come over TCP; *@offset is of the next byte. What ended it: -EAGAIN, 0 or -errno.
 */
static int take(struct stage *stage, uint64_t *offset)
{
	uint8_t bytes[3000];
	ssize_t n;

	while ((n = recv(stage->tcp[1], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		for (ssize_t i = 0; i < n; i++, ++*offset)
			if (!CHECK_EQ(bytes[i], byte_at(*offset)))
				return -EBADMSG;
	return n < 0 ? -errno : 0;
}

TAP_CASE(a_replay_goes_on_in_successors)
{
	struct stage stage;
	uint64_t from = 10000, end = 500000, at = from, offset;

	open_stage(&stage, end);
	stage.half->tx_end = opt_some(end);
	CHECK_OK(run(&stage));
	CHECK_EQ(stage.fed->lost, 1);
	CHECK(remote_reached(&stage.r, &offset));
	CHECK_EQ(offset, 0);
	CHECK(!remote_has_recorded(&stage.r));
	stage.r.wanted = opt_some(from);
	CHECK_OK(run(&stage));
	CHECK(remote_has_recorded(&stage.r));
	CHECK(stage.fed->replayed < opt_some(end)); /* TCP is full */
	for (int deaths = 0; at < end && CHECK(deaths < 3000); deaths++) {
		begin(&stage);
		CHECK_OK(run(&stage));
		CHECK_EQ(take(&stage, &at), -EAGAIN);
		usleep(1000);
	}
	CHECK_EQ(at, end);
	CHECK_OK(run(&stage));
	CHECK_EQ(stage.fed->replayed, opt_some(end));
	CHECK(!stage.fed->settled); /* the other daemon may not know yet where our client stands */
	stage.r.settled = true;
	CHECK_OK(run(&stage));
	CHECK_EQ(stage.fed->settled, 1);
	/* And once more: nothing is said twice. */
	stage.half->shut = 1;
	begin(&stage);
	stage.r.settled = true;
	CHECK_OK(run(&stage));
	usleep(1000);
	CHECK_EQ(take(&stage, &at), 0);
	CHECK_EQ(at, end);
	close_stage(&stage);
}

TAP_CASE(who_has_nothing_in_the_ring_waits_for_nobody_but_is_not_through)
{
	struct stage stage;

	/* The other end may not know of the lane at all, or may have begun. */
	for (unsigned int ready = 0; ready < 2; ready++) {
		open_stage(&stage, 0);
		stage.fed->ready = ready;
		stage.half->tx_start = OPT_NONE;
		stage.half->tx_end = opt_some(0);
		CHECK_OK(run(&stage));
		CHECK_EQ(stage.fed->replayed, opt_some(0));
		CHECK(!stage.fed->settled);
		close_stage(&stage);
	}
	open_stage(&stage, 1);
	stage.half->tx_end = opt_some(1);
	CHECK_OK(run(&stage));
	CHECK_EQ(stage.fed->replayed, OPT_NONE);
	close_stage(&stage);
}

TAP_CASE(what_the_ring_does_not_have_is_nonsense)
{
	struct stage stage;

	open_stage(&stage, 900000);
	stage.half->tx_end = opt_some(900000);
	stage.r.wanted = opt_some(10000);
	CHECK_EQ(run(&stage), -EBADMSG);
	remote_abort(&stage.r);
	CHECK_EQ(stage.r.sock, -1);
	CHECK_EQ(take(&stage, &(uint64_t){0}), -ECONNRESET);
	close_stage(&stage);

	/* More than was ever written: never through, and nothing is sent. */
	open_stage(&stage, 1000);
	stage.half->tx_end = opt_some(1000);
	stage.r.wanted = opt_some(5000);
	stage.r.settled = true;
	CHECK_OK(run(&stage));
	CHECK_EQ(stage.fed->replayed, OPT_NONE);
	CHECK_EQ(take(&stage, &(uint64_t){0}), -EAGAIN);
	close_stage(&stage);
}

TAP_CASE(a_hand_over_is_answered_if_the_other_daemon_can_replay)
{
	static const struct {
		bool can_replay, gone;
		uint64_t resume;
		uint64_t answer, reached; /* reached UINT64_MAX: not certain */
	} rows[] = {
		{true, false, RESUME_NONE, 500, 500},
		{false, false, RESUME_NONE, 1000, 1000},
		{true, false, RESUME_ASKED, 1000, UINT64_MAX},
		{true, true, RESUME_ASKED, 1000, 1000},
		{true, false, RESUME_DONE, 1000, 1000},
	};
	struct stage stage;
	uint64_t offset;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		open_stage(&stage, 0);
		stage.fed->prod = 1000;
		stage.fed->tx_start = opt_some(0);
		stage.half->rx_stop = opt_some(500);
		stage.half->rx_resume = rows[i].resume;
		stage.r.can_replay = rows[i].can_replay;
		stage.r.gone = rows[i].gone;
		remote_do(&stage.r, REMOTE_DO_FREEZE);
		CHECK_EQ(stage.fed->tx_end, opt_some(1000));
		CHECK_EQ(stage.fed->stop_ack, opt_some(rows[i].answer));
		offset = UINT64_MAX;
		CHECK_EQ(remote_reached(&stage.r, &offset), rows[i].reached != UINT64_MAX);
		CHECK_EQ(offset, rows[i].reached);
		/* What is decided stays, for a successor that would decide otherwise. */
		stage.r.can_replay = !rows[i].can_replay;
		remote_do(&stage.r, REMOTE_DO_FREEZE);
		CHECK_EQ(stage.fed->stop_ack, opt_some(rows[i].answer));
		close_stage(&stage);
	}
	/* A reader that may still take TCP for the ring's place is not where it seems to be. */
	open_stage(&stage, 0);
	stage.fed->prod = 1000;
	stage.half->rx_seen = 0;
	remote_do(&stage.r, REMOTE_DO_FREEZE);
	CHECK(!remote_reached(&stage.r, &offset));
	close_stage(&stage);
}

/* What the other end gets of a client that died with 3000 bytes in its ring, and @unread of its
 * own. */
static int last_words(uint64_t unread)
{
	struct stage stage;
	uint64_t at = 0;
	int rc = -EAGAIN;

	open_stage(&stage, 3000);
	stage.fed->prod = unread;
	stage.r.gone = true;
	close(stage.tcp[0]);
	CHECK_OK(run(&stage));
	CHECK(stage.r.sock >= 0); /* nobody knows yet where to begin */
	stage.r.wanted = opt_some(0);
	for (int i = 0; i < 1000 && rc == -EAGAIN; i++) {
		CHECK_OK(run(&stage));
		rc = take(&stage, &at);
		usleep(1000);
	}
	CHECK_EQ(stage.r.sock, -1);
	CHECK_EQ(at, 3000);
	stage.tcp[0] = -1;
	close_stage(&stage);
	return rc;
}

TAP_CASE(a_client_that_is_gone)
{
	CHECK_EQ(last_words(0), 0);
	CHECK_EQ(last_words(1), -ECONNRESET);
}

TAP_CASE(a_lane_that_is_not_lost)
{
	struct stage stage;

	open_stage(&stage, 1000);
	stage.r.lost = false;
	stage.half->tx_end = opt_some(1000);
	remote_words_read(stage.half, &stage.r.acked);
	stage.r.acked.prod = 999;
	CHECK_EQ(remote_next(&stage.r), REMOTE_DO_NOTHING);
	stage.r.acked.prod = 1000;
	CHECK_EQ(remote_next(&stage.r), REMOTE_DO_VOUCH);
	CHECK_OK(run(&stage));
	CHECK_EQ(stage.fed->replayed, opt_some(1000));
	CHECK(!remote_can_replay(&stage.r));
	stage.r.drained = true;
	CHECK_OK(run(&stage));
	CHECK_EQ(stage.r.sock, -1);
	close_stage(&stage);

	open_stage(&stage, 1000);
	stage.r.lost = false;
	stage.half->rx_stop = opt_some(10);
	CHECK_EQ(remote_next(&stage.r), REMOTE_DO_HAND_OVER);
	close_stage(&stage);
}

/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/ring.h"

#include "lib/tap.h"
#include "stage.h"

/*
 * Links that are lost at any time: both ends say of each lane exactly how far it came, and what is
 * missing is in the sender's ring.
 */

#define LANES 4u
#define KILLS 8u

enum way { ASKED, BROKEN, FLUSHED, POST_FAILS, WAYS };

static enum way way;
static uint64_t moment; /* bytes received by the one who kills */

static void kill_link(struct stage *stage)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	switch (way) {
	case ASKED:
		worker_link_end(stage->worker_link, "the test says so");
		break;
	case BROKEN:
		CHECK_EQ(ibv_modify_qp(stage->qp->verbs, &attr, IBV_QP_STATE), 0);
		break;
	case FLUSHED:
		verbs_host_faults(stage->host, "send action=flush");
		break;
	case POST_FAILS:
		verbs_host_faults(stage->host, "post_send value=-12");
		break;
	case WAYS:
		break;
	}
}

struct offsets {
	uint64_t fed, sent, consumed, produced;
};

/* What was produced and has not come is in the ring still, right to the byte. */
static void check_rest(const struct stage_lane *lane, const struct offsets *there)
{
	const struct stub *stub = &lane->stub;
	const uint8_t *ring = half_ring_const(lane->client->ctl);
	uint64_t size = lane->client->ring_bytes;

	CHECK(stub->sent - there->fed <= size);
	for (uint64_t at = there->fed; at < stub->sent; at++) {
		if (ring[at & (size - 1)] != stub_byte(stub->seed_out, at)) {
			CHECK_EQ(at, -1);
			break;
		}
	}
}

/* Both ends of each lane, compared. */
static void compare_ends(struct stage *stage)
{
	for (uint32_t i = 0; i < LANES; i++) {
		const struct stage_lane *lane = &stage->lanes[i];
		struct offsets here = {lane->report.fed.v, lane->report.sent.v,
				       lane->report.consumed.v, lane->stub.sent};
		struct offsets there;

		CHECK_EQ(send(stage->sock, &here, sizeof(here), 0), sizeof(here));
		CHECK_EQ(recv(stage->sock, &there, sizeof(there), 0), sizeof(there));
		/* No byte counts there that was not sent, and none that is consumed is missing. */
		CHECK(there.fed <= here.sent && here.sent <= here.produced);
		CHECK(here.consumed <= there.fed);
		CHECK(lane->stub.received <= here.fed);
		check_rest(lane, &there);
	}
}

static void lose(struct stage *stage)
{
	for (uint32_t i = 0; i < LANES; i++) {
		stage->lanes[i].stub.role = STUB_STREAM;
		stage->lanes[i].stub.target = UINT64_MAX / 2;
		stage->lanes[i].stub.is_mixed = i % 2 == 1;
		stage->lanes[i].stub.is_gentle = true;
	}
	stage_meet(stage);
	if (stage->side == 0) {
		while (stage_received(stage) < moment && !stage->is_down)
			stage_turn(stage, 10);
		kill_link(stage);
	} else {
		/* With its link the other end has gone, and is told so by the daemon. */
		STAGE_AWAIT(stage, stage->is_down);
	}
	STAGE_AWAIT(stage, stage->is_down);
	for (uint32_t i = 0; i < LANES; i++) {
		const struct stage_lane *lane = &stage->lanes[i];

		CHECK_EQ(lane->n_ended, 1);
		CHECK_EQ(lane->report.end, WORKER_LOST);
		CHECK_EQ(atomic_load(&lane->fed->ctl->prod), lane->report.fed.v);
	}
	STAGE_AWAIT(stage, stage->is_gone);
	for (uint32_t i = 0; i < LANES; i++) {
		const struct stage_lane *lane = &stage->lanes[i];

		CHECK_EQ(lane->n_over, 1);
		CHECK(lane->link_lost);
		/* Nothing was added since. */
		CHECK_EQ(atomic_load(&lane->fed->ctl->prod), lane->report.fed.v);
	}
	compare_ends(stage);
}

static void lose_many_times(enum way how, const char *personality)
{
	struct stage_conf conf = stage_usual;

	conf.lanes = LANES;
	conf.personality = personality;
	conf.inline_bytes = 80;
	way = how;
	for (uint32_t i = 0; i < KILLS; i++) {
		moment = i * i * 40000;
		stage_run(&conf, lose);
	}
}

TAP_CASE(a_link_that_the_daemon_gives_up)
{
	lose_many_times(ASKED, "rxe");
}

TAP_CASE(a_queue_pair_that_breaks)
{
	lose_many_times(BROKEN, "rxe");
}

TAP_CASE(messages_that_are_flushed)
{
	lose_many_times(FLUSHED, "rxe");
}

TAP_CASE(a_post_that_fails)
{
	lose_many_times(POST_FAILS, "rxe");
}

TAP_CASE(a_link_that_the_daemon_gives_up_over_iwarp)
{
	lose_many_times(ASKED, "siw");
}

/* The daemon there dies in mid-stream, and says goodbye to nobody. */
static void peer_dies(struct stage *stage)
{
	struct stage_lane *lane = &stage->lanes[0];

	lane->stub.role = STUB_STREAM;
	lane->stub.target = UINT64_MAX / 2;
	if (stage->side == 1) {
		STAGE_AWAIT(stage, lane->stub.received > 100000);
		_exit(0);
	}
	STAGE_AWAIT(stage, stage->is_gone);
	CHECK_EQ(lane->report.end, WORKER_LOST);
	CHECK_EQ(atomic_load(&lane->fed->ctl->prod), lane->report.fed.v);
}

TAP_CASE(a_peer_that_dies)
{
	stage_run(&stage_usual, peer_dies);
}

/* --- silence ---------------------------------------------------------------------------------- */

/* The peer is gone, and the device says nothing of it, ever. */
static void silence(struct stage *stage)
{
	struct stub *stub = &stage->lanes[0].stub;
	bool found, found_there;
	uint64_t begin_ns;

	stub->role = STUB_STREAM;
	stub->target = 1000;
	STAGE_AWAIT(stage, stub->received == 1000);
	stage_meet(stage);
	begin_ns = clock_now_ns();
	if (stage->side == 0)
		verbs_host_port(stage->host, stage->name, "down");
	STAGE_AWAIT(stage, stage->is_down);
	/* Asked after a second, waited for another; the rest is for a busy machine. */
	CHECK(clock_now_ns() - begin_ns > 1500000000ull);
	CHECK(clock_now_ns() - begin_ns < 4000000000ull);
	/* Who finds it first breaks the queue pair, which the other may notice. */
	found = strstr(stage->why, "has not answered");
	CHECK_EQ(send(stage->sock, &found, sizeof(found), 0), sizeof(found));
	CHECK_EQ(recv(stage->sock, &found_there, sizeof(found_there), 0), sizeof(found_there));
	CHECK(found || found_there);
	STAGE_AWAIT(stage, stage->is_gone);
	CHECK_EQ(stage->lanes[0].report.end, WORKER_LOST);
}

TAP_CASE(a_silent_peer_is_found_by_asking)
{
	struct stage_conf conf = stage_usual;

	conf.personality = "siw";
	conf.inline_bytes = 80;
	stage_run(&conf, silence);
}

/* --- quiet ------------------------------------------------------------------------------------ */

static void sleep_for(uint64_t ms)
{
	const struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	nanosleep(&pause, NULL);
}

/* Nothing is to be done but to ask the peer once a second whether it is there. */
static void idle(struct stage *stage)
{
	struct worker_counts before, after;

	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		stage->lanes[i].stub.role = STUB_STREAM;
		stage->lanes[i].stub.target = 1000;
	}
	STAGE_AWAIT(stage, stage_received(stage) == 1000ull * stage->conf.lanes);
	stage_meet(stage);
	/* Asked whether it goes on, it wakes up and answers. */
	for (int i = 0; i < 3; i++) {
		bool has_answered = false;

		STAGE_AWAIT(stage, has_answered |= worker_has_answered(stage->worker));
	}
	sleep_for(200);
	before = worker_counts(stage->worker);
	sleep_for(3000);
	after = worker_counts(stage->worker);
	tap_diag("idle for 3 s with %u lanes: %llu turns, %llu sleeps", stage->conf.lanes,
		 (unsigned long long)(after.turns - before.turns),
		 (unsigned long long)(after.sleeps - before.sleeps));
	/* A question a second and its answer, both ways, and their completions. */
	CHECK(after.sleeps - before.sleeps <= 40);
	CHECK(after.turns - before.turns <= 400);
	stage_end_lanes(stage);
}

TAP_CASE(an_idle_worker_sleeps)
{
	struct stage_conf conf = stage_usual;

	conf.lanes = 32;
	conf.spin_ns = 0;
	stage_run(&conf, idle);
}

/* SPDX-License-Identifier: MIT */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "core/replay.h"

#include "lib/tap.h"
#include "stage.h"

/* Bytes through the worker: streams, messages of each form, rings of all sizes, many lanes. */

#define STREAM_BYTES (8u << 20)

static const uint32_t inline_limits[] = {0, 32, 48, 80, 96, 101, 216, 236, 512};

static struct stage_conf with_inline(uint32_t bytes)
{
	struct stage_conf conf = stage_usual;

	conf.inline_bytes = bytes;
	return conf;
}

/* --- streams ---------------------------------------------------------------------------------- */

/* @bytes each way on all lanes together, and on every second lane messages of many sizes. */
static void stream(struct stage *stage, uint64_t bytes)
{
	uint64_t each = bytes / stage->conf.lanes;

	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		stage->lanes[i].stub.role = STUB_STREAM;
		stage->lanes[i].stub.target = each;
		stage->lanes[i].stub.is_mixed = i % 2 == 1;
	}
	STAGE_AWAIT(stage, stage_received(stage) == each * stage->conf.lanes);
	for (uint32_t i = 0; i < stage->conf.lanes; i++)
		STAGE_AWAIT(stage, stage->lanes[i].stub.sent == each);
	stage_end_lanes(stage);
	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		const struct worker_report *report = &stage->lanes[i].report;

		/* Whoever was asked first. */
		CHECK(report->end == WORKER_ASKED || report->end == WORKER_PEER_DONE);
		CHECK_EQ(report->fed.v, each);
		CHECK_EQ(report->sent.v, each);
		CHECK(!stage->lanes[i].link_lost);
	}
}

static void stream_8_mib(struct stage *stage)
{
	stream(stage, STREAM_BYTES);
}

static void stream_1_mib(struct stage *stage)
{
	stream(stage, STREAM_BYTES / 8);
}

TAP_CASE(streams_each_way_at_every_inline_limit)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(inline_limits); i++) {
		struct stage_conf conf = with_inline(inline_limits[i]);

		conf.ring_bytes[0] = conf.ring_bytes[1] = 1u << 20;
		stage_run(&conf, stream_8_mib);
		conf.lanes = 2;
		conf.ring_bytes[0] = conf.ring_bytes[1] = 65536;
		stage_run(&conf, stream_1_mib);
	}
}

TAP_CASE(streams_over_siw_where_the_dialler_speaks_first)
{
	struct stage_conf conf = with_inline(80);

	conf.personality = "siw";
	conf.lanes = 2;
	stage_run(&conf, stream_1_mib);
}

/* Wraps at both ends, at different places, in each form. */
TAP_CASE(rings_of_all_sizes)
{
	static const uint64_t rings[][2] = {{4096, 4096}, {4096, 65536}, {16384, 8192}};

	for (uint32_t i = 0; i < ARRAY_SIZE(rings); i++) {
		struct stage_conf conf = stage_usual;

		memcpy(conf.ring_bytes, rings[i], sizeof(rings[i]));
		conf.lanes = 2;
		stage_run(&conf, stream_1_mib);
	}
}

TAP_CASE(many_lanes)
{
	struct stage_conf conf = stage_usual;

	conf.lanes = 48;
	stage_run(&conf, stream_8_mib);
}

/* The fewest credits and the shortest queue that a link may have. */
TAP_CASE(few_credits_and_a_short_queue)
{
	struct stage_conf conf = stage_usual;

	conf.depth = LINK_DEPTH_MIN;
	conf.credits = LINK_CREDITS_MIN;
	conf.lanes = 6;
	stage_run(&conf, stream_1_mib);
	conf.inline_bytes = 0;
	conf.ring_bytes[1] = 4096;
	stage_run(&conf, stream_1_mib);
}

/* Nobody reads until all windows are full, and credits are few; then it goes on. */
static void full_windows(struct stage *stage)
{
	uint64_t ring = stage->conf.ring_bytes[0], most = 4 * ring;

	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		stage->lanes[i].stub.role = STUB_STREAM;
		stage->lanes[i].stub.target = most;
		stage->lanes[i].stub.reads_nothing = true;
	}
	/* What fits the ring there; what was sent stands here until it is consumed there. */
	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		STAGE_AWAIT(stage, stage->lanes[i].stub.sent == ring &&
					   atomic_load(&stage->lanes[i].fed->ctl->prod) == ring);
	}
	stage_meet(stage);
	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		CHECK_EQ(stage->lanes[i].stub.sent, ring);
		stage->lanes[i].stub.reads_nothing = false;
	}
	STAGE_AWAIT(stage, stage_received(stage) == most * stage->conf.lanes);
	stage_end_lanes(stage);
}

TAP_CASE(windows_and_credits_exhausted_at_once)
{
	struct stage_conf conf = stage_usual;

	conf.credits = LINK_CREDITS_MIN;
	conf.ring_bytes[0] = conf.ring_bytes[1] = 8192;
	conf.lanes = 5;
	stage_run(&conf, full_windows);
}

/* --- the end of a stream ---------------------------------------------------------------------- */

static void end_both_ways(struct stage *stage)
{
	struct stage_lane *lane = &stage->lanes[0];
	const uint32_t words =
		1u << LINK_WORD_TX_START | 1u << LINK_WORD_RX_SEEN | 1u << LINK_WORD_TX_END;

	lane->stub.role = STUB_STREAM;
	lane->stub.target = 100000;
	STAGE_AWAIT(stage, lane->stub.sent == lane->stub.target);
	/* Who hears of an end while there is more to send goes back to TCP with it. */
	stage_meet(stage);
	stub_close(&lane->stub);
	CHECK(lane->stub.tx_ended);
	/* The end comes behind the bytes, and its daemon's word that all is there. */
	STAGE_AWAIT(stage, lane->stub.rx_ended && lane->words.reached.v == lane->stub.target);
	CHECK_EQ(lane->stub.received, lane->stub.target);
	CHECK_EQ(lane->words.heard & words, words);
	CHECK_EQ(lane->words.told & words, words);
	/* The daemon vouches for it then, and the other says that its client has read it all. */
	replay_publish(lane->fed->ctl, ring_off(lane->stub.target));
	STAGE_AWAIT(stage, lane_is_done(&lane->stub.lane) == 1);
	stage_end_lanes(stage);
	CHECK_EQ(lane->report.consumed.v, lane->stub.target);
}

TAP_CASE(the_end_of_a_stream_is_acknowledged)
{
	stage_run(&stage_usual, end_both_ways);
}

/* --- forms ------------------------------------------------------------------------------------ */

static const uint32_t sizes[] = {1, 16, 48, 64, 100, 185, 204, 216, 236, 400, 480, 512, 1000};

#define ROUNDS 10u

/* One message at a time, each of one size: it goes and comes back in the form that fits. */
static void messages_of_all_sizes(struct stage *stage)
{
	struct stub *stub = &stage->lanes[0].stub;
	uint32_t limit = stage->conf.inline_bytes;
	uint64_t eager = 0, write_inline = 0, by_reference = 0;
	struct worker_link_counts counts;
	struct worker_lane_counts lane;

	stub->role = stage->side == 0 ? STUB_PING : STUB_ECHO;
	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (uint32_t j = 0; j < ROUNDS; j++) {
			stub->target += sizes[i];
			/* The echo is of what has come, however far we are here. */
			if (stage->side == 0)
				STAGE_AWAIT(stage, stub->received == stub->target);
			eager += 32 + sizes[i] <= limit;
			write_inline += 32 + sizes[i] > limit && sizes[i] <= limit;
			by_reference += sizes[i] > limit;
		}
	}
	STAGE_AWAIT(stage, stub->received == stub->target && stub->sent == stub->target);
	stage_meet(stage);
	counts = worker_link_counts(stage->worker_link);
	lane = worker_lane_counts(stage->lanes[0].worker);
	CHECK_EQ(counts.send.eager, eager);
	CHECK_EQ(counts.send.write_inline, write_inline);
	CHECK_EQ(counts.send.by_reference, by_reference);
	CHECK_EQ(lane.eager, eager);
	CHECK_EQ(lane.write_inline, write_inline);
	CHECK_EQ(lane.by_reference, by_reference);
	CHECK_EQ(lane.bytes_sent, stub->sent);
	CHECK_EQ(lane.bytes_received, stub->received);
	if (limit <= 32)
		CHECK_EQ(counts.send.eager, 0);
	tap_diag("inline %u: %llu eager, %llu write-inline, %llu by reference", limit,
		 (unsigned long long)eager, (unsigned long long)write_inline,
		 (unsigned long long)by_reference);
	stage_end_lanes(stage);
}

TAP_CASE(messages_go_in_the_form_that_fits_each_inline_limit)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(inline_limits); i++) {
		const struct stage_conf conf = with_inline(inline_limits[i]);

		stage_run(&conf, messages_of_all_sizes);
	}
}

/* --- ping-pong -------------------------------------------------------------------------------- */

#define PINGS 1000u

static void ping_pong(struct stage *stage, uint32_t lane, uint32_t pings)
{
	struct stub *stub = &stage->lanes[lane].stub;

	stub->unit = 64;
	stub->role = stage->side == 0 ? STUB_PING : STUB_ECHO;
	stub->target = (uint64_t)stub->unit * pings;
	STAGE_AWAIT(stage, stub->received == stub->target && stub->sent == stub->target);
}

/* --- what a message must not cost ------------------------------------------------------------- */

/* Calls from our own code, by the linker's --wrap. */
static atomic_uint costs;

#define COUNTED(type, name, params, args)                                                          \
	type __real_##name params;                                                                 \
	__attribute__((visibility("default"))) type __wrap_##name params;                          \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		atomic_fetch_add(&costs, 1);                                                       \
		return __real_##name args;                                                         \
	}

COUNTED(void *, malloc, (size_t bytes), (bytes))
COUNTED(void *, calloc, (size_t n, size_t bytes), (n, bytes))
COUNTED(void *, realloc, (void *at, size_t bytes), (at, bytes))
COUNTED(int, posix_memalign, (void **at, size_t align, size_t bytes), (at, align, bytes))
COUNTED(struct ibv_qp *, ibv_create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr *attr),
	(pd, attr))
#undef ibv_reg_mr
COUNTED(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *at, size_t bytes, int access),
	(pd, at, bytes, access))

static void one_request_per_message(struct stage *stage)
{
	struct worker_link_counts before, after;
	uint64_t messages, wrs, posts;
	unsigned int costs_before;

	stage_meet(stage);
	before = worker_link_counts(stage->worker_link);
	/* They are counted at all; and the pool is full again. */
	CHECK(atomic_load(&costs) > 0);
	STAGE_AWAIT(stage, stage->pool.n_ready > 0);
	costs_before = atomic_load(&costs);
	ping_pong(stage, 0, PINGS);
	CHECK_EQ(atomic_load(&costs), costs_before);
	CHECK_EQ(stage->rig.cqs.count, 1);
	stage_meet(stage);
	after = worker_link_counts(stage->worker_link);
	messages = after.send.eager - before.send.eager;
	wrs = after.send.wrs - before.send.wrs;
	posts = after.send.posts - before.send.posts;
	CHECK_EQ(messages, PINGS);
	CHECK(wrs >= messages && wrs * 100 <= messages * 101);
	CHECK(posts <= wrs);
	tap_diag("work requests per 64 B message: %.2f, posts: %.2f",
		 (double)wrs / (double)messages, (double)posts / (double)messages);
	stage_end_lanes(stage);
}

TAP_CASE(a_small_message_is_one_work_request)
{
	stage_run(&stage_usual, one_request_per_message);
}

/* Everybody sleeps between two messages: no wake-up may be lost. */
TAP_CASE(a_worker_that_never_spins_misses_nothing)
{
	struct stage_conf conf = stage_usual;

	conf.spin_ns = 0;
	stage_run(&conf, one_request_per_message);
}

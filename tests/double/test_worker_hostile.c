/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/socket.h>

#include "core/cdc.h"
#include "core/wire.h"
#include "fabric/worker_impl.h"
#include "os/bell.h"

#include "lib/tap.h"
#include "stage.h"

/*
 * A peer, or a client, that breaks the rules: it loses its lane, or the link, with a reason, and
 * nobody else loses anything.
 */

/* What one side forges, on lane 0; lane 1 is an honest one. */
enum forgery {
	WRONG_SEQUENCE,
	WRONG_PROD,
	BEYOND_THE_WINDOW,
	NOT_SENT,
	BAD_WORD,
	END_WITHOUT_WORD,
	/* The link's. */
	SHORT_MESSAGE,
	UNKNOWN_TYPE,
	FORGED_CREDITS,
	UNASKED_ANSWER,
	GOODBYE,
	/* Nobody's: dropped. */
	OLD_TOKEN,
	OLD_EPOCH,
	FORGERIES,
};

static const char *const reasons[FORGERIES] = {
	[WRONG_SEQUENCE] = "wrong_sequence",
	[WRONG_PROD] = "wrong_producer_offset",
	[BEYOND_THE_WINDOW] = "beyond_the_window",
	[NOT_SENT] = "wrong_consumer_offset",
	[BAD_WORD] = "bad_value",
	[END_WITHOUT_WORD] = "flags without their words",
	[SHORT_MESSAGE] = "bad_length",
	[UNKNOWN_TYPE] = "bad_type",
	[FORGED_CREDITS] = "forged_credits",
	[UNASKED_ANSWER] = "answers what nobody asked",
	[GOODBYE] = "has closed the link",
	[OLD_TOKEN] = "",
	[OLD_EPOCH] = "",
};

static enum forgery forgery;

/* Post @len bytes as a message, behind the back of our own worker. */
static void send_raw(struct stage *stage, uint8_t *bytes, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)bytes, .length = len};
	/* Of a link that there never is: our worker drops the completion. */
	struct ibv_send_wr *bad, send = {
					 .wr_id = UINT64_MAX >> 1,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
				 };

	CHECK_EQ(ibv_post_send(stage->qp->verbs, &send, &bad), 0);
}

/* The next message of lane 0, as an honest one would be, with nothing to tell. */
static struct cdc honest(struct stage *stage)
{
	const struct stage_lane *lane = &stage->lanes[0];

	return (struct cdc){
		.type = LINK_MSG_CDC,
		.epoch = 1,
		.token = lane->peer,
		.sequence = (uint32_t)worker_lane_counts(lane->worker).messages + 1,
		.prod = (uint32_t)lane->stub.sent,
		.cons = (uint32_t)lane->stub.received,
		.flags = CDC_F_START,
	};
}

/* The credit for a message that our own worker knows nothing of comes back to it. It is at rest
 * when this reaches into it. */
__attribute__((no_sanitize("thread"))) static void expect_credit(struct stage *stage)
{
	stage->worker_link->send.flow.limits.peer_credits++;
}

static void forge(struct stage *stage)
{
	struct cdc msg = honest(stage);
	uint8_t bytes[CDC_BYTES + LINK_WORD_BYTES] = {0};
	uint32_t len = CDC_BYTES;

	if (forgery == WRONG_SEQUENCE)
		msg.sequence += 7;
	if (forgery == WRONG_PROD)
		msg.prod++;
	if (forgery == BEYOND_THE_WINDOW)
		msg.prod += msg.moved = 65537;
	if (forgery == NOT_SENT)
		msg.cons += 100000;
	if (forgery == END_WITHOUT_WORD)
		msg.flags = CDC_F_START | CDC_F_END;
	if (forgery == OLD_TOKEN)
		msg.token.generation += 5;
	if (forgery == OLD_EPOCH)
		msg.epoch = 9;
	if (forgery == FORGED_CREDITS)
		msg = (struct cdc){.type = LINK_MSG_CREDIT, .credits = 60000};
	if (forgery == UNASKED_ANSWER)
		msg = (struct cdc){.type = LINK_MSG_TEST_ANSWER, .sequence = 77};
	if (forgery == GOODBYE)
		msg = (struct cdc){.type = LINK_MSG_BYE};
	if (forgery == BAD_WORD) {
		msg.type = LINK_MSG_STATE;
		msg.payload = LINK_WORD_BYTES;
		len += LINK_WORD_BYTES;
		bytes[CDC_BYTES] = LINK_WORD_LEAVE;
		put_be64(bytes + CDC_BYTES + 1, 2);
	}
	cdc_encode(&msg, bytes);
	expect_credit(stage);
	if (forgery == SHORT_MESSAGE)
		len = 5;
	if (forgery == UNKNOWN_TYPE)
		bytes[0] = 99;
	send_raw(stage, bytes, len);
}

/* Bytes on @lane both ways, and wait for them. */
static void more_bytes(struct stage *stage, uint32_t lane, uint64_t bytes)
{
	struct stub *stub = &stage->lanes[lane].stub;

	stub->role = STUB_STREAM;
	stub->target += bytes;
	STAGE_AWAIT(stage, stub->sent == stub->target && stub->received == stub->target);
}

static void check_lane_breach(struct stage *stage)
{
	struct stage_lane *lane = &stage->lanes[0];

	STAGE_AWAIT(stage, lane->n_over == 1);
	if (stage->side == 0) {
		CHECK_EQ(lane->report.end, WORKER_PEER_BREACH);
		CHECK(strstr(lane->report.why, reasons[forgery]));
	} else {
		CHECK_EQ(lane->report.end, WORKER_PEER_DONE);
	}
	if (stage->is_down)
		tap_diag("side %d: %s", stage->side, stage->why);
	/* Not a byte of what was forged counts. */
	CHECK_EQ(lane->report.fed.v, 5000);
	CHECK_EQ(atomic_load(&lane->fed->ctl->prod), 5000);
	CHECK(!lane->link_lost);
	more_bytes(stage, 1, 200000);
	CHECK(!stage->is_down);
}

static void hostile_peer(struct stage *stage)
{
	more_bytes(stage, 0, 5000);
	more_bytes(stage, 1, 5000);
	stage_meet(stage);
	if (stage->side == 1)
		forge(stage);
	if (forgery < SHORT_MESSAGE) {
		check_lane_breach(stage);
		stage_end_lanes(stage);
	} else if (forgery < OLD_TOKEN) {
		STAGE_AWAIT(stage, stage->is_down);
		if (stage->side == 0)
			CHECK(strstr(stage->why, reasons[forgery]));
		STAGE_AWAIT(stage, stage->is_gone);
		CHECK_EQ(stage->lanes[0].report.fed.v, 5000);
	} else {
		more_bytes(stage, 0, 5000);
		more_bytes(stage, 1, 5000);
		stage_meet(stage);
		if (stage->side == 0)
			CHECK_EQ(worker_link_counts(stage->worker_link).send.stale, 1);
		stage_end_lanes(stage);
	}
}

TAP_CASE(a_peer_that_breaks_the_rules)
{
	struct stage_conf conf = stage_usual;

	conf.lanes = 2;
	for (forgery = 0; forgery < FORGERIES; forgery++) {
		tap_diag("%d: %s", (int)forgery, *reasons[forgery] ? reasons[forgery] : "dropped");
		stage_run(&conf, hostile_peer);
	}
}

/* Messages without credits, as many as there are receives and more. */
static void flood(struct stage *stage)
{
	stage_meet(stage);
	if (stage->side == 1) {
		struct cdc msg = honest(stage);
		uint8_t bytes[CDC_BYTES];

		msg.token.generation += 5;
		cdc_encode(&msg, bytes);
		for (uint32_t i = 0; i < stage->conf.depth / 2; i++)
			send_raw(stage, bytes, sizeof(bytes));
	}
	STAGE_AWAIT(stage, stage->is_down);
	/* Found as a message without a credit, or as one without a receive, whichever is first. */
	CHECK(stage->why[0]);
	STAGE_AWAIT(stage, stage->is_gone);
	CHECK_EQ(stage->lanes[0].report.end, WORKER_LOST);
}

TAP_CASE(a_peer_that_ignores_credits)
{
	struct stage_conf conf = stage_usual;

	conf.credits = LINK_CREDITS_MIN;
	stage_run(&conf, flood);
}

/* --- clients ---------------------------------------------------------------------------------- */

enum scribble {
	PROD_TOO_FAR,
	PROD_BACK,
	CONS_TOO_FAR,
	START_AGAIN,
	SEEN_TAKEN_BACK,
	END_BEFORE,
	FLAG_OF_TWO,
	EPOCH_CHANGED,
	SCRIBBLES,
};

static enum scribble scribble;

static void scribble_on(struct half_ctl *half)
{
	switch (scribble) {
	case PROD_TOO_FAR:
		atomic_fetch_add(&half->prod, 1u << 20);
		break;
	case PROD_BACK:
		atomic_fetch_sub(&half->prod, 10);
		break;
	case CONS_TOO_FAR:
		atomic_fetch_add(&half->cons, 10);
		break;
	case START_AGAIN:
		atomic_fetch_add(&half->tx_start, 1);
		break;
	case SEEN_TAKEN_BACK:
		atomic_store(&half->rx_seen, 0);
		break;
	case END_BEFORE:
		atomic_store(&half->tx_end, opt_some(10));
		break;
	case FLAG_OF_TWO:
		atomic_store(&half->leave, 2);
		break;
	case EPOCH_CHANGED:
		atomic_store(&half->epoch, 2);
		break;
	case SCRIBBLES:
		break;
	}
	atomic_fetch_add(&half->state_seq, 1);
}

static void hostile_client(struct stage *stage)
{
	struct stage_lane *lane = &stage->lanes[0];

	more_bytes(stage, 0, 5000);
	more_bytes(stage, 1, 5000);
	stage_meet(stage);
	if (stage->side == 0) {
		scribble_on(lane->map);
		bell_ring(lane->own_bell);
	}
	STAGE_AWAIT(stage, lane->n_over == 1);
	CHECK_EQ(lane->report.end, stage->side == 0 ? WORKER_CLIENT_BREACH : WORKER_PEER_DONE);
	CHECK(lane->report.why[0]);
	/* Nothing of it went to the peer. */
	CHECK_EQ(lane->report.fed.v, 5000);
	more_bytes(stage, 1, 200000);
	CHECK(!stage->is_down);
	stage_end_lanes(stage);
}

TAP_CASE(a_client_that_scribbles_on_its_half)
{
	struct stage_conf conf = stage_usual;

	conf.lanes = 2;
	for (scribble = 0; scribble < SCRIBBLES; scribble++) {
		tap_diag("%d", (int)scribble);
		stage_run(&conf, hostile_client);
	}
}

/* --- one end ---------------------------------------------------------------------------------- */

static void end_of_one(struct stage *stage)
{
	more_bytes(stage, 0, 5000);
	stage_meet(stage);
	if (stage->side == 0) {
		worker_lane_end(stage->lanes[0].worker);
		STAGE_AWAIT(stage, stage->lanes[0].n_over == 1);
		CHECK_EQ(stage->lanes[0].report.end, WORKER_ASKED);
		CHECK(!stage->lanes[0].link_lost);
	} else {
		/* The worker answers by itself, with the reason. */
		STAGE_AWAIT(stage, stage->lanes[0].n_over == 1);
		CHECK_EQ(stage->lanes[0].report.end, WORKER_PEER_DONE);
	}
	CHECK_EQ(stage->lanes[0].report.fed.v, 5000);
	/* A name is never used again as it was. */
	CHECK_EQ(worker_lane_make(stage->worker_link, NULL, &stage->lanes[0].worker), 0);
	CHECK_EQ(worker_lane_token(stage->lanes[0].worker).index, 0);
	CHECK_EQ(worker_lane_token(stage->lanes[0].worker).generation, 2);
	stage->lanes[0].worker = worker_lane_free(stage->lanes[0].worker);
}

TAP_CASE(a_lane_that_one_end_ends_is_over_at_both)
{
	stage_run(&stage_usual, end_of_one);
}

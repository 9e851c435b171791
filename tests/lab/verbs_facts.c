/* SPDX-License-Identifier: MIT */
/*
 * What a device answers to good and to bad use, one line a question, so that the verbs test double
 * can be compared with the drivers that it stands for.
 *
 *	verbs-facts ADDRESS [QUESTION]
 *
 * Asks over fresh connections of ADDRESS, a device's own, with itself. What differs between two
 * runs (times, numbers of queue pairs, races) is not asked. Exit status 0 if every question could
 * be asked.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "loop.h"

#define DEPTH 16
#define INLINE_BYTES 64
#define BOGUS_KEY 0x5a5a5a5aU

static const struct ibv_qp_cap usual = {.max_send_wr = DEPTH,
					.max_recv_wr = DEPTH,
					.max_send_sge = 1,
					.max_recv_sge = 1,
					.max_inline_data = INLINE_BYTES};

/* What a post function returned: nothing, or an error and its sign, which providers differ in. */
static void say_post(const char *what, int rc)
{
	if (rc)
		printf(" %s %s%s", what, rc < 0 ? "-" : "", strerrorname_np(rc < 0 ? -rc : rc));
}

static void say_completion(const char *what, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (!loop_completion(cq, &wc))
		printf(" %s never", what);
	else
		printf(" %s %s", what, ibv_wc_status_str(wc.status));
}

static void say_sent(struct loop *loop)
{
	say_completion("sent", loop->a.sent);
}

static void say_received(struct loop *loop)
{
	say_completion("received", loop->b.received);
}

static void say_event(const char *what, struct loop *loop)
{
	int type = loop_event(loop, LOOP_WAIT_MS, NULL);

	printf(" %s %s", what, type < 0 ? "none" : rdma_event_str((enum rdma_cm_event_type)type));
}

static void by_reference(struct loop *loop)
{
	say_post("receive", loop_receive(&loop->b, LOOP_BYTES));
	say_post("send", loop_send(&loop->a, LOOP_BYTES, loop->a.mr->lkey, 0));
	say_sent(loop);
	say_received(loop);
}

static void inline_without_key(struct loop *loop)
{
	say_post("receive", loop_receive(&loop->b, LOOP_BYTES));
	say_post("send", loop_send(&loop->a, INLINE_BYTES, BOGUS_KEY, IBV_SEND_INLINE));
	say_sent(loop);
	say_received(loop);
}

static void inline_above_grant(struct loop *loop)
{
	say_post("receive", loop_receive(&loop->b, LOOP_BYTES));
	say_post("send", loop_send(&loop->a, INLINE_BYTES + 1, loop->a.mr->lkey, IBV_SEND_INLINE));
}

static void inline_above_limit(struct loop *loop)
{
	say_post("receive", loop_receive(&loop->b, LOOP_BYTES));
	say_post("send", loop_send(&loop->a, LOOP_BYTES, loop->a.mr->lkey, IBV_SEND_INLINE));
}

static void bad_lkey(struct loop *loop)
{
	say_post("receive", loop_receive(&loop->b, LOOP_BYTES));
	say_post("send", loop_send(&loop->a, INLINE_BYTES, BOGUS_KEY, 0));
	say_sent(loop);
}

static void nothing_to_receive_into(struct loop *loop)
{
	say_post("send", loop_send(&loop->a, INLINE_BYTES, loop->a.mr->lkey, 0));
	say_sent(loop);
}

static void receive_too_small(struct loop *loop)
{
	say_post("receive", loop_receive(&loop->b, INLINE_BYTES - 1));
	say_post("send", loop_send(&loop->a, INLINE_BYTES, loop->a.mr->lkey, 0));
	say_sent(loop);
	say_received(loop);
}

/* A WRITE into the peer's memory by @rkey, then a SEND behind it, which tells that it was done. */
static void write_and_send(struct loop *loop, uint32_t rkey, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)loop->a.data, .length = INLINE_BYTES, .lkey = loop->a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	memset(loop->a.data, 7, INLINE_BYTES);
	wr.wr.rdma.remote_addr = (uintptr_t)loop->b.data + INLINE_BYTES;
	wr.wr.rdma.rkey = rkey;
	say_post("receive", loop_receive(&loop->b, INLINE_BYTES));
	say_post("write", ibv_post_send(loop->a.id->qp, &wr, &bad));
	say_sent(loop);
}

static void write_good(struct loop *loop)
{
	write_and_send(loop, loop->b.mr->rkey, IBV_WR_RDMA_WRITE);
	say_post("send", loop_send(&loop->a, 1, loop->a.mr->lkey, 0));
	say_sent(loop);
	say_received(loop);
	printf(" data %s", loop->b.data[INLINE_BYTES] == 7 ? "there" : "not there");
}

static void write_bad_rkey(struct loop *loop)
{
	write_and_send(loop, loop->b.mr->rkey ^ BOGUS_KEY, IBV_WR_RDMA_WRITE);
}

static void write_with_immediate(struct loop *loop)
{
	write_and_send(loop, loop->b.mr->rkey, IBV_WR_RDMA_WRITE_WITH_IMM);
}

/* Receives, more than fit. Providers may round the depth up. */
static void queue_full(struct loop *loop)
{
	int taken = 0, rc;

	while ((rc = loop_receive(&loop->a, LOOP_BYTES)) == 0 && taken < 4 * DEPTH)
		taken++;
	if (taken < DEPTH || taken == 4 * DEPTH)
		printf(" taken %d of %d", taken, DEPTH);
	say_post("then", rc);
}

static void error_state(struct loop *loop)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	say_post("receive", loop_receive(&loop->a, LOOP_BYTES));
	say_post("modify", ibv_modify_qp(loop->a.id->qp, &attr, IBV_QP_STATE));
	say_completion("received", loop->a.received);
	say_post("receive", loop_receive(&loop->a, LOOP_BYTES));
	say_completion("received", loop->a.received);
	say_post("send", loop_send(&loop->a, INLINE_BYTES, loop->a.mr->lkey, 0));
	say_sent(loop);
}

static void disconnect(struct loop *loop)
{
	say_post("receive", loop_receive(&loop->a, LOOP_BYTES));
	if (rdma_disconnect(loop->b.id) != 0)
		printf(" refused %s", strerrorname_np(errno));
	say_event("first", loop);
	say_event("second", loop);
	say_completion("received", loop->a.received);
}

/* Whether a completion that nobody has polled outlives its queue pair. */
static void completion_of_a_destroyed_queue(struct loop *loop)
{
	struct ibv_wc wc;

	say_post("receive", loop_receive(&loop->b, LOOP_BYTES));
	say_post("send", loop_send(&loop->a, LOOP_BYTES, loop->a.mr->lkey, 0));
	say_received(loop);
	/* The acknowledgement comes somewhat later. */
	usleep(200000);
	rdma_destroy_qp(loop->a.id);
	printf(" then %s", ibv_poll_cq(loop->a.sent, 1, &wc) == 1 ? "there" : "gone");
}

static const struct question {
	const char *name;
	void (*ask)(struct loop *loop);
} questions[] = {
	{"by_reference", by_reference},
	{"inline_without_key", inline_without_key},
	{"inline_above_grant", inline_above_grant},
	{"inline_above_limit", inline_above_limit},
	{"bad_lkey", bad_lkey},
	{"nothing_to_receive_into", nothing_to_receive_into},
	{"receive_too_small", receive_too_small},
	{"write", write_good},
	{"write_bad_rkey", write_bad_rkey},
	{"write_with_immediate", write_with_immediate},
	{"queue_full", queue_full},
	{"error_state", error_state},
	{"disconnect", disconnect},
	{"completion_of_a_destroyed_queue", completion_of_a_destroyed_queue},
};

int main(int argc, char **argv)
{
	static struct loop loop;
	int failed = 0;

	if (argc != 2 && argc != 3) {
		fputs("usage: verbs-facts ADDRESS [QUESTION]\n", stderr);
		return 2;
	}
	if (loop_open(&loop, argv[1]) != 0)
		return 1;
	for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
		if (argc == 3 && strcmp(argv[2], questions[i].name) != 0)
			continue;
		printf("%s:", questions[i].name);
		if (loop_join(&loop, &usual) == 0)
			questions[i].ask(&loop);
		else
			failed = 1;
		printf("\n");
		fflush(stdout);
		loop_part(&loop);
	}
	loop_close(&loop);
	return failed;
}

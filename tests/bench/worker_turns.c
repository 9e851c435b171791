/* SPDX-License-Identifier: MIT */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "core/half.h"
#include "double/stub.h"
#include "fabric/cq.h"
#include "fabric/worker_impl.h"
#include "os/thread.h"

#include "lib/tap.h"

/*
 * A ping-pong of 64-byte messages through two workers of lib/fabric that have neither thread nor
 * device: this program calls their turns, one after the other, over a wire of two arrays. So what
 * they do is the same in each run, to the instruction; worker_cost.py has it counted. Both clients
 * are awake all the time.
 *
 * $WORKER_MESSAGES: how many go, both ways together.
 */

#undef ibv_reg_mr

#define RING_BYTES 65536u
#define DEPTH 64u
#define EPOCH 1u
#define MESSAGE_BYTES 64u

/* --- the wire --------------------------------------------------------------------------------- */

/* One end: what a queue pair has posted to receive, and what has completed. Counts never wrap. */
struct wire {
	struct ibv_context context;
	struct ibv_qp qp;
	struct ibv_cq cq;
	struct wire *other;
	struct {
		uint64_t id;
		uint8_t *at;
	} receives[DEPTH];
	uint32_t received, posted;
	struct ibv_wc done[4 * DEPTH];
	uint32_t polled, completed;
};

static struct wire *wire_of(struct ibv_context *context)
{
	return container_of(context, struct wire, context);
}

static void wire_complete(struct wire *wire, uint64_t id, uint32_t bytes)
{
	struct ibv_wc *wc = &wire->done[wire->completed++ % (4 * DEPTH)];

	*wc = (struct ibv_wc){.wr_id = id, .status = IBV_WC_SUCCESS, .byte_len = bytes};
}

static int wire_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
			  __attribute__((unused)) struct ibv_send_wr **bad)
{
	struct wire *from = wire_of(qp->context), *to = from->other;

	for (; wr; wr = wr->next) {
		const void *bytes = (const void *)(uintptr_t)wr->sg_list->addr;
		uint32_t len = wr->sg_list->length;

		if (wr->opcode == IBV_WR_RDMA_WRITE) {
			memcpy((void *)(uintptr_t)wr->wr.rdma.remote_addr, bytes, len);
		} else {
			if (to->received == to->posted)
				abort(); /* credits are to prevent it */
			memcpy(to->receives[to->received % DEPTH].at, bytes, len);
			wire_complete(to, to->receives[to->received++ % DEPTH].id, len);
		}
		if (wr->send_flags & IBV_SEND_SIGNALED)
			wire_complete(from, wr->wr_id, 0);
	}
	return 0;
}

static int wire_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			  __attribute__((unused)) struct ibv_recv_wr **bad)
{
	struct wire *wire = wire_of(qp->context);

	for (; wr; wr = wr->next, wire->posted++) {
		wire->receives[wire->posted % DEPTH].id = wr->wr_id;
		wire->receives[wire->posted % DEPTH].at = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	}
	return 0;
}

static int wire_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *ret_wcs)
{
	struct wire *wire = wire_of(cq->context);
	int i = 0;

	for (; i < n && wire->polled != wire->completed; i++)
		ret_wcs[i] = wire->done[wire->polled++ % (4 * DEPTH)];
	return i;
}

/* What else a worker calls of libibverbs. */

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t bytes,
			  __attribute__((unused)) int access)
{
	static struct ibv_mr region;

	region = (struct ibv_mr){.pd = pd, .addr = at, .length = bytes};
	return &region;
}

int ibv_dereg_mr(__attribute__((unused)) struct ibv_mr *region)
{
	return 0;
}

int ibv_modify_qp(__attribute__((unused)) struct ibv_qp *qp,
		  __attribute__((unused)) struct ibv_qp_attr *attr,
		  __attribute__((unused)) int mask)
{
	return 0;
}

int ibv_get_cq_event(__attribute__((unused)) struct ibv_comp_channel *channel,
		     __attribute__((unused)) struct ibv_cq **ret_cq,
		     __attribute__((unused)) void **ret_context)
{
	return -1;
}

void ibv_ack_cq_events(__attribute__((unused)) struct ibv_cq *cq,
		       __attribute__((unused)) unsigned int n)
{
}

const char *ibv_wc_status_str(__attribute__((unused)) enum ibv_wc_status status)
{
	return "?";
}

/* --- the ends --------------------------------------------------------------------------------- */

struct end {
	struct wire wire;
	struct device device;
	struct ibv_comp_channel channel;
	struct cq cq;
	struct qp qp;
	struct worker *worker;
	struct worker_link *link;
	struct worker_lane *lane;
	struct half_ctl *client, *fed;
	int client_bell, own_bell;
	struct stub stub;
	bool is_down;
};

static struct end ends[2];

/* The workers have none: this program is it. */
int __wrap_thread_start(const char *name, void *(*entry)(void *arg), void *arg,
			pthread_t *ret_thread);
int __wrap_thread_start(__attribute__((unused)) const char *name,
			__attribute__((unused)) void *(*entry)(void *arg),
			__attribute__((unused)) void *arg,
			__attribute__((unused)) pthread_t *ret_thread)
{
	return 0;
}

static void on_lane(__attribute__((unused)) struct worker_lane *lane,
		    __attribute__((unused)) const struct worker_report *report)
{
}

static void on_over(__attribute__((unused)) struct worker_lane *lane,
		    __attribute__((unused)) bool link_lost)
{
}

static void on_down(struct worker_link *link, const char *why)
{
	struct end *end = worker_link_user(link);

	tap_diag("the link is down: %s", why);
	end->is_down = true;
}

static void on_gone(__attribute__((unused)) struct worker_link *link)
{
}

static const struct worker_ops ops = {
	.lane_words = on_lane,
	.lane_ended = on_lane,
	.lane_over = on_over,
	.link_down = on_down,
	.link_gone = on_gone,
};

static struct half_ctl *make_half(void)
{
	size_t bytes = half_bytes(RING_BYTES);
	void *half = aligned_alloc(4096, bytes);

	if (!half)
		abort();
	memset(half, 0, bytes);
	return half;
}

static bool open_end(struct end *end, struct end *other)
{
	const struct worker_config config = {
		.device = &end->device,
		.channel = &end->channel,
		.ops = &ops,
		.name = "worker",
		.lanes_max = 1,
		.user = end,
	};
	const struct worker_link_setup up = {.peer_credits = DEPTH, .is_dialer = end == &ends[0]};

	end->wire.other = &other->wire;
	end->wire.context.ops = (struct ibv_context_ops){
		.post_send = wire_post_send, .post_recv = wire_post_recv, .poll_cq = wire_poll_cq};
	end->wire.qp.context = end->wire.cq.context = &end->wire.context;
	end->cq.verbs = &end->wire.cq;
	end->qp = (struct qp){
		.verbs = &end->wire.qp,
		.cq = &end->cq,
		.spec = {.send_wr = DEPTH, .recv_wr = DEPTH, .inline_bytes = 236},
		.inline_max = 236,
		.send_wr_max = DEPTH,
	};
	end->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	end->client_bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	end->own_bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	end->client = make_half();
	end->fed = make_half();
	return CHECK_OK(worker_new(&config, &end->worker)) &&
	       CHECK_OK(worker_link_make(end->worker, &end->qp, DEPTH, end, &end->link)) &&
	       CHECK_OK(worker_link_up(end->link, &up)) &&
	       CHECK_OK(worker_lane_make(end->link, end, &end->lane));
}

static void begin_lane(struct end *end, const struct end *other)
{
	const struct worker_lane_setup setup = {
		.peer = worker_lane_token(other->lane),
		.epoch = EPOCH,
		.client = end->client,
		.client_bytes = RING_BYTES,
		.fed = end->fed,
		.fed_bytes = RING_BYTES,
		.peer_address = (uintptr_t)half_ring(other->fed),
		.peer_bytes = RING_BYTES,
		.peer_source_bytes = RING_BYTES,
		.client_bell = end->client_bell,
		.own_bell = end->own_bell,
		.is_second = end == &ends[1],
	};

	end->stub = (struct stub){
		.lane = {.own = end->client,
			 .peer = end->fed,
			 .own_bytes = RING_BYTES,
			 .peer_bytes = RING_BYTES},
		.own_bell = end->client_bell,
		.their_bell = end->own_bell,
		.seed_out = end == &ends[0],
		.seed_in = end != &ends[0],
		.role = end == &ends[0] ? STUB_PING : STUB_ECHO,
		.unit = MESSAGE_BYTES,
	};
	CHECK_OK(worker_lane_begin(end->lane, &setup));
	stub_begin(&end->stub, EPOCH);
}

/* A client, and what its worker and the other's make of it. */
static void step(struct end *end, struct end *other)
{
	stub_step(&end->stub);
	worker_turn(end->worker);
	worker_turn(other->worker);
}

static void run(uint64_t messages)
{
	/* An ECHO sends no more than it was sent. */
	ends[0].stub.target = ends[1].stub.target = messages / 2 * MESSAGE_BYTES;
	for (uint64_t i = 0; i < messages + 1000 && ends[0].stub.received < ends[0].stub.target;
	     i++)
		step(&ends[i % 2], &ends[!(i % 2)]);
	CHECK_EQ(ends[0].stub.received, ends[0].stub.target);
}

TAP_CASE(messages_go_to_and_fro)
{
	const char *asked = getenv("WORKER_MESSAGES");
	uint64_t messages = asked ? strtoull(asked, NULL, 10) : 1000;

	for (int i = 0; i < 2; i++) {
		REQUIRE(open_end(&ends[i], &ends[!i]));
		/* The link is up before a lane is begun. */
		worker_turn(ends[i].worker);
	}
	for (int i = 1; i >= 0; i--) {
		begin_lane(&ends[i], &ends[!i]);
		worker_turn(ends[i].worker);
	}
	run(messages);
	for (int i = 0; i < 2; i++) {
		worker_reap(ends[i].worker);
		CHECK(!ends[i].is_down);
		/* One work request each; all else is the beginning of the lane. */
		CHECK(ends[i].link->send.counts.eager == messages / 2);
		CHECK(ends[i].link->send.counts.wrs <= messages / 2 + 10);
	}
}

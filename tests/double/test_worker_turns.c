/* SPDX-License-Identifier: MIT */
#include <stdatomic.h>
#include <string.h>

#include "base/util.h"
#include "core/link_send.h"

#include "lib/tap.h"
#include "lib/verbs/double.h"
#include "stage.h"

/*
 * How long a ping-pong waits beside bulk streams on the same link: in bytes that the device sends
 * between the moment when a client stores a message in its ring and that when the message is next
 * on the wire. It is looked at where it happens, in the send queue of the double: the device works
 * on one request after the other, so what waits in front of one can be counted.
 */

#define PING_BYTES 64u
#define PINGS 300u
#define BULK_BYTES 16384u
#define LENGTHS 4096u

/* Four chunk times at most: of a chunk and the message that tells of it. The rest is what else may
 * be in the queue, without bytes or inline: window updates, credits, a question. */
#define MOST_BYTES (4u * (LINK_CHUNK_BYTES + CDC_BYTES) + 2048u)

static struct {
	struct dbl_qp *qp;
	int (*post)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	uint32_t length[LENGTHS]; /* by the count of a request, under dbl_lock */
	/* Under dbl_lock: the request that was on its way when the last message was stored. */
	uint64_t entered;
	bool is_entered;
	_Atomic uint64_t pings; /* read without */
	uint64_t most, sum;
} wire;

static uint32_t length_of(const struct ibv_send_wr *wr)
{
	uint32_t bytes = 0;

	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

/* Whether it carries a message of the ping-pong: nothing else here has this length. */
static bool is_ping(const struct ibv_send_wr *wr)
{
	return length_of(wr) == (wr->opcode == IBV_WR_SEND ? CDC_BYTES + PING_BYTES : PING_BYTES);
}

/* The message is request @count. */
static void leaves(uint64_t count)
{
	uint64_t bytes = 0;

	if (!wire.is_entered)
		return;
	for (uint64_t i = wire.entered; i < count; i++)
		bytes += wire.length[i % LENGTHS];
	wire.is_entered = false;
	wire.pings++;
	wire.sum += bytes;
	wire.most = u64_max(wire.most, bytes);
}

static int post(struct ibv_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr **bad)
{
	uint64_t count;

	if (dbl_qp(qp) == wire.qp) {
		pthread_mutex_lock(&dbl_lock);
		count = wire.qp->sq_head;
		for (const struct ibv_send_wr *wr = first; wr; wr = wr->next, count++) {
			wire.length[count % LENGTHS] = length_of(wr);
			if (is_ping(wr))
				leaves(count);
		}
		pthread_mutex_unlock(&dbl_lock);
	}
	return wire.post(qp, first, bad);
}

static void watch_wire(struct ibv_qp *qp)
{
	memset(&wire, 0, sizeof(wire));
	wire.qp = dbl_qp(qp);
	wire.post = qp->context->ops.post_send;
	qp->context->ops.post_send = post;
}

/* It has entered when it stands in the ring and the bell is rung, if one is due. The device stands
 * still meanwhile, since whoever stores it may lose the processor on the way. */
static void on_ping(__attribute__((unused)) struct stub *stub, bool is_done)
{
	if (is_done) {
		pthread_mutex_unlock(&dbl_lock);
		return;
	}
	pthread_mutex_lock(&dbl_lock);
	wire.entered = wire.qp->sq_next;
	wire.is_entered = true;
}

/* --- cases ------------------------------------------------------------------------------------ */

/* All lanes but the last are bulk, both ways; the last is the ping-pong. */
static void bulk_beside_ping_pong(struct stage *stage)
{
	uint32_t bulks = stage->conf.lanes - 1;
	struct stub *ping = &stage->lanes[bulks].stub;
	uint64_t before[2] = {0};

	for (uint32_t i = 0; i < bulks; i++) {
		struct stub *stub = &stage->lanes[i].stub;

		stub->role = STUB_STREAM;
		stub->target = UINT64_MAX / 2;
		stub->unit = BULK_BYTES;
		stub->is_gentle = true;
	}
	STAGE_AWAIT(stage, atomic_load(&stage->lanes[0].fed->ctl->cons) > LINK_CHUNK_BYTES);
	stage_meet(stage);
	before[0] = stage_received(stage);
	ping->unit = PING_BYTES;
	ping->on_send = on_ping;
	ping->role = stage->side == 0 ? STUB_PING : STUB_ECHO;
	ping->target = (uint64_t)PING_BYTES * PINGS;
	STAGE_AWAIT(stage, ping->received == ping->target && ping->sent == ping->target);
	STAGE_AWAIT(stage, atomic_load(&wire.pings) == PINGS);
	before[1] = stage_received(stage);
	/* The streams went on all the time. */
	CHECK(before[1] - before[0] > PINGS * (uint64_t)BULK_BYTES);
	pthread_mutex_lock(&dbl_lock);
	CHECK(wire.most <= MOST_BYTES);
	tap_diag("side %d, %u streams, %u inline: in front of a message %llu bytes at most, %llu "
		 "on average; %u are allowed",
		 stage->side, bulks, stage->conf.inline_bytes, (unsigned long long)wire.most,
		 (unsigned long long)(wire.sum / PINGS), MOST_BYTES);
	pthread_mutex_unlock(&dbl_lock);
	stage_meet(stage);
	for (uint32_t i = 0; i < bulks; i++) {
		stage->lanes[i].stub.target = stage->lanes[i].stub.sent;
		stage->lanes[i].stub.is_gentle = false;
	}
	stage_end_lanes(stage);
}

static void beside(uint32_t bulks, uint32_t inline_bytes)
{
	struct stage_conf conf = stage_usual;

	conf.watch = watch_wire;
	conf.lanes = bulks + 1;
	conf.inline_bytes = inline_bytes;
	conf.ring_bytes[0] = conf.ring_bytes[1] = 1u << 20;
	stage_run(&conf, bulk_beside_ping_pong);
}

TAP_CASE(a_message_waits_for_four_chunks_at_most_beside_one_stream)
{
	beside(1, 256);
}

TAP_CASE(beside_eight_streams)
{
	beside(8, 256);
}

TAP_CASE(without_inline)
{
	beside(1, 0);
	beside(8, 0);
}

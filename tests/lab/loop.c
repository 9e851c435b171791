/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "loop.h"

/* 4.096 µs * 2^12 = 17 ms. */
#define ACK_TIMEOUT 12
#define RETRIES 4

int loop_fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return -1;
}

int loop_event(struct loop *loop, int wait_ms, struct rdma_cm_id **ret_id)
{
	struct pollfd readable = {.fd = loop->channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	int type;

	if (poll(&readable, 1, wait_ms) != 1 || rdma_get_cm_event(loop->channel, &event) != 0)
		return -1;
	type = (int)event->event;
	if (ret_id)
		*ret_id = event->id;
	rdma_ack_cm_event(event);
	return type;
}

static int expect(struct loop *loop, enum rdma_cm_event_type type, struct rdma_cm_id **ret_id)
{
	int got = loop_event(loop, LOOP_WAIT_MS, ret_id);

	if (got == (int)type)
		return 0;
	fprintf(stderr, "%s instead of %s\n",
		got < 0 ? "nothing" : rdma_event_str((enum rdma_cm_event_type)got),
		rdma_event_str(type));
	return -1;
}

static int address_of(const char *text, struct sockaddr_in *ret_address)
{
	*ret_address = (struct sockaddr_in){.sin_family = AF_INET};
	if (inet_pton(AF_INET, text, &ret_address->sin_addr) == 1)
		return 0;
	errno = EINVAL;
	return loop_fail(text);
}

int loop_open(struct loop *loop, const char *address)
{
	struct sockaddr_in bound;

	loop->address = address;
	if (address_of(address, &bound) != 0)
		return -1;
	loop->channel = rdma_create_event_channel();
	if (!loop->channel)
		return loop_fail("rdma_create_event_channel");
	if (rdma_create_id(loop->channel, &loop->listener, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_bind_addr(loop->listener, (struct sockaddr *)&bound) != 0 ||
	    rdma_listen(loop->listener, 1) != 0)
		return loop_fail(address);
	return 0;
}

void loop_close(struct loop *loop)
{
	if (loop->listener)
		rdma_destroy_id(loop->listener);
	if (loop->channel)
		rdma_destroy_event_channel(loop->channel);
}

static int equip(struct loop_end *end, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = *cap};

	end->sent = ibv_create_cq(end->id->verbs, (int)cap->max_send_wr, NULL, NULL, 0);
	end->received = ibv_create_cq(end->id->verbs, (int)cap->max_recv_wr, NULL, NULL, 0);
	if (!end->sent || !end->received)
		return loop_fail("ibv_create_cq");
	attr.send_cq = end->sent;
	attr.recv_cq = end->received;
	if (rdma_create_qp(end->id, NULL, &attr) != 0)
		return loop_fail("rdma_create_qp");
	end->mr = ibv_reg_mr(end->id->pd, end->data, sizeof(end->data),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return end->mr ? 0 : loop_fail("ibv_reg_mr");
}

/* With a source, since otherwise the way to this very address may lead over another device. */
static int dial(struct loop *loop)
{
	struct sockaddr_in source, target;
	uint8_t timeout = ACK_TIMEOUT;

	if (address_of(loop->address, &source) != 0)
		return -1;
	target = source;
	target.sin_port = rdma_get_src_port(loop->listener);
	if (rdma_create_id(loop->channel, &loop->a.id, NULL, RDMA_PS_TCP) != 0)
		return loop_fail("rdma_create_id");
	/* iWARP has no such timeout, and refuses. */
	rdma_set_option(loop->a.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			sizeof(timeout));
	if (rdma_resolve_addr(loop->a.id, (struct sockaddr *)&source, (struct sockaddr *)&target,
			      LOOP_WAIT_MS) != 0)
		return loop_fail("rdma_resolve_addr");
	if (expect(loop, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) != 0)
		return -1;
	if (rdma_resolve_route(loop->a.id, LOOP_WAIT_MS) != 0)
		return loop_fail("rdma_resolve_route");
	return expect(loop, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
}

int loop_join(struct loop *loop, const struct ibv_qp_cap *cap)
{
	struct rdma_conn_param param = {.retry_count = RETRIES, .rnr_retry_count = 1};

	if (dial(loop) != 0 || equip(&loop->a, cap) != 0)
		return -1;
	if (rdma_connect(loop->a.id, &param) != 0)
		return loop_fail("rdma_connect");
	if (expect(loop, RDMA_CM_EVENT_CONNECT_REQUEST, &loop->b.id) != 0 ||
	    equip(&loop->b, cap) != 0)
		return -1;
	if (rdma_accept(loop->b.id, &param) != 0)
		return loop_fail("rdma_accept");
	/* One for each end, in either order. */
	if (expect(loop, RDMA_CM_EVENT_ESTABLISHED, NULL) != 0)
		return -1;
	return expect(loop, RDMA_CM_EVENT_ESTABLISHED, NULL);
}

static void release(struct loop_end *end)
{
	if (!end->id)
		return;
	if (end->id->qp)
		rdma_destroy_qp(end->id);
	if (end->sent)
		ibv_destroy_cq(end->sent);
	if (end->received)
		ibv_destroy_cq(end->received);
	if (end->mr)
		ibv_dereg_mr(end->mr);
	rdma_destroy_id(end->id);
	end->id = NULL;
	end->sent = end->received = NULL;
	end->mr = NULL;
}

void loop_part(struct loop *loop)
{
	while (loop_event(loop, 0, NULL) >= 0)
		;
	release(&loop->a);
	release(&loop->b);
}

int loop_receive(struct loop_end *end, uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)end->data, .length = bytes, .lkey = end->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(end->id->qp, &wr, &bad);
}

int loop_send(struct loop_end *end, uint32_t bytes, uint32_t lkey, unsigned int flags)
{
	struct ibv_sge sge = {.addr = (uintptr_t)end->data, .length = bytes, .lkey = lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | flags},
			   *bad;

	return ibv_post_send(end->id->qp, &wr, &bad);
}

bool loop_completion(struct ibv_cq *cq, struct ibv_wc *ret_wc)
{
	for (int ms = 0; ms < LOOP_WAIT_MS; ms++) {
		if (ibv_poll_cq(cq, 1, ret_wc) == 1)
			return true;
		usleep(1000);
	}
	return false;
}

/* SPDX-License-Identifier: MIT */
/*
 * What a device does with inline data, by plain verbs and without any of Shunt's code, so that a
 *test can compare it with what Shunt finds.
 *
 *	inline-limit DEVICE ADDRESS
 *
 * Prints one line each:
 *	zero N			the grant for a request of 0
 *	accepted N granted M	the largest request that is accepted, and its grant
 *	refused N ERROR		the smallest that is refused; absent if none to REQUEST_MAX is
 *	reference OUTCOME	a message by reference over a connection to ADDRESS, the device's
 *own inline OUTCOME		one of min(M, MESSAGE_MAX) bytes with IBV_SEND_INLINE and an lkey
 *that does not exist where OUTCOME is "arrived", the status of the completion, or why nothing could
 *be tried. Exit status 0 if all lines could be printed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define REQUEST_MAX 1100
/* No grant above it is known for so small a request. */
#define MESSAGE_MAX 2048
#define DEPTH 64
#define BOGUS_LKEY 0x5a5a5a5aU
#define WAIT_MS 3000
#define PORT 7471

struct end {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	char data[MESSAGE_MAX];
};

static int fail(const char *what)
{
	fprintf(stderr, "inline-limit: %s: %s\n", what, strerror(errno));
	return -1;
}

static struct ibv_qp_init_attr wanted(struct ibv_cq *cq, uint32_t inline_bytes)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = inline_bytes},
	};
}

/* The grant for a request of @inline_bytes, or -errno. */
static int grant(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr attr = wanted(cq, inline_bytes);
	struct ibv_qp *qp;

	errno = 0;
	qp = ibv_create_qp(pd, &attr);
	if (!qp)
		return errno ? -errno : -ENODATA;
	if (ibv_destroy_qp(qp) != 0)
		return -EBUSY;
	return (int)attr.cap.max_inline_data;
}

/* Every request from 0 on. Returns the grant for the largest that is accepted, or -1. */
static int creations(struct ibv_pd *pd, struct ibv_cq *cq)
{
	int accepted = -1, granted = -1, refused = 0, error = 0;

	for (int ask = 0; ask <= REQUEST_MAX; ask++) {
		int got = grant(pd, cq, (uint32_t)ask);

		if (ask == 0)
			printf("zero %d\n", got);
		if (got >= 0) {
			accepted = ask;
			granted = got;
		} else if (!error) {
			refused = ask;
			error = -got;
		}
	}
	printf("accepted %d granted %d\n", accepted, granted);
	if (error)
		printf("refused %d %s\n", refused, strerrorname_np(error));
	return granted;
}

static int limits(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	int found = -1;

	for (int i = 0; list && list[i] && !context; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	if (!context)
		return fail(name);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
	if (pd && cq)
		found = creations(pd, cq);
	else
		fail("protection domain and completion queue");
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return found;
}

/* The next event of the channel, acknowledged; its id in @ret_id. 0, or -1 if it is another. */
static int expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
		  struct rdma_cm_id **ret_id)
{
	struct pollfd readable = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	enum rdma_cm_event_type got;

	if (poll(&readable, 1, WAIT_MS) != 1) {
		errno = ETIMEDOUT;
		return fail(rdma_event_str(type));
	}
	if (rdma_get_cm_event(channel, &event) != 0)
		return fail("rdma_get_cm_event");
	got = event->event;
	if (ret_id)
		*ret_id = event->id;
	rdma_ack_cm_event(event);
	if (got == type)
		return 0;
	fprintf(stderr, "inline-limit: %s instead of %s\n", rdma_event_str(got),
		rdma_event_str(type));
	return -1;
}

/* A queue pair of @inline_bytes and registered memory for @end. */
static int equip(struct end *end, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr attr = wanted(NULL, inline_bytes);

	if (rdma_create_qp(end->id, NULL, &attr) != 0)
		return fail("rdma_create_qp");
	end->mr = ibv_reg_mr(end->id->pd, end->data, sizeof(end->data), IBV_ACCESS_LOCAL_WRITE);
	return end->mr ? 0 : fail("ibv_reg_mr");
}

static int post_receive(struct end *end)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->data, .length = sizeof(end->data), .lkey = end->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	memset(end->data, 0, sizeof(end->data));
	return ibv_post_recv(end->id->qp, &wr, &bad) == 0 ? 0 : fail("ibv_post_recv");
}

/* Both ends of a connection to @address in one process. */
static int join(struct rdma_event_channel *channel, const char *address, uint32_t inline_bytes,
		struct end ends[2])
{
	struct rdma_conn_param param = {.retry_count = 5, .rnr_retry_count = 5};
	struct sockaddr_in source, target;
	struct rdma_cm_id *listener;

	source = (struct sockaddr_in){.sin_family = AF_INET};
	if (inet_pton(AF_INET, address, &source.sin_addr) != 1) {
		errno = EINVAL;
		return fail(address);
	}
	target = source;
	target.sin_port = htons(PORT);
	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_bind_addr(listener, (struct sockaddr *)&target) != 0 ||
	    rdma_listen(listener, 1) != 0)
		return fail("listening");
	/* With a source, since otherwise the way to this very address may lead over another device.
	 */
	if (rdma_create_id(channel, &ends[0].id, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_resolve_addr(ends[0].id, (struct sockaddr *)&source, (struct sockaddr *)&target,
			      WAIT_MS) != 0 ||
	    expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) != 0 ||
	    rdma_resolve_route(ends[0].id, WAIT_MS) != 0 ||
	    expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) != 0)
		return fail("resolving");
	if (equip(&ends[0], inline_bytes) != 0)
		return -1;
	if (rdma_connect(ends[0].id, &param) != 0)
		return fail("rdma_connect");
	if (expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST, &ends[1].id) != 0 ||
	    equip(&ends[1], 0) != 0)
		return -1;
	if (rdma_accept(ends[1].id, &param) != 0)
		return fail("rdma_accept");
	/* One each, in either order. */
	return expect(channel, RDMA_CM_EVENT_ESTABLISHED, NULL) == 0
		       ? expect(channel, RDMA_CM_EVENT_ESTABLISHED, NULL)
		       : -1;
}

/* Wait for one completion of @cq. Returns its status, or -1. */
static int wait_completion(struct ibv_cq *cq, struct ibv_wc *ret_wc)
{
	for (int ms = 0; ms < WAIT_MS; ms++) {
		int got = ibv_poll_cq(cq, 1, ret_wc);

		if (got == 1)
			return ret_wc->status;
		if (got < 0)
			return fail("ibv_poll_cq");
		usleep(1000);
	}
	return -1;
}

/* Send @length bytes. Returns NULL if they arrived, else what went wrong. */
static const char *failure(struct end ends[2], uint32_t length, uint32_t lkey, unsigned int flags)
{
	struct ibv_sge sge = {.addr = (uintptr_t)ends[0].data, .length = length, .lkey = lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | flags},
			   *bad;
	struct ibv_wc wc;
	int status;

	for (uint32_t i = 0; i < length; i++)
		ends[0].data[i] = (char)(i * 7 + flags);
	if (post_receive(&ends[1]) != 0)
		return "no receive could be posted";
	if (ibv_post_send(ends[0].id->qp, &wr, &bad) != 0)
		return "refused by ibv_post_send";
	status = wait_completion(ends[0].id->send_cq, &wc);
	if (status != IBV_WC_SUCCESS)
		return status < 0 ? "no completion" : ibv_wc_status_str(status);
	if (wait_completion(ends[1].id->recv_cq, &wc) != IBV_WC_SUCCESS)
		return "sent but not received";
	if (wc.byte_len != length || memcmp(ends[0].data, ends[1].data, length) != 0)
		return "received something else";
	return NULL;
}

static void try_send(const char *name, struct end ends[2], uint32_t length, uint32_t lkey,
		     unsigned int flags)
{
	const char *why = failure(ends, length, lkey, flags);

	printf("%s %s\n", name, why ? "failed" : "arrived");
	if (why)
		fprintf(stderr, "inline-limit: %s: %s\n", name, why);
}

int main(int argc, char **argv)
{
	static struct end ends[2];
	struct rdma_event_channel *channel;
	int limit;
	uint32_t length;

	if (argc != 3) {
		fputs("usage: inline-limit DEVICE ADDRESS\n", stderr);
		return 2;
	}
	limit = limits(argv[1]);
	if (limit < 0 || limit > MESSAGE_MAX)
		return 1;
	channel = rdma_create_event_channel();
	if (!channel)
		return fail("rdma_create_event_channel") ? 1 : 0;
	if (join(channel, argv[2], (uint32_t)limit, ends) != 0)
		return 1;
	length = (uint32_t)limit;
	try_send("reference", ends, length ? length : 1, ends[0].mr->lkey, 0);
	if (length)
		try_send("inline", ends, length, BOGUS_LKEY, IBV_SEND_INLINE);
	return 0;
}

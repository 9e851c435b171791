/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "dial.h"
#include "lib/tap.h"

/* Longer than the double takes to give up a message. */
#define WAIT_MS 6000

static struct sockaddr_in address_of(const char *text, __be16 port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = port};

	inet_pton(AF_INET, text, &addr.sin_addr);
	return addr;
}

bool dial_listen(struct dial *dial, const char *address)
{
	struct sockaddr_in addr = address_of(address, 0);

	memset(dial, 0, sizeof(*dial));
	dial->channel = rdma_create_event_channel();
	return CHECK(dial->channel != NULL) &&
	       CHECK_EQ(rdma_create_id(dial->channel, &dial->listener, dial, RDMA_PS_TCP), 0) &&
	       CHECK_EQ(rdma_bind_addr(dial->listener, (struct sockaddr *)&addr), 0) &&
	       CHECK_EQ(rdma_listen(dial->listener, 4), 0) &&
	       CHECK(rdma_get_src_port(dial->listener) != 0);
}

void dial_acknowledge(struct dial *dial)
{
	if (dial->event)
		rdma_ack_cm_event(dial->event);
	dial->event = NULL;
}

static void destroy(struct rdma_cm_id *id)
{
	if (id && id->qp)
		rdma_destroy_qp(id);
	if (id)
		rdma_destroy_id(id);
}

void dial_end(struct dial *dial)
{
	dial_acknowledge(dial);
	destroy(dial->active);
	destroy(dial->passive);
	destroy(dial->listener);
	rdma_destroy_event_channel(dial->channel);
	memset(dial, 0, sizeof(*dial));
}

static bool is_readable(const struct dial *dial, int timeout_ms)
{
	struct pollfd readable = {.fd = dial->channel->fd, .events = POLLIN};

	return poll(&readable, 1, timeout_ms) == 1;
}

bool dial_expect(struct dial *dial, enum rdma_cm_event_type type)
{
	dial_acknowledge(dial);
	if (!tap_check(is_readable(dial, WAIT_MS), __FILE__, __LINE__, "no event, instead of %s",
		       rdma_event_str(type)) ||
	    !CHECK_EQ(rdma_get_cm_event(dial->channel, &dial->event), 0))
		return false;
	return CHECK_STR(rdma_event_str(dial->event->event), rdma_event_str(type));
}

bool dial_expect_nothing(struct dial *dial, int timeout_ms)
{
	dial_acknowledge(dial);
	if (!is_readable(dial, timeout_ms))
		return CHECK(true);
	rdma_get_cm_event(dial->channel, &dial->event);
	return tap_check(false, __FILE__, __LINE__, "unexpected %s",
			 rdma_event_str(dial->event->event));
}

bool dial_resolve(struct dial *dial, const char *from, const char *to, uint16_t port)
{
	struct sockaddr_in src = address_of(from ? from : "0.0.0.0", 0);
	struct sockaddr_in dst =
		address_of(to, port ? htons(port) : rdma_get_src_port(dial->listener));

	return CHECK_EQ(rdma_create_id(dial->channel, &dial->active, dial, RDMA_PS_TCP), 0) &&
	       CHECK_EQ(rdma_resolve_addr(dial->active, from ? (struct sockaddr *)&src : NULL,
					  (struct sockaddr *)&dst, 1000),
			0) &&
	       dial_expect(dial, RDMA_CM_EVENT_ADDR_RESOLVED) &&
	       CHECK(dial->active->verbs != NULL) &&
	       CHECK_EQ(rdma_resolve_route(dial->active, 1000), 0) &&
	       dial_expect(dial, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

bool dial_qps(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	return CHECK_EQ(rdma_create_qp(id, NULL, &init), 0);
}

bool dial_connect(struct dial *dial)
{
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 3};

	if (!dial_qps(dial->active) || !CHECK_EQ(rdma_connect(dial->active, &param), 0) ||
	    !dial_expect(dial, RDMA_CM_EVENT_CONNECT_REQUEST))
		return false;
	dial->passive = dial->event->id;
	if (!CHECK(dial->event->listen_id == dial->listener) || !dial_qps(dial->passive) ||
	    !CHECK_EQ(rdma_accept(dial->passive, &param), 0))
		return false;
	/* Whose comes first is not settled. */
	return dial_expect(dial, RDMA_CM_EVENT_ESTABLISHED) &&
	       dial_expect(dial, RDMA_CM_EVENT_ESTABLISHED);
}

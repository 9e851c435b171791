/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/link_hello.h"

/*
 * Dials a daemon over RDMA without having been asked to, COUNT at a time, each with the private
 * data HEX, and says of each what came of it, a line each: "rejected REASON", the event, or
 * "nothing".
 *
 * usage: caller SOURCE TARGET PORT COUNT HEX
 */

#define WAIT_MS 5000
#define CALLS_MAX 1024

static uint8_t private_data[256];
static uint8_t private_len;

static int parse(const char *hex)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++) {
		char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};

		private_data[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	private_len = (uint8_t)n;
	return n <= 255 ? 0 : -1;
}

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, text, &addr.sin_addr);
	return addr;
}

static int dial(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {
		.private_data = private_len ? private_data : NULL,
		.private_data_len = private_len,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 3,
	};
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	if (rdma_create_qp(id, NULL, &init) < 0)
		return -1;
	return rdma_connect(id, &param);
}

static void say(const struct rdma_cm_event *event)
{
	struct link_hello hello;

	if (event->event == RDMA_CM_EVENT_REJECTED &&
	    link_hello_decode(event->param.conn.private_data, event->param.conn.private_data_len,
			      &hello) == LINK_HELLO_OK &&
	    hello.kind == LINK_REJECTION)
		printf("rejected %d\n", (int)hello.reject);
	else
		printf("%s\n", rdma_event_str(event->event));
}

/* One event. False: none comes. @left: calls that have come to no end. */
static int one_event(struct rdma_event_channel *channel, int *left)
{
	struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	int rc = 0;

	if (poll(&wait, 1, WAIT_MS) != 1 || rdma_get_cm_event(channel, &event) < 0)
		return 0;
	if (event->event == RDMA_CM_EVENT_ADDR_RESOLVED) {
		rc = rdma_resolve_route(event->id, 1000);
	} else if (event->event == RDMA_CM_EVENT_ROUTE_RESOLVED) {
		rc = dial(event->id);
	} else if (event->event != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
		say(event);
		--*left;
	}
	rdma_ack_cm_event(event);
	return rc == 0;
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *ids[CALLS_MAX] = {NULL};
	struct sockaddr_in from, to;
	int count, left;

	if (argc != 6 || !channel || parse(argv[5]) < 0)
		return 2;
	from = address_of(argv[1], 0);
	to = address_of(argv[2], (uint16_t)atoi(argv[3]));
	count = left = atoi(argv[4]);
	if (count < 1 || count > CALLS_MAX)
		return 2;
	for (int i = 0; i < count; i++) {
		if (rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP) < 0 ||
		    rdma_resolve_addr(ids[i], (struct sockaddr *)&from, (struct sockaddr *)&to,
				      1000) < 0)
			return 3;
	}
	while (left > 0 && one_event(channel, &left))
		;
	while (left-- > 0)
		puts("nothing");
	fflush(stdout);
	/* What is open ends with us. */
	_exit(0);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "pair_host.h"

/* Completion queues, their channels, their end. */

#define WAIT_MS 5000

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	return poll(&readable, 1, timeout_ms) == 1;
}

TAP_CASE(an_armed_queue_tells_once)
{
	struct setting s;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int fd;

	REQUIRE(set_up(&s, "mlx5"));
	fd = s.ends[0].channel->fd;
	CHECK_EQ(pair_write(&s.ends[0], &s.names[1], 8, IBV_SEND_SIGNALED), 0);
	REQUIRE(pair_poll(&s.ends[0], &wc, WAIT_MS));
	CHECK(!is_readable(fd, 0));
	CHECK_EQ(ibv_req_notify_cq(s.ends[0].cq, 0), 0);
	CHECK_EQ(pair_write(&s.ends[0], &s.names[1], 8, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(pair_write(&s.ends[0], &s.names[1], 8, IBV_SEND_SIGNALED), 0);
	REQUIRE(is_readable(fd, WAIT_MS));
	CHECK_EQ(ibv_get_cq_event(s.ends[0].channel, &cq, &context), 0);
	CHECK(cq == s.ends[0].cq && context == &s.ends[0]);
	CHECK(pair_poll(&s.ends[0], &wc, WAIT_MS) && pair_poll(&s.ends[0], &wc, WAIT_MS));
	CHECK(!is_readable(fd, 20));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	CHECK_EQ(ibv_get_cq_event(s.ends[0].channel, &cq, &context), -1);
	CHECK_EQ(errno, EAGAIN);
	ibv_ack_cq_events(s.ends[0].cq, 1);
	tear_down(&s);
}

TAP_CASE(solicited_only_waits_for_what_is_solicited)
{
	struct setting s;
	struct ibv_wc wc;
	int fd;

	REQUIRE(set_up(&s, "mlx5"));
	fd = s.ends[1].channel->fd;
	CHECK_EQ(ibv_req_notify_cq(s.ends[1].cq, 1), 0);
	CHECK_EQ(pair_recv(&s.ends[1], 0, 8), 0);
	CHECK_EQ(pair_recv(&s.ends[1], 0, 8), 0);
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, 0), 0);
	REQUIRE(pair_poll(&s.ends[1], &wc, WAIT_MS));
	CHECK(!is_readable(fd, 20));
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, IBV_SEND_SOLICITED), 0);
	CHECK(is_readable(fd, WAIT_MS));
	tear_down(&s);
}

/* Destroying drops what nobody fetched: no one is left waiting for an acknowledgement. */
TAP_CASE(a_queue_goes_with_its_events)
{
	struct setting s;
	struct ibv_wc wc;

	REQUIRE(set_up(&s, "mlx5"));
	CHECK_EQ(ibv_destroy_comp_channel(s.ends[0].channel), EBUSY);
	CHECK_EQ(ibv_destroy_cq(s.ends[0].cq), EBUSY);
	CHECK_EQ(ibv_dealloc_pd(s.ends[0].pd), EBUSY);
	CHECK_EQ(ibv_req_notify_cq(s.ends[0].cq, 0), 0);
	CHECK_EQ(pair_write(&s.ends[0], &s.names[1], 8, IBV_SEND_SIGNALED), 0);
	CHECK(is_readable(s.ends[0].channel->fd, WAIT_MS));
	CHECK_EQ(ibv_destroy_qp(s.ends[0].qp), 0);
	s.ends[0].qp = NULL;
	CHECK_EQ(ibv_poll_cq(s.ends[0].cq, 1, &wc), 0);
	CHECK_EQ(ibv_destroy_cq(s.ends[0].cq), 0);
	s.ends[0].cq = NULL;
	CHECK(!is_readable(s.ends[0].channel->fd, 0));
	tear_down(&s);
}

static void check_overrun(struct setting *s)
{
	struct ibv_async_event event;

	REQUIRE(is_readable(s->ends[1].context->async_fd, WAIT_MS));
	CHECK_EQ(ibv_get_async_event(s->ends[1].context, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_CQ_ERR);
	CHECK(event.element.cq == s->ends[1].cq);
	ibv_ack_async_event(&event);
	/* Then what used it breaks. */
	REQUIRE(is_readable(s->ends[1].context->async_fd, WAIT_MS));
	CHECK_EQ(ibv_get_async_event(s->ends[1].context, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_QP_FATAL);
	CHECK(event.element.qp == s->ends[1].qp);
	ibv_ack_async_event(&event);
}

TAP_CASE(an_overrun_ends_the_queue_and_its_qps)
{
	const struct pair_patience patience = {16, 2, 2};
	struct setting s;
	struct ibv_wc wc;

	s.host = verbs_host_new();
	verbs_host_add(s.host, "a", "mlx5", "10.77.0.1");
	verbs_host_enter(s.host);
	REQUIRE_OK(pair_end(&s.ends[0], "a", 16, 0));
	REQUIRE_OK(pair_end_cqe(&s.ends[1], "a", 16, 0, 2));
	pair_name(&s.ends[0], &s.names[0]);
	pair_name(&s.ends[1], &s.names[1]);
	CHECK_EQ(pair_connect(&s.ends[0], &s.names[1], patience), 0);
	CHECK_EQ(pair_connect(&s.ends[1], &s.names[0], patience), 0);
	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(pair_recv(&s.ends[1], i, 8), 0);
	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(pair_send(&s.ends[0], 0, 8, 0), 0);
	check_overrun(&s);
	/* What was in before is still there, and no more. */
	CHECK_EQ(ibv_poll_cq(s.ends[1].cq, 1, &wc), 1);
	CHECK_EQ(wc.wr_id, 3000);
	CHECK_EQ(ibv_poll_cq(s.ends[1].cq, 1, &wc), 1);
	CHECK_EQ(ibv_poll_cq(s.ends[1].cq, 1, &wc), 0);
	tear_down(&s);
}

TAP_CASE(an_overrun_can_be_injected)
{
	struct setting s;

	REQUIRE(set_up(&s, "mlx5"));
	verbs_host_faults(s.host, "cq device=b\n");
	CHECK_EQ(pair_recv(&s.ends[1], 0, 8), 0);
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, 0), 0);
	check_overrun(&s);
	tear_down(&s);
}

TAP_CASE(limits_of_queues)
{
	struct verbs_host *host = verbs_host_new();
	struct ibv_context *context;
	struct ibv_cq *cqs[3];

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_set(host, "a", "max_cq", "2");
	verbs_host_enter(host);
	context = pair_open("a");
	REQUIRE(context != NULL);
	CHECK(!ibv_create_cq(context, 0, NULL, NULL, 0));
	CHECK_EQ(errno, EINVAL);
	CHECK(!ibv_create_cq(context, 40000, NULL, NULL, 0));
	CHECK_EQ(errno, EINVAL);
	CHECK(!ibv_create_cq(context, 10, NULL, NULL, 1));
	CHECK_EQ(errno, EINVAL);
	for (unsigned i = 0; i < 3; i++)
		cqs[i] = ibv_create_cq(context, 10, NULL, NULL, 0);
	CHECK(cqs[0] && cqs[1] && !cqs[2]);
	CHECK_EQ(errno, ENOMEM);
	ibv_destroy_cq(cqs[0]);
	ibv_destroy_cq(cqs[1]);
	ibv_close_device(context);
	verbs_host_free(host);
}

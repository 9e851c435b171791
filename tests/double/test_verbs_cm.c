/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "dial.h"
#include "lib/child.h"
#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "pair.h"

/* librdmacm on the double: connecting and parting. */

#define A "10.77.0.1"
#define B "10.77.0.2"

static struct verbs_host *host_with(const char *personality)
{
	struct verbs_host *host = verbs_host_new();

	verbs_host_add(host, "a", personality, A);
	verbs_host_add(host, "b", personality, B);
	verbs_host_enter(host);
	return host;
}

/* One byte from @from to @to, both connected by the CM with QPs of their own. */
static void check_byte(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	unsigned char out = 77, in = 0;
	struct ibv_mr *out_mr = ibv_reg_mr(from->pd, &out, 1, 0);
	struct ibv_mr *in_mr = ibv_reg_mr(to->pd, &in, 1, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)&in, 1, in_mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad_send;
	struct end receiver = {.cq = to->recv_cq};
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	CHECK_EQ(ibv_post_recv(to->qp, &recv, &bad_recv), 0);
	sge = (struct ibv_sge){(uintptr_t)&out, 1, out_mr->lkey};
	CHECK_EQ(ibv_post_send(from->qp, &send, &bad_send), 0);
	CHECK(pair_poll(&receiver, &wc, 5000));
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(in, 77);
	ibv_dereg_mr(out_mr);
	ibv_dereg_mr(in_mr);
}

static void check_ids(const char *personality)
{
	struct verbs_host *host = host_with(personality);
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_connect(&dial));
	CHECK_STR(ibv_get_device_name(dial.active->verbs->device), "b");
	CHECK_STR(ibv_get_device_name(dial.passive->verbs->device), "a");
	check_byte(dial.active, dial.passive);
	check_byte(dial.passive, dial.active);
	dial_end(&dial);
	verbs_host_free(host);
}

DIAL_CASE(qps_on_the_ids_roce)
{
	check_ids("rxe");
}

DIAL_CASE(qps_on_the_ids_infiniband)
{
	check_ids("mlx5-ib");
}

DIAL_CASE(qps_on_the_ids_iwarp)
{
	check_ids("siw");
}

static struct ibv_qp *own_qp(struct end *end, const char *device)
{
	return pair_end(end, device, 8, 0) < 0 ? NULL : end->qp;
}

/* The transitions that a program makes itself, by what librdmacm says. */
static bool move(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {.qp_state = to};
	int mask;

	return CHECK_EQ(rdma_init_qp_attr(id, &attr, &mask), 0) &&
	       CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
}

/* QPs on a context of one's own, told by number. */
DIAL_CASE(qps_of_ones_own)
{
	struct verbs_host *host = host_with("rxe");
	struct rdma_conn_param param = {.retry_count = 4, .rnr_retry_count = 3};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct end ends[2];
	struct end_name name;
	uint8_t timeout = 9;
	struct dial dial;
	struct ibv_wc wc;
	int mask;

	REQUIRE(own_qp(&ends[0], "a") && own_qp(&ends[1], "b"));
	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0));
	CHECK_EQ(rdma_set_option(dial.active, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
				 1),
		 0);
	CHECK_EQ(rdma_init_qp_attr(dial.active, &attr, &mask), -1);
	CHECK_EQ(errno, EINVAL);
	param.qp_num = ends[1].qp->qp_num;
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_CONNECT_REQUEST));
	dial.passive = dial.event->id;
	CHECK_EQ(dial.event->param.conn.qp_num, ends[1].qp->qp_num);
	CHECK_EQ(dial.event->param.conn.retry_count, 4);
	REQUIRE(move(dial.passive, ends[0].qp, IBV_QPS_INIT) &&
		move(dial.passive, ends[0].qp, IBV_QPS_RTR) &&
		move(dial.passive, ends[0].qp, IBV_QPS_RTS));
	param.qp_num = ends[0].qp->qp_num;
	CHECK_EQ(rdma_accept(dial.passive, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_CONNECT_RESPONSE));
	CHECK_EQ(dial.event->param.conn.qp_num, ends[0].qp->qp_num);
	REQUIRE(move(dial.active, ends[1].qp, IBV_QPS_INIT) &&
		move(dial.active, ends[1].qp, IBV_QPS_RTR) &&
		move(dial.active, ends[1].qp, IBV_QPS_RTS));
	ibv_query_qp(ends[1].qp, &attr, 0, &init);
	CHECK_EQ(attr.timeout, 9);
	CHECK_EQ(attr.retry_cnt, 4);
	CHECK_EQ(attr.rnr_retry, 3);
	CHECK_EQ(attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
	CHECK_EQ(rdma_establish(dial.active), 0);
	/* Of the passive side; the active one has none. */
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ESTABLISHED));
	CHECK(dial.event->id == dial.passive);
	dial_expect_nothing(&dial, 30);
	pair_name(&ends[0], &name);
	CHECK_EQ(pair_write(&ends[1], &name, 100, IBV_SEND_SIGNALED), 0);
	CHECK(pair_poll(&ends[1], &wc, 5000) && wc.status == IBV_WC_SUCCESS);
	dial_end(&dial);
	pair_close(&ends[0]);
	pair_close(&ends[1]);
	verbs_host_free(host);
}

/* iWARP: the CM moves the QP, even one of another context. */
DIAL_CASE(qps_of_ones_own_over_iwarp)
{
	struct verbs_host *host = host_with("siw");
	struct rdma_conn_param param = {.retry_count = 4};
	struct end ends[2];
	struct dial dial;
	struct ibv_wc wc;

	REQUIRE(own_qp(&ends[0], "a") && own_qp(&ends[1], "b"));
	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0));
	param.qp_num = ends[1].qp->qp_num;
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_CONNECT_REQUEST));
	dial.passive = dial.event->id;
	param.qp_num = ends[0].qp->qp_num;
	CHECK_EQ(rdma_accept(dial.passive, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ESTABLISHED));
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ESTABLISHED));
	CHECK_EQ(pair_recv(&ends[0], 0, 8), 0);
	CHECK_EQ(pair_send(&ends[1], 0, 8, IBV_SEND_SIGNALED), 0);
	CHECK(pair_poll(&ends[0], &wc, 5000) && wc.status == IBV_WC_SUCCESS);
	dial_end(&dial);
	pair_close(&ends[0]);
	pair_close(&ends[1]);
	verbs_host_free(host);
}

/* Who accepts must wait for the other's first message; the double ends what does not. */
DIAL_CASE(the_acceptor_of_iwarp_must_listen_first)
{
	struct verbs_host *host = host_with("siw");
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad;
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_connect(&dial));
	CHECK_EQ(ibv_post_send(dial.passive->qp, &send, &bad), 0);
	CHECK(dial_expect(&dial, RDMA_CM_EVENT_DISCONNECTED));
	dial_end(&dial);
	verbs_host_free(host);
}

/* What posts of too much inline data return where only the CM connects, the sign included. */
static void check_oversize(const char *personality, unsigned limit, int expected)
{
	struct verbs_host *host = host_with(personality);
	static unsigned char bytes[512];
	struct ibv_sge sge = {(uintptr_t)bytes, limit, 0};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE};
	struct ibv_send_wr *bad = NULL;
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 8,
			.max_recv_wr = 8,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = limit},
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_conn_param param = {.retry_count = 1};
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0));
	CHECK_EQ(rdma_create_qp(dial.active, NULL, &init), 0);
	CHECK_EQ(init.cap.max_inline_data, limit);
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_CONNECT_REQUEST));
	dial.passive = dial.event->id;
	REQUIRE(dial_qps(dial.passive));
	CHECK_EQ(rdma_accept(dial.passive, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ESTABLISHED));
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ESTABLISHED));
	sge.length = limit + 1;
	CHECK_EQ(ibv_post_send(dial.active->qp, &wr, &bad), expected);
	CHECK(bad == &wr);
	sge.length = limit;
	CHECK_EQ(ibv_post_send(dial.active->qp, &wr, &bad), 0);
	dial_end(&dial);
	verbs_host_free(host);
}

DIAL_CASE(oversized_posts_of_siw)
{
	check_oversize("siw", 80, -EINVAL);
}

DIAL_CASE(oversized_posts_of_erdma)
{
	check_oversize("erdma", 96, -EINVAL);
}

DIAL_CASE(oversized_posts_of_cxgb4)
{
	check_oversize("cxgb4", 280, -EMSGSIZE);
}

DIAL_CASE(oversized_posts_of_irdma)
{
	check_oversize("irdma-x722", 48, EINVAL);
}

static void check_private(const char *personality, uint8_t request, uint8_t reply)
{
	struct verbs_host *host = host_with(personality);
	struct rdma_conn_param param = {.private_data = "nonce", .private_data_len = 6};
	static unsigned char large[250];
	bool padded = request == 56;
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_qps(dial.active));
	param.private_data = large;
	param.private_data_len = 57;
	if (padded)
		CHECK_EQ(rdma_connect(dial.active, &param), -1);
	param.private_data = "nonce";
	param.private_data_len = 6;
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_CONNECT_REQUEST));
	CHECK_EQ(dial.event->param.conn.private_data_len, request);
	CHECK_STR((const char *)dial.event->param.conn.private_data, "nonce");
	dial.passive = dial.event->id;
	REQUIRE(dial_qps(dial.passive));
	param.private_data = "answer";
	param.private_data_len = 7;
	CHECK_EQ(rdma_accept(dial.passive, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ESTABLISHED));
	/* Only the active side's carries the answer. */
	if (dial.event->id != dial.active)
		REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ESTABLISHED));
	CHECK_EQ(dial.event->param.conn.private_data_len, reply);
	CHECK_STR((const char *)dial.event->param.conn.private_data, "answer");
	dial_end(&dial);
	verbs_host_free(host);
}

DIAL_CASE(private_data_is_padded)
{
	check_private("rxe", 56, 196);
}

DIAL_CASE(private_data_of_iwarp_is_not)
{
	check_private("siw", 6, 7);
}

DIAL_CASE(a_rejection_has_its_reason)
{
	struct verbs_host *host = host_with("rxe");
	struct rdma_conn_param param = {.retry_count = 1};
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_qps(dial.active));
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_CONNECT_REQUEST));
	dial.passive = dial.event->id;
	CHECK_EQ(rdma_reject(dial.passive, "no", 3), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_REJECTED));
	CHECK_EQ(dial.event->status, 28);
	CHECK_STR((const char *)dial.event->param.conn.private_data, "no");
	CHECK_EQ(dial.event->param.conn.private_data_len, 148);
	dial_end(&dial);
	verbs_host_free(host);
}

static void check_refusal(const char *personality, int status)
{
	struct verbs_host *host = host_with(personality);
	struct rdma_conn_param param = {.retry_count = 1};
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 1) && dial_qps(dial.active));
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_REJECTED));
	CHECK_EQ(dial.event->status, status);
	dial_end(&dial);
	verbs_host_free(host);
}

DIAL_CASE(nobody_listens)
{
	check_refusal("rxe", 8);
}

DIAL_CASE(nobody_listens_to_iwarp)
{
	check_refusal("siw", -ECONNREFUSED);
}

DIAL_CASE(lost_messages_are_repeated_or_given_up)
{
	struct verbs_host *host = host_with("rxe");
	struct rdma_conn_param param = {.retry_count = 1};
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0));
	verbs_host_faults(host, "cm what=req action=drop\ncm what=rep action=drop\n"
				"cm what=rtu action=drop\n");
	REQUIRE(dial_connect(&dial));
	CHECK_STR(verbs_host_faults_left(host), "");
	dial_end(&dial);
	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_qps(dial.active));
	verbs_host_faults(host, "cm what=req action=drop count=inf\n");
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_UNREACHABLE));
	CHECK_EQ(dial.event->status, -ETIMEDOUT);
	dial_end(&dial);
	verbs_host_free(host);
}

DIAL_CASE(lost_messages_of_iwarp_are_repeated)
{
	struct verbs_host *host = host_with("siw");
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0));
	verbs_host_faults(host, "cm what=req action=drop\ncm what=rep action=drop\n");
	REQUIRE(dial_connect(&dial));
	CHECK_STR(verbs_host_faults_left(host), "");
	check_byte(dial.active, dial.passive);
	dial_end(&dial);
	verbs_host_free(host);
}

DIAL_CASE(late_messages_are_none_the_worse)
{
	struct verbs_host *host = host_with("rxe");
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0));
	verbs_host_faults(host, "cm what=req action=delay ms=30\ncm what=rep action=delay ms=30\n");
	REQUIRE(dial_connect(&dial));
	CHECK_STR(verbs_host_faults_left(host), "");
	dial_end(&dial);
	verbs_host_free(host);
}

/* InfiniBand's CM waits for the other side's agreement, TCP does not. */
DIAL_CASE(disconnecting)
{
	struct verbs_host *host = host_with("rxe");
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_connect(&dial));
	CHECK_EQ(rdma_disconnect(dial.active), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_DISCONNECTED));
	CHECK(dial.event->id == dial.passive);
	CHECK(dial_expect_nothing(&dial, 100));
	CHECK_EQ(rdma_disconnect(dial.passive), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_DISCONNECTED));
	CHECK(dial.event->id == dial.active);
	CHECK(dial_expect(&dial, RDMA_CM_EVENT_TIMEWAIT_EXIT));
	CHECK(dial_expect(&dial, RDMA_CM_EVENT_TIMEWAIT_EXIT));
	dial_end(&dial);
	verbs_host_free(host);
}

DIAL_CASE(disconnecting_iwarp)
{
	struct verbs_host *host = host_with("siw");
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_connect(&dial));
	CHECK_EQ(rdma_disconnect(dial.active), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_DISCONNECTED));
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_DISCONNECTED));
	dial_end(&dial);
	verbs_host_free(host);
}

DIAL_CASE(destroying_an_id_takes_leave)
{
	struct verbs_host *host = host_with("rxe");
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_connect(&dial));
	dial_acknowledge(&dial);
	rdma_destroy_qp(dial.active);
	rdma_destroy_id(dial.active);
	dial.active = NULL;
	CHECK(dial_expect(&dial, RDMA_CM_EVENT_DISCONNECTED));
	dial_end(&dial);
	verbs_host_free(host);
}

DIAL_CASE(addresses_that_are_not_there)
{
	struct verbs_host *host = host_with("rxe");
	struct sockaddr_in addr = {.sin_family = AF_INET};
	struct rdma_cm_id *id;
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	CHECK_EQ(rdma_create_id(dial.channel, &id, NULL, RDMA_PS_TCP), 0);
	inet_pton(AF_INET, "10.77.0.99", &addr.sin_addr);
	CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&addr), -1);
	CHECK_EQ(errno, ENODEV);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 50), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ADDR_ERROR));
	CHECK_EQ(dial.event->status, -ETIMEDOUT);
	dial_acknowledge(&dial);
	rdma_destroy_id(id);
	/* Two listeners of one port. */
	CHECK_EQ(rdma_create_id(dial.channel, &id, NULL, RDMA_PS_TCP), 0);
	inet_pton(AF_INET, A, &addr.sin_addr);
	addr.sin_port = rdma_get_src_port(dial.listener);
	CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&addr), -1);
	CHECK_EQ(errno, EADDRINUSE);
	rdma_destroy_id(id);
	/* Without a port that is up there is no way. */
	verbs_host_port(host, "a", "down");
	verbs_host_port(host, "b", "down");
	CHECK_EQ(rdma_create_id(dial.channel, &id, NULL, RDMA_PS_TCP), 0);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 50), -1);
	CHECK_EQ(errno, ENETUNREACH);
	rdma_destroy_id(id);
	dial_end(&dial);
	verbs_host_free(host);
}

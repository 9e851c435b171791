/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "pair_host.h"

/* Work requests between two QPs of one process. */

#define WAIT_MS 5000
#define BOGUS_KEY 0x5a5a5a5au

static enum ibv_qp_state state_of(const struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_UNKNOWN};

	ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init);
	return attr.qp_state;
}

static void check_next(struct end *end, enum ibv_wc_status status, uint64_t wr_id)
{
	struct ibv_wc wc;

	REQUIRE(pair_poll(end, &wc, WAIT_MS));
	CHECK_EQ(wc.status, status);
	CHECK_EQ(wc.wr_id, wr_id);
	CHECK_EQ(wc.qp_num, end->qp->qp_num);
	CHECK_EQ(wc.vendor_err != 0, status != IBV_WC_SUCCESS);
}

static void check_nothing(struct end *end)
{
	struct ibv_wc wc;

	CHECK(!pair_poll(end, &wc, 50));
}

TAP_CASE(send_arrives_whole)
{
	static const char *const personalities[] = {"rxe", "mlx5", "mlx5-ib", "mana"};

	for (size_t i = 0; i < ARRAY_SIZE(personalities); i++) {
		struct setting s;
		struct ibv_wc wc;

		if (!set_up(&s, personalities[i]))
			continue;
		memset(s.ends[0].memory, 0x5a, 1000);
		CHECK_EQ(pair_recv(&s.ends[1], 0, 2000), 0);
		CHECK_EQ(pair_send(&s.ends[0], 0, 1000, IBV_SEND_SIGNALED), 0);
		REQUIRE(pair_poll(&s.ends[1], &wc, WAIT_MS));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.opcode, IBV_WC_RECV);
		CHECK_EQ(wc.byte_len, 1000);
		CHECK_EQ(wc.wr_id, 3000);
		CHECK_EQ(wc.qp_num, s.ends[1].qp->qp_num);
		REQUIRE(pair_poll(&s.ends[0], &wc, WAIT_MS));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.opcode, IBV_WC_SEND);
		CHECK_EQ(wc.wr_id, 1000);
		CHECK(memcmp(s.ends[0].memory, s.ends[1].memory, 1000) == 0);
		CHECK_EQ(s.ends[1].memory[1000], 0);
		tear_down(&s);
	}
}

/* By reference the memory is read when the request is carried out, inline when it is posted. */
TAP_CASE(inline_data_is_taken_at_once)
{
	struct setting s;

	REQUIRE(set_up(&s, "rxe"));
	memset(s.ends[0].memory, 1, 16);
	CHECK_EQ(pair_recv(&s.ends[1], 0, 64), 0);
	/* The fault holds the message back, so that there is time to change the memory. */
	verbs_host_faults(s.host, "send action=delay ms=50\n");
	CHECK_EQ(pair_send(&s.ends[0], 0, 16, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
	memset(s.ends[0].memory, 2, 16);
	check_next(&s.ends[1], IBV_WC_SUCCESS, 3000);
	CHECK_EQ(s.ends[1].memory[0], 1);
	check_next(&s.ends[0], IBV_WC_SUCCESS, 1000);
	CHECK_EQ(pair_recv(&s.ends[1], 0, 64), 0);
	verbs_host_faults(s.host, "send action=delay ms=50\n");
	CHECK_EQ(pair_send(&s.ends[0], 0, 16, IBV_SEND_SIGNALED), 0);
	memset(s.ends[0].memory, 3, 16);
	check_next(&s.ends[1], IBV_WC_SUCCESS, 3000);
	CHECK_EQ(s.ends[1].memory[0], 3);
	tear_down(&s);
}

static int send_with_key(struct end *end, uint32_t lkey, unsigned flags)
{
	struct ibv_sge sge = {(uintptr_t)end->memory, 16, lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
			   *bad;

	wr.send_flags = flags | IBV_SEND_SIGNALED;
	return ibv_post_send(end->qp, &wr, &bad);
}

/* What tells a device that inlines from one that ignores the flag. */
TAP_CASE(a_bogus_lkey_matters_unless_inlined)
{
	static const struct {
		const char *personality;
		enum ibv_wc_status inlined, referred;
	} cases[] = {
		{"mlx5", IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR},
		{"rxe", IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR},
		{"mana", IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_PROT_ERR},
		{"pvrdma", IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_PROT_ERR},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (unsigned flags = 0; flags <= IBV_SEND_INLINE; flags += IBV_SEND_INLINE) {
			struct setting s;

			REQUIRE(set_up(&s, cases[i].personality));
			CHECK_EQ(pair_recv(&s.ends[1], 0, 64), 0);
			CHECK_EQ(send_with_key(&s.ends[0], BOGUS_KEY, flags), 0);
			check_next(&s.ends[0], flags ? cases[i].inlined : cases[i].referred, 1);
			tear_down(&s);
		}
	}
}

TAP_CASE(write_changes_the_peers_memory_and_nothing_else)
{
	struct setting s;

	REQUIRE(set_up(&s, "mlx5"));
	memset(s.ends[0].memory, 7, END_BYTES);
	CHECK_EQ(pair_write(&s.ends[0], &s.names[1], 40000, IBV_SEND_SIGNALED), 0);
	check_next(&s.ends[0], IBV_WC_SUCCESS, 2000);
	CHECK(memcmp(s.ends[0].memory, s.ends[1].memory, 40000) == 0);
	CHECK_EQ(s.ends[1].memory[40000], 0);
	check_nothing(&s.ends[1]);
	tear_down(&s);
}

static int write_wr(struct setting *s, struct ibv_send_wr *wr, unsigned bytes)
{
	struct ibv_sge sge = {(uintptr_t)s->ends[0].memory, bytes, s->ends[0].mr->lkey};
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	return ibv_post_send(s->ends[0].qp, wr, &bad);
}

TAP_CASE(immediate_data_arrives)
{
	struct ibv_send_wr wr = {.wr_id = 5, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM};
	struct setting s;
	struct ibv_wc wc;

	REQUIRE(set_up(&s, "mlx5"));
	wr.imm_data = 0x01020304;
	wr.wr.rdma.remote_addr = s.names[1].addr;
	wr.wr.rdma.rkey = s.names[1].rkey;
	CHECK_EQ(pair_recv(&s.ends[1], 0, 0), 0);
	CHECK_EQ(write_wr(&s, &wr, 100), 0);
	REQUIRE(pair_poll(&s.ends[1], &wc, WAIT_MS));
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc.imm_data, 0x01020304);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(wc.byte_len, 100);
	check_next(&s.ends[0], IBV_WC_SUCCESS, 5);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	CHECK_EQ(pair_recv(&s.ends[1], 0, 100), 0);
	CHECK_EQ(write_wr(&s, &wr, 10), 0);
	REQUIRE(pair_poll(&s.ends[1], &wc, WAIT_MS));
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.imm_data, 0x01020304);
	tear_down(&s);
}

TAP_CASE(read_fetches_the_peers_memory)
{
	struct ibv_send_wr wr = {.wr_id = 6, .opcode = IBV_WR_RDMA_READ};
	struct setting s;
	struct ibv_wc wc;

	REQUIRE(set_up(&s, "mlx5"));
	memset(s.ends[1].memory, 9, 5000);
	wr.wr.rdma.remote_addr = s.names[1].addr;
	wr.wr.rdma.rkey = s.names[1].rkey;
	CHECK_EQ(write_wr(&s, &wr, 5000), 0);
	REQUIRE(pair_poll(&s.ends[0], &wc, WAIT_MS));
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_READ);
	CHECK(memcmp(s.ends[0].memory, s.ends[1].memory, 5000) == 0);
	tear_down(&s);
}

TAP_CASE(a_write_that_may_not_is_refused)
{
	/* Key, address, bytes: as offsets from the good ones. */
	static const struct {
		uint32_t key;
		int64_t addr;
		unsigned bytes;
	} cases[] = {{BOGUS_KEY, 0, 16}, {0, -1, 16}, {0, END_BYTES - 15, 16}, {0, 1, END_BYTES}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ibv_send_wr wr = {.wr_id = 4, .opcode = IBV_WR_RDMA_WRITE};
		struct ibv_async_event event;
		struct setting s;

		REQUIRE(set_up(&s, "mlx5"));
		memset(s.ends[0].memory, 7, END_BYTES);
		wr.wr.rdma.remote_addr = s.names[1].addr + (uint64_t)cases[i].addr;
		wr.wr.rdma.rkey = s.names[1].rkey ^ cases[i].key;
		CHECK_EQ(write_wr(&s, &wr, cases[i].bytes), 0);
		check_next(&s.ends[0], IBV_WC_REM_ACCESS_ERR, 4);
		CHECK_EQ(state_of(&s.ends[0]), IBV_QPS_ERR);
		CHECK_EQ(state_of(&s.ends[1]), IBV_QPS_ERR);
		CHECK_EQ(s.ends[1].memory[0] | s.ends[1].memory[END_BYTES - 1], 0);
		/* COMM_EST is only raised by a QP that isn't in RTS yet. */
		CHECK_EQ(ibv_get_async_event(s.ends[1].context, &event), 0);
		CHECK_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
		CHECK(event.element.qp == s.ends[1].qp);
		ibv_ack_async_event(&event);
		tear_down(&s);
	}
}

TAP_CASE(an_lkey_is_no_rkey)
{
	struct ibv_send_wr wr = {.wr_id = 4, .opcode = IBV_WR_RDMA_WRITE};
	struct setting s;

	REQUIRE(set_up(&s, "mlx5"));
	wr.wr.rdma.remote_addr = s.names[1].addr;
	wr.wr.rdma.rkey = s.ends[1].mr->lkey;
	CHECK_EQ(write_wr(&s, &wr, 8), 0);
	check_next(&s.ends[0], IBV_WC_REM_ACCESS_ERR, 4);
	tear_down(&s);
}

TAP_CASE(order_is_kept_and_only_signalled_requests_complete)
{
	struct setting s;

	REQUIRE(set_up(&s, "mlx5"));
	for (unsigned i = 0; i < 16; i++)
		CHECK_EQ(pair_recv(&s.ends[1], 1000 + i * 64, 64), 0);
	for (unsigned i = 0; i < 16; i++) {
		s.ends[0].memory[i] = (unsigned char)(i + 1);
		CHECK_EQ(pair_send(&s.ends[0], i, 1, i % 4 == 3 ? IBV_SEND_SIGNALED : 0), 0);
	}
	for (unsigned i = 0; i < 16; i++) {
		check_next(&s.ends[1], IBV_WC_SUCCESS, 4000 + i * 64);
		CHECK_EQ(s.ends[1].memory[1000 + i * 64], i + 1);
	}
	for (unsigned i = 3; i < 16; i += 4)
		check_next(&s.ends[0], IBV_WC_SUCCESS, 1000 + i);
	check_nothing(&s.ends[0]);
	tear_down(&s);
}

/* A queue has room again when a completion is polled, not when a request is done. */
TAP_CASE(unsignalled_requests_fill_the_queue)
{
	struct setting s;
	struct ibv_wc wc;

	REQUIRE(set_up(&s, "rxe"));
	for (unsigned i = 0; i < 16; i++)
		CHECK_EQ(pair_write(&s.ends[0], &s.names[1], 8, i == 15 ? IBV_SEND_SIGNALED : 0),
			 0);
	CHECK_EQ(pair_write(&s.ends[0], &s.names[1], 8, 0), ENOMEM);
	usleep(50000);
	CHECK_EQ(pair_write(&s.ends[0], &s.names[1], 8, 0), ENOMEM);
	REQUIRE(pair_poll(&s.ends[0], &wc, WAIT_MS));
	for (unsigned i = 0; i < 16; i++)
		CHECK_EQ(pair_write(&s.ends[0], &s.names[1], 8, 0), 0);
	for (unsigned i = 0; i < 16; i++)
		CHECK_EQ(pair_recv(&s.ends[1], 0, 8), 0);
	CHECK_EQ(pair_recv(&s.ends[1], 0, 8), ENOMEM);
	tear_down(&s);
}

TAP_CASE(a_post_before_its_state_is_refused)
{
	struct verbs_host *host = verbs_host_new();
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct end end;

	verbs_host_add(host, "a", "mlx5", "10.77.0.1");
	verbs_host_enter(host);
	REQUIRE_OK(pair_end(&end, "a", 16, 0));
	CHECK_EQ(pair_send(&end, 0, 8, 0), EINVAL);
	CHECK_EQ(pair_recv(&end, 0, 8), 0);
	CHECK_EQ(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), EINVAL);
	CHECK_EQ(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU), EINVAL);
	attr.qp_state = IBV_QPS_ERR;
	CHECK_EQ(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), 0);
	check_next(&end, IBV_WC_WR_FLUSH_ERR, 3000);
	attr.qp_state = IBV_QPS_INIT;
	CHECK_EQ(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_RESET;
	CHECK_EQ(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), 0);
	pair_close(&end);
	verbs_host_free(host);
}

/* hns: by the MTU of the path as well. */
TAP_CASE(inline_above_the_mtu_is_refused_where_it_is)
{
	struct verbs_host *host = verbs_host_new();
	struct pair_patience patience = {16, 2, 2};
	struct end_name name;
	struct end end;

	verbs_host_add(host, "a", "hns-hip09", "10.77.0.1");
	verbs_host_enter(host);
	REQUIRE_OK(pair_end(&end, "a", 16, 1024));
	pair_name(&end, &name);
	/* pair_connect() asks for an MTU of 1024, which a grant of 1024 fits just so. */
	CHECK_EQ(pair_connect(&end, &name, patience), 0);
	CHECK_EQ(pair_write(&end, &name, 1024, IBV_SEND_INLINE | IBV_SEND_SIGNALED), 0);
	CHECK_EQ(pair_write(&end, &name, 1025, IBV_SEND_INLINE), EINVAL);
	check_next(&end, IBV_WC_SUCCESS, 2000);
	pair_close(&end);
	verbs_host_free(host);
}

/* Half a second of two threads would be a test of its own; a long run in one direction is not. */
TAP_CASE(many_messages_arrive_as_they_were_sent)
{
	struct setting s;
	unsigned wrong = 0;
	struct ibv_wc wc;

	REQUIRE(set_up(&s, "rxe"));
	for (unsigned i = 0; i < 500; i++) {
		unsigned bytes = 1 + i * 97 % 3000;

		memset(s.ends[0].memory, (int)i, bytes);
		wrong += pair_recv(&s.ends[1], 0, 4096) != 0;
		wrong += pair_send(&s.ends[0], 0, bytes, IBV_SEND_SIGNALED) != 0;
		wrong += !pair_poll(&s.ends[1], &wc, WAIT_MS) || wc.byte_len != bytes;
		wrong += memcmp(s.ends[0].memory, s.ends[1].memory, bytes) != 0;
		wrong += !pair_poll(&s.ends[0], &wc, WAIT_MS) || wc.status != IBV_WC_SUCCESS;
	}
	CHECK_EQ(wrong, 0);
	tear_down(&s);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "pair_host.h"

/* What goes wrong on a network, and what is injected. */

#define WAIT_MS 5000

static void check_next(struct end *end, enum ibv_wc_status status, uint64_t wr_id)
{
	struct ibv_wc wc;

	REQUIRE(pair_poll(end, &wc, WAIT_MS));
	CHECK_EQ(wc.status, status);
	CHECK_EQ(wc.wr_id, wr_id);
}

static unsigned elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned)((now.tv_sec - since->tv_sec) * 1000 +
			  (now.tv_nsec - since->tv_nsec) / 1000000);
}

TAP_CASE(without_a_receive_the_sender_is_told_to_wait)
{
	struct setting s;

	REQUIRE(set_up(&s, "mlx5"));
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
	CHECK_EQ(pair_send(&s.ends[0], 1, 8, 0), 0);
	/* Twice again after 0.64 ms each: then it fails, and what is behind it. */
	check_next(&s.ends[0], IBV_WC_RNR_RETRY_EXC_ERR, 1000);
	check_next(&s.ends[0], IBV_WC_WR_FLUSH_ERR, 1001);
	tear_down(&s);
}

TAP_CASE(rnr_retry_7_waits_for_ever)
{
	const struct pair_patience patience = {14, 2, 7};
	struct verbs_host *host = verbs_host_new();
	struct end ends[2];
	struct end_name names[2];
	struct ibv_wc wc;

	verbs_host_add(host, "a", "mlx5", "10.77.0.1");
	verbs_host_enter(host);
	for (unsigned i = 0; i < 2; i++) {
		REQUIRE_OK(pair_end(&ends[i], "a", 16, 0));
		pair_name(&ends[i], &names[i]);
	}
	CHECK_EQ(pair_connect(&ends[0], &names[1], patience), 0);
	CHECK_EQ(pair_connect(&ends[1], &names[0], patience), 0);
	CHECK_EQ(pair_send(&ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
	CHECK(!pair_poll(&ends[0], &wc, 100));
	CHECK_EQ(pair_recv(&ends[1], 0, 8), 0);
	check_next(&ends[0], IBV_WC_SUCCESS, 1000);
	pair_close(&ends[0]);
	pair_close(&ends[1]);
	verbs_host_free(host);
}

TAP_CASE(a_receive_too_small_breaks_both)
{
	struct setting s;

	REQUIRE(set_up(&s, "mlx5"));
	CHECK_EQ(pair_recv(&s.ends[1], 0, 7), 0);
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, 0), 0);
	check_next(&s.ends[1], IBV_WC_LOC_LEN_ERR, 3000);
	/* Errors complete even if success would not have. */
	check_next(&s.ends[0], IBV_WC_REM_INV_REQ_ERR, 1000);
	tear_down(&s);
}

TAP_CASE(a_receive_without_a_good_key_breaks_both)
{
	struct setting s;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;

	REQUIRE(set_up(&s, "mlx5"));
	sge = (struct ibv_sge){(uintptr_t)s.ends[1].memory, 64, s.ends[1].mr->rkey};
	CHECK_EQ(ibv_post_recv(s.ends[1].qp, &wr, &bad), 0);
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, 0), 0);
	check_next(&s.ends[1], IBV_WC_LOC_PROT_ERR, 9);
	check_next(&s.ends[0], IBV_WC_REM_OP_ERR, 1000);
	tear_down(&s);
}

TAP_CASE(loss_is_repeated_and_given_up)
{
	struct timespec start;
	struct setting s;

	REQUIRE(set_up(&s, "mlx5"));
	CHECK_EQ(pair_recv(&s.ends[1], 0, 8), 0);
	verbs_host_faults(s.host, "send device=a action=drop count=2\n");
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
	check_next(&s.ends[0], IBV_WC_SUCCESS, 1000);
	check_next(&s.ends[1], IBV_WC_SUCCESS, 3000);
	CHECK_STR(verbs_host_faults_left(s.host), "");
	verbs_host_faults(s.host, "send device=a action=drop count=inf\n");
	clock_gettime(CLOCK_MONOTONIC, &start);
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
	check_next(&s.ends[0], IBV_WC_RETRY_EXC_ERR, 1000);
	/* Three times 268 ms. */
	CHECK(elapsed_ms(&start) >= 800);
	tear_down(&s);
}

TAP_CASE(a_lost_answer_does_not_repeat_the_message)
{
	struct setting s;
	struct ibv_wc wc;

	REQUIRE(set_up(&s, "mlx5"));
	CHECK_EQ(pair_recv(&s.ends[1], 0, 8), 0);
	CHECK_EQ(pair_recv(&s.ends[1], 100, 8), 0);
	verbs_host_faults(s.host, "ack device=b action=drop count=2\n");
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
	check_next(&s.ends[0], IBV_WC_SUCCESS, 1000);
	check_next(&s.ends[1], IBV_WC_SUCCESS, 3000);
	CHECK(!pair_poll(&s.ends[1], &wc, 50));
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
	check_next(&s.ends[1], IBV_WC_SUCCESS, 3100);
	tear_down(&s);
}

TAP_CASE(a_port_that_is_down_loses_messages)
{
	struct setting s;

	REQUIRE(set_up(&s, "mlx5"));
	CHECK_EQ(pair_recv(&s.ends[1], 0, 8), 0);
	verbs_host_port(s.host, "b", "down");
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
	usleep(30000);
	verbs_host_port(s.host, "b", "active");
	check_next(&s.ends[0], IBV_WC_SUCCESS, 1000);
	verbs_host_port(s.host, "a", "down");
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
	check_next(&s.ends[0], IBV_WC_RETRY_EXC_ERR, 1000);
	tear_down(&s);
}

/* rxe says at once that its own port is down, or its address gone. */
TAP_CASE(rxe_flushes_what_cannot_leave)
{
	struct setting s;

	REQUIRE(set_up(&s, "rxe"));
	verbs_host_port(s.host, "a", "down");
	/* The engine hears of the file by itself; asking for the port makes sure. */
	pair_name(&s.ends[0], &s.names[0]);
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
	check_next(&s.ends[0], IBV_WC_WR_FLUSH_ERR, 1000);
	verbs_host_address(s.host, "b", NULL);
	pair_name(&s.ends[1], &s.names[1]);
	CHECK_EQ(pair_send(&s.ends[1], 0, 8, IBV_SEND_SIGNALED), 0);
	check_next(&s.ends[1], IBV_WC_WR_FLUSH_ERR, 1000);
	tear_down(&s);
}

TAP_CASE(a_peer_that_is_not_there_exceeds_the_retries)
{
	struct setting s;

	REQUIRE(set_up(&s, "mlx5"));
	ibv_destroy_qp(s.ends[1].qp);
	s.ends[1].qp = NULL;
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, 0), 0);
	check_next(&s.ends[0], IBV_WC_RETRY_EXC_ERR, 1000);
	tear_down(&s);
}

/* A QP that is connected to someone else, or expects other numbers, does not answer. */
TAP_CASE(a_stranger_gets_no_answer)
{
	const struct pair_patience patience = {12, 1, 1};
	struct end third;
	struct setting s;

	REQUIRE(set_up(&s, "mlx5"));
	REQUIRE_OK(pair_end(&third, "a", 16, 0));
	CHECK_EQ(pair_connect(&third, &s.names[1], patience), 0);
	CHECK_EQ(pair_write(&third, &s.names[1], 8, 0), 0);
	check_next(&third, IBV_WC_RETRY_EXC_ERR, 2000);
	pair_close(&third);
	tear_down(&s);
}

TAP_CASE(faults_of_a_message)
{
	static const struct {
		const char *fault;
		enum ibv_wc_status status;
	} cases[] = {
		{"send device=a action=flush\n", IBV_WC_WR_FLUSH_ERR},
		{"send device=a action=error status=8\n", IBV_WC_LOC_ACCESS_ERR},
		{"send device=a action=partial\n", IBV_WC_FATAL_ERR},
		{"send device=a action=delay ms=30\n", IBV_WC_SUCCESS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct setting s;

		REQUIRE(set_up(&s, "mlx5"));
		memset(s.ends[0].memory, 1, 100);
		verbs_host_faults(s.host, cases[i].fault);
		CHECK_EQ(pair_write(&s.ends[0], &s.names[1], 100, IBV_SEND_SIGNALED), 0);
		check_next(&s.ends[0], cases[i].status, 2000);
		/* What is partial did arrive, by half. */
		if (cases[i].status == IBV_WC_FATAL_ERR) {
			usleep(50000);
			CHECK_EQ(s.ends[1].memory[49], 1);
			CHECK_EQ(s.ends[1].memory[50], 0);
		}
		tear_down(&s);
	}
}

TAP_CASE(faults_of_calls)
{
	struct setting s;
	struct end end;

	REQUIRE(set_up(&s, "mlx5"));
	verbs_host_faults(s.host, "post_send value=-12\npost_recv value=5 skip=1\n");
	CHECK_EQ(pair_send(&s.ends[0], 0, 8, 0), -12);
	CHECK_EQ(pair_recv(&s.ends[1], 0, 8), 0);
	CHECK_EQ(pair_recv(&s.ends[1], 0, 8), 5);
	CHECK_STR(verbs_host_faults_left(s.host), "");
	verbs_host_faults(s.host, "reg_mr errno=EAGAIN\n");
	CHECK_EQ(pair_end(&end, "a", 16, 0), -EAGAIN);
	verbs_host_faults(s.host, "create_cq errno=ENOMEM\n");
	CHECK_EQ(pair_end(&end, "a", 16, 0), -ENOMEM);
	verbs_host_faults(s.host, "modify_qp errno=EIO device=b\nopen errno=EPERM\n");
	CHECK_EQ(pair_end(&end, "a", 16, 0), -EPERM);
	CHECK_OK(pair_end(&end, "a", 16, 0));
	pair_close(&end);
	CHECK_EQ(pair_end(&end, "b", 16, 0), -EIO);
	tear_down(&s);
}

static int create_errno(struct end *end, uint32_t inline_bytes, uint32_t *ret_granted)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = {.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = inline_bytes},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;

	errno = 7777;
	qp = ibv_create_qp(end->pd, &init);
	*ret_granted = init.cap.max_inline_data;
	if (!qp)
		return errno;
	ibv_destroy_qp(qp);
	return 0;
}

TAP_CASE(faults_of_qp_creation)
{
	struct setting s;
	uint32_t granted;

	REQUIRE(set_up(&s, "mlx5"));
	verbs_host_faults(s.host, "create_qp errno=EPERM count=2\ncreate_qp errno=0\n");
	CHECK_EQ(create_errno(&s.ends[0], 0, &granted), EPERM);
	CHECK_EQ(create_errno(&s.ends[0], 0, &granted), EPERM);
	CHECK_EQ(create_errno(&s.ends[0], 0, &granted), 7777);
	CHECK_EQ(create_errno(&s.ends[0], 0, &granted), 0);
	/* It granted more once. */
	verbs_host_faults(s.host, "create_qp over=64 errno=EINVAL count=inf\n");
	CHECK_EQ(create_errno(&s.ends[0], 65, &granted), EINVAL);
	CHECK_EQ(create_errno(&s.ends[0], 64, &granted), 0);
	verbs_host_faults(s.host, "create_qp over=32 grant=32\n");
	CHECK_EQ(create_errno(&s.ends[0], 256, &granted), 0);
	CHECK_EQ(granted, 32);
	tear_down(&s);
}

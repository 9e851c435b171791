/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "pair.h"

/* Work requests between two QPs of one process. */

static struct verbs_host *host_with(const char *personality)
{
	struct verbs_host *host = verbs_host_new();

	verbs_host_add(host, "a", personality, "10.77.0.1");
	verbs_host_add(host, "b", personality, "10.77.0.2");
	verbs_host_enter(host);
	return host;
}

TAP_CASE(send_arrives_whole)
{
	struct verbs_host *host = host_with("rxe");
	struct end ends[2];
	struct ibv_wc wc;

	REQUIRE(pair_make(ends, "a", "b") == 0);
	memset(ends[0].memory, 0x5a, 1000);
	CHECK_EQ(pair_recv(&ends[1], 0, 2000), 0);
	CHECK_EQ(pair_send(&ends[0], 0, 1000, IBV_SEND_SIGNALED), 0);
	REQUIRE(pair_poll(&ends[1], &wc, 2000));
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, 1000);
	CHECK_EQ(wc.wr_id, 3000);
	CHECK_EQ(wc.qp_num, ends[1].qp->qp_num);
	REQUIRE(pair_poll(&ends[0], &wc, 2000));
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_SEND);
	CHECK_EQ(wc.wr_id, 1000);
	CHECK(memcmp(ends[0].memory, ends[1].memory, 1000) == 0);
	CHECK_EQ(ends[1].memory[1000], 0);
	pair_close(&ends[0]);
	pair_close(&ends[1]);
	verbs_host_free(host);
}

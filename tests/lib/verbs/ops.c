/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "device.h"
#include "ops.h"

/*
 * The operations that inline functions of verbs.h call through a context. Those that are absent
 * make their inline functions return EOPNOTSUPP by themselves.
 */

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	(void)srq;
	*bad_wr = wr;
	return dbl_unsupported("ibv_post_srq_recv");
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	(void)pd;
	(void)type;
	dbl_unsupported("ibv_alloc_mw");
	return NULL;
}

void device_set_ops(struct verbs_context *verbs)
{
	verbs->sz = sizeof(*verbs);
	verbs->query_port = dbl_query_port;
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	verbs->context.ops.poll_cq = dbl_poll_cq;
	verbs->context.ops.req_notify_cq = dbl_req_notify_cq;
	verbs->context.ops.post_send = dbl_post_send;
	verbs->context.ops.post_recv = dbl_post_recv;
	verbs->context.ops.post_srq_recv = post_srq_recv;
	verbs->context.ops.alloc_mw = alloc_mw;
}

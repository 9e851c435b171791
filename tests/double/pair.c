/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pair.h"

struct ibv_context *pair_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	int error = ENOENT;

	for (int i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) != 0)
			continue;
		context = ibv_open_device(list[i]);
		error = errno;
	}
	if (list)
		ibv_free_device_list(list);
	errno = error;
	return context;
}

static bool find_gid(struct end *end)
{
	struct ibv_gid_entry entries[16];
	ssize_t count = ibv_query_gid_table(end->context, entries, 16, 0);

	for (ssize_t i = 0; i < count; i++) {
		/* The last one: for RoCE that of the address, version 2. */
		end->gid_index = (int)entries[i].gid_index;
		memcpy(end->gid, entries[i].gid.raw, 16);
	}
	return count > 0;
}

static int create_qp(struct end *end, unsigned depth, unsigned inline_bytes)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = {.max_send_wr = depth,
			.max_recv_wr = depth,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = inline_bytes},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	end->qp = ibv_create_qp(end->pd, &init);
	if (!end->qp)
		return -errno;
	end->cap = init.cap;
	return -ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
}

int pair_end_cqe(struct end *end, const char *name, unsigned depth, unsigned inline_bytes,
		 unsigned cqe)
{
	const int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	int rc;

	memset(end, 0, sizeof(*end));
	end->depth = depth;
	end->context = pair_open(name);
	if (!end->context)
		return -errno;
	end->memory = calloc(1, END_BYTES);
	end->pd = ibv_alloc_pd(end->context);
	end->channel = ibv_create_comp_channel(end->context);
	end->cq = ibv_create_cq(end->context, (int)cqe, end, end->channel, 0);
	if (end->pd && end->memory)
		end->mr = ibv_reg_mr(end->pd, end->memory, END_BYTES, access);
	rc = !end->cq || !end->mr ? -errno : find_gid(end) ? 0 : -ENODATA;
	if (rc == 0)
		rc = create_qp(end, depth, inline_bytes);
	if (rc < 0)
		pair_close(end);
	return rc;
}

int pair_end(struct end *end, const char *name, unsigned depth, unsigned inline_bytes)
{
	return pair_end_cqe(end, name, depth, inline_bytes, 2 * depth);
}

void pair_close(struct end *end)
{
	if (end->qp)
		ibv_destroy_qp(end->qp);
	if (end->mr)
		ibv_dereg_mr(end->mr);
	if (end->cq)
		ibv_destroy_cq(end->cq);
	if (end->channel)
		ibv_destroy_comp_channel(end->channel);
	if (end->pd)
		ibv_dealloc_pd(end->pd);
	if (end->context)
		ibv_close_device(end->context);
	free(end->memory);
	memset(end, 0, sizeof(*end));
}

void pair_name(const struct end *end, struct end_name *ret_name)
{
	struct ibv_port_attr port;

	memset(ret_name, 0, sizeof(*ret_name));
	ibv_query_port(end->context, 1, &port);
	ret_name->qpn = end->qp->qp_num;
	ret_name->rkey = end->mr->rkey;
	ret_name->addr = (uintptr_t)end->memory;
	ret_name->lid = port.lid;
	memcpy(ret_name->gid, end->gid, 16);
}

int pair_connect(struct end *end, const struct end_name *peer, struct pair_patience patience)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.rq_psn = 77,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.port_num = 1,
			    .is_global = 1,
			    .dlid = peer->lid,
			    .grh = {.hop_limit = 64, .sgid_index = (uint8_t)end->gid_index}},
	};
	int rc;

	memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, 16);
	rc = ibv_modify_qp(end->qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER);
	if (rc)
		return rc;
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 77;
	attr.timeout = patience.timeout;
	attr.retry_cnt = patience.retry;
	attr.rnr_retry = patience.rnr_retry;
	attr.max_rd_atomic = 1;
	return ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int pair_make(struct end ends[2], const char *first, const char *second)
{
	/* 268 ms, twice again: long for a busy machine, short for a test of loss. */
	const struct pair_patience patience = {16, 2, 2};
	struct end_name names[2];
	int rc;

	memset(ends, 0, 2 * sizeof(*ends));
	rc = -pair_end(&ends[0], first, 16, 0);
	if (rc == 0)
		rc = -pair_end(&ends[1], second, 16, 0);
	if (rc)
		return rc;
	pair_name(&ends[0], &names[0]);
	pair_name(&ends[1], &names[1]);
	rc = pair_connect(&ends[0], &names[1], patience);
	return rc ? rc : pair_connect(&ends[1], &names[0], patience);
}

static int post(struct end *end, struct ibv_send_wr *wr, unsigned from, unsigned bytes)
{
	struct ibv_sge sge = {(uintptr_t)end->memory + from, bytes, end->mr->lkey};
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	return ibv_post_send(end->qp, wr, &bad);
}

int pair_send(struct end *end, unsigned from, unsigned bytes, unsigned flags)
{
	struct ibv_send_wr wr = {
		.wr_id = 1000 + from,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
	};

	return post(end, &wr, from, bytes);
}

int pair_write(struct end *end, const struct end_name *peer, unsigned bytes, unsigned flags)
{
	struct ibv_send_wr wr = {
		.wr_id = 2000,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = flags,
		.wr.rdma = {peer->addr, peer->rkey},
	};

	return post(end, &wr, 0, bytes);
}

int pair_recv(struct end *end, unsigned to, unsigned bytes)
{
	struct ibv_sge sge = {(uintptr_t)end->memory + to, bytes, end->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 3000 + to, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(end->qp, &wr, &bad);
}

bool pair_poll(struct end *end, struct ibv_wc *ret_wc, unsigned timeout_ms)
{
	for (unsigned waited_us = 0; waited_us <= timeout_ms * 1000; waited_us += 200) {
		int count = ibv_poll_cq(end->cq, 1, ret_wc);

		if (count)
			return count == 1;
		usleep(200);
	}
	return false;
}

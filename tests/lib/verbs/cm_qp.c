/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "cm.h"
#include "cm_qp.h"
#include "fault.h"

/* The kernel's default local ACK timeout: 0.54 s. */
#define ACK_TIMEOUT_DEFAULT 17

/* Whether the connection is as far as RTR and RTS need it. */
static bool knows_peer(const struct cm_id *id)
{
	switch (id->state) {
	case CM_REP_RCVD:
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_CONNECTED:
		return true;
	default:
		return false;
	}
}

/* As the kernel's iw_cm_init_qp_attr(): the CM does the rest by itself. */
static int init_iwarp(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
	case IBV_QPS_RTR:
		*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
		attr->qp_access_flags = 0;
		if (id->state >= CM_REQ_SENT)
			attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
		return 0;
	case IBV_QPS_RTS:
		*mask = 0;
		return 0;
	default:
		return EINVAL;
	}
}

static void init_to_init(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	attr->pkey_index = 0;
	attr->port_num = id->port;
	attr->qp_access_flags = 0;
	/* Nothing is open to the peer until there is one. */
	if (id->state < CM_REQ_SENT)
		return;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ;
}

static uint8_t find_gid_index(const struct cm_id *id)
{
	struct ibv_gid_entry entries[STATE_GIDS_MAX * STATE_PORTS_MAX];
	ssize_t count = id->id.verbs
				? ibv_query_gid_table(id->id.verbs, entries, ARRAY_SIZE(entries), 0)
				: 0;
	uint8_t index = 0;

	for (ssize_t i = 0; i < count; i++) {
		/* Of equal ones the last, which is RoCE v2. */
		if (entries[i].port_num == id->port &&
		    memcmp(entries[i].gid.raw, id->src_gid, 16) == 0)
			index = (uint8_t)entries[i].gid_index;
	}
	return index;
}

static void init_to_rtr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask, uint8_t index)
{
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	memset(&attr->ah_attr, 0, sizeof(attr->ah_attr));
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = id->port;
	attr->ah_attr.grh.sgid_index = index;
	attr->ah_attr.grh.hop_limit = 64;
	memcpy(attr->ah_attr.grh.dgid.raw, id->dst_gid, 16);
	attr->path_mtu = (enum ibv_mtu)id->mtu;
	attr->dest_qp_num = id->remote_qpn;
	attr->rq_psn = id->local_psn;
	attr->max_dest_rd_atomic = id->responder_resources;
	attr->min_rnr_timer = 0;
}

static void init_to_rts(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	attr->sq_psn = id->remote_psn;
	attr->timeout = id->timeout_set ? id->ack_timeout : ACK_TIMEOUT_DEFAULT;
	attr->retry_cnt = id->retry_count;
	attr->rnr_retry = id->rnr_retry;
	attr->max_rd_atomic = id->initiator_depth;
}

/*
 * PSNs: each side receives from the number that it announced and sends from the one that the other
 * announced (the kernel's seq_num is the starting PSN of what comes to oneself).
 */
DBL_API int rdma_init_qp_attr(struct rdma_cm_id *ibv, struct ibv_qp_attr *attr, int *mask)
{
	struct cm_id *id = cm_id(ibv);
	uint8_t index;
	int rc = 0;

	if (!id->guid)
		return cm_return(EINVAL);
	/* Takes dbl_lock itself. */
	index = find_gid_index(id);
	pthread_mutex_lock(&dbl_lock);
	if (id->is_iwarp)
		rc = init_iwarp(id, attr, mask);
	else if (attr->qp_state == IBV_QPS_INIT)
		init_to_init(id, attr, mask);
	else if (!knows_peer(id))
		rc = EINVAL;
	else if (attr->qp_state == IBV_QPS_RTR)
		init_to_rtr(id, attr, mask, index);
	else if (attr->qp_state == IBV_QPS_RTS)
		init_to_rts(id, attr, mask);
	else
		rc = EINVAL;
	pthread_mutex_unlock(&dbl_lock);
	return cm_return(rc);
}

static int move(struct cm_id *id, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {.qp_state = to};
	int mask;

	if (rdma_init_qp_attr(&id->id, &attr, &mask) != 0)
		return errno;
	return ibv_modify_qp(id->id.qp, &attr, mask);
}

int cm_qp_ready(struct cm_id *id)
{
	/* Again to INIT first, for the access rights. */
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	int rc = 0;

	for (size_t i = 0; id->id.qp && rc == 0 && i < ARRAY_SIZE(way); i++)
		rc = move(id, way[i]);
	return rc;
}

int cm_qp_finish(struct cm_id *id)
{
	int rc = cm_qp_ready(id);

	if (rc) {
		cm_qp_to_error(id);
		return rc;
	}
	pthread_mutex_lock(&dbl_lock);
	if (id->state == CM_REP_RCVD) {
		id->state = CM_CONNECTED;
		cm_conn_send(id, CM_RTU, NULL, 0, 0);
	} else {
		rc = EINVAL;
	}
	pthread_mutex_unlock(&dbl_lock);
	return rc;
}

void cm_qp_to_error(struct cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (id->id.qp)
		ibv_modify_qp(id->id.qp, &attr, IBV_QP_STATE);
}

DBL_API int rdma_establish(struct rdma_cm_id *ibv)
{
	struct cm_id *id = cm_id(ibv);

	if (ibv->qp || id->is_iwarp)
		return cm_return(EINVAL);
	return cm_return(cm_qp_finish(id));
}

static void destroy_cqs(struct rdma_cm_id *id)
{
	if (id->recv_cq)
		ibv_destroy_cq(id->recv_cq);
	if (id->send_cq && id->send_cq != id->recv_cq)
		ibv_destroy_cq(id->send_cq);
	id->recv_cq = id->send_cq = NULL;
	if (id->recv_cq_channel)
		ibv_destroy_comp_channel(id->recv_cq_channel);
	if (id->send_cq_channel && id->send_cq_channel != id->recv_cq_channel)
		ibv_destroy_comp_channel(id->send_cq_channel);
	id->recv_cq_channel = id->send_cq_channel = NULL;
}

/* Queues that the program did not bring, each with a channel. */
static int create_cqs(struct rdma_cm_id *id, struct ibv_qp_init_attr *init)
{
	if (!init->recv_cq && init->cap.max_recv_wr) {
		id->recv_cq_channel = ibv_create_comp_channel(id->verbs);
		if (id->recv_cq_channel)
			id->recv_cq = ibv_create_cq(id->verbs, (int)init->cap.max_recv_wr, id,
						    id->recv_cq_channel, 0);
		if (!id->recv_cq)
			return errno;
	}
	if (!init->send_cq && init->cap.max_send_wr) {
		id->send_cq_channel = ibv_create_comp_channel(id->verbs);
		if (id->send_cq_channel)
			id->send_cq = ibv_create_cq(id->verbs, (int)init->cap.max_send_wr, id,
						    id->send_cq_channel, 0);
		if (!id->send_cq)
			return errno;
	}
	if (!init->recv_cq)
		init->recv_cq = id->recv_cq;
	if (!init->send_cq)
		init->send_cq = id->send_cq;
	return 0;
}

DBL_API int rdma_create_qp(struct rdma_cm_id *ibv, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct cm_id *id = cm_id(ibv);
	int rc;

	if (ibv->qp || !ibv->verbs || (pd && pd->context != ibv->verbs))
		return cm_return(EINVAL);
	rc = create_cqs(ibv, init);
	if (rc == 0) {
		ibv->qp = ibv_create_qp(pd ? pd : ibv->pd, init);
		rc = ibv->qp ? 0 : errno;
	}
	if (rc == 0)
		rc = move(id, IBV_QPS_INIT);
	if (rc) {
		if (ibv->qp)
			ibv_destroy_qp(ibv->qp);
		ibv->qp = NULL;
		destroy_cqs(ibv);
		return cm_return(rc);
	}
	ibv->pd = ibv->qp->pd;
	return 0;
}

DBL_API int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *init)
{
	if (init->comp_mask & ~(uint32_t)IBV_QP_INIT_ATTR_PD)
		return cm_return(EOPNOTSUPP);
	return rdma_create_qp(id, init->comp_mask ? init->pd : NULL,
			      (struct ibv_qp_init_attr *)init);
}

DBL_API void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_cqs(id);
}

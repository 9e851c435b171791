/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "device.h"
#include "engine.h"
#include "fabric.h"
#include "fault.h"
#include "resource.h"
#include "transport.h"

/*
 * ibv_modify_qp(): which attributes each transition of an RC QP needs and takes (IB specification
 * 11.2.5.2, as ibv_modify_qp(3) lists them). A transition that isn't here is refused.
 */
struct transition {
	enum ibv_qp_state from, to;
	int need, take;
};

#define COMMON (IBV_QP_STATE | IBV_QP_CUR_STATE)
#define INIT_NEED (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_NEED                                                                                   \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                           \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_NEED                                                                                   \
	(IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |           \
	 IBV_QP_TIMEOUT)

static const struct transition rc_transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, INIT_NEED, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, INIT_NEED},
	{IBV_QPS_INIT, IBV_QPS_RTR, RTR_NEED,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS, RTS_NEED,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0,
	 IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

/* A UD QP carries nothing here, but programs may set one up. */
static const struct transition ud_transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
	{IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_QKEY},
};

static int check_mask(const struct dbl_qp *qp, enum ibv_qp_state to, int mask)
{
	bool rc = qp->ibv.qp_type == IBV_QPT_RC;
	const struct transition *table = rc ? rc_transitions : ud_transitions;
	size_t count = rc ? ARRAY_SIZE(rc_transitions) : ARRAY_SIZE(ud_transitions);

	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask & ~COMMON ? EINVAL : 0;
	for (size_t i = 0; i < count; i++) {
		const struct transition *t = &table[i];

		if (t->from != qp->attr.qp_state || t->to != to)
			continue;
		if ((mask & t->need) != t->need || (mask & ~(t->need | t->take | COMMON)))
			return EINVAL;
		return 0;
	}
	return EINVAL;
}

/*
 * iWARP: the kernel's CM moves the QP when the TCP connection is there. A program may go to INIT
 * (and pretend RTR, as librdmacm does), or give up.
 */
static int check_iwarp(const struct dbl_qp *qp, enum ibv_qp_state to)
{
	return to == IBV_QPS_RTS && qp->attr.qp_state != IBV_QPS_RTS ? EINVAL : 0;
}

static int check_init(struct dbl_qp *qp, const struct ibv_qp_attr *attr)
{
	if (!device_port(qp->device, attr->port_num) || attr->pkey_index != 0)
		return EINVAL;
	return 0;
}

/* The address vector: who is it, and may one send there from here? */
static int resolve_peer(struct dbl_qp *qp, const struct ibv_ah_attr *ah)
{
	struct state_port *port = device_port(qp->device, qp->attr.port_num);
	struct fabric_place place;
	bool found;

	if (!port)
		return EINVAL;
	if (!ah->is_global && qp->device->p->net != NET_IB)
		return EINVAL;
	if (ah->is_global) {
		if (ah->grh.sgid_index >= STATE_GIDS_MAX || !port->gids[ah->grh.sgid_index].valid)
			return EINVAL;
		found = fabric_find_gid(ah->grh.dgid.raw, &place) == 0;
	} else {
		found = fabric_find_lid(ah->dlid, &place) == 0;
	}
	/* A packet to nowhere is lost, it is not refused. */
	qp->has_peer = found;
	qp->peer_guid = found ? place.guid : 0;
	return 0;
}

static int check_rtr(struct dbl_qp *qp, const struct ibv_qp_attr *attr)
{
	struct state_port *port = device_port(qp->device, qp->attr.port_num);

	if (!port || attr->path_mtu < IBV_MTU_256 || (int)attr->path_mtu > port->mtu)
		return EINVAL;
	if (attr->min_rnr_timer > 31 || attr->max_dest_rd_atomic > 16)
		return EINVAL;
	return resolve_peer(qp, &attr->ah_attr);
}

static int check_rts(const struct ibv_qp_attr *attr)
{
	if (attr->timeout > 31 || attr->retry_cnt > 7 || attr->rnr_retry > 7 ||
	    attr->max_rd_atomic > 16)
		return EINVAL;
	return 0;
}

static int check_values(struct dbl_qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state to,
			int mask)
{
	bool connected = qp->ibv.qp_type == IBV_QPT_RC && qp->device->p->net != NET_IWARP;

	if (to == IBV_QPS_INIT && (mask & IBV_QP_PORT))
		return check_init(qp, attr);
	if (to == IBV_QPS_RTR && connected)
		return check_rtr(qp, attr);
	if (to == IBV_QPS_RTS && connected && qp->attr.qp_state == IBV_QPS_RTR)
		return check_rts(attr);
	return 0;
}

#define TAKE(flag, field)                                                                          \
	do {                                                                                       \
		if (mask & (flag))                                                                 \
			qp->attr.field = attr->field;                                              \
	} while (0)

static void take_values(struct dbl_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_QKEY, qkey);
	TAKE(IBV_QP_AV, ah_attr);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_TIMEOUT, timeout);
	if (mask & IBV_QP_RQ_PSN)
		qp->expect_psn = attr->rq_psn & 0xffffff;
	if (mask & IBV_QP_SQ_PSN)
		qp->send_psn = attr->sq_psn & 0xffffff;
}

static void enter(struct dbl_qp *qp, enum ibv_qp_state to)
{
	if (to == IBV_QPS_ERR) {
		transport_break(qp);
		return;
	}
	if (to == IBV_QPS_RESET) {
		requester_reset(qp);
		qp->sq_tail = qp->sq_next = qp->sq_head;
		qp->rq_tail = qp->rq_next = qp->rq_head;
		qp->any_received = qp->settled = qp->told = false;
	}
	qp->attr.qp_state = to;
	engine_wake();
}

static int modify(struct dbl_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->attr.qp_state;
	int rc = fault_errno("modify_qp", qp->device->desc.name);

	if (rc)
		return rc;
	if (device_check(qp->device))
		return EIO;
	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->attr.qp_state)
		return EINVAL;
	if (qp->device->p->net == NET_IWARP)
		rc = check_iwarp(qp, to);
	else
		rc = check_mask(qp, to, mask);
	if (rc == 0)
		rc = check_values(qp, attr, to, mask);
	if (rc)
		return rc;
	take_values(qp, attr, mask);
	if (mask & IBV_QP_STATE)
		enter(qp, to);
	return 0;
}

DBL_API int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask)
{
	struct dbl_qp *qp = dbl_qp(ibv);
	int rc;

	pthread_mutex_lock(&dbl_lock);
	device_refresh();
	rc = modify(qp, attr, attr_mask);
	if (rc == 0)
		ibv->state = qp->attr.qp_state;
	pthread_mutex_unlock(&dbl_lock);
	return rc;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "conn.h"
#include "cq.h"
#include "device.h"
#include "engine.h"
#include "fabric.h"
#include "fault.h"
#include "resource.h"
#include "transport.h"

/* What is wrong with the request itself, whatever the send queue's size. */
static int check_request(struct dbl_context *context, const struct ibv_qp_init_attr *init)
{
	const struct dbl_device *device = context->device;
	const struct personality *p = device->p;
	struct sizing sizing = personality_sizing(p, &device->desc);

	if (device_check(device))
		return EIO;
	if (init->srq)
		return dbl_unsupported("a QP with an SRQ");
	switch (init->qp_type) {
	case IBV_QPT_RC:
		if (p->quirks & QUIRK_NO_RC)
			return EOPNOTSUPP;
		break;
	case IBV_QPT_UD:
		break;
	case IBV_QPT_UC:
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_DRIVER:
		return EOPNOTSUPP;
	}
	if (!init->send_cq || init->send_cq->context != &context->verbs.context || !init->recv_cq ||
	    init->recv_cq->context != &context->verbs.context)
		return EINVAL;
	if (init->cap.max_send_wr > sizing.max_qp_wr || init->cap.max_recv_wr > sizing.max_qp_wr ||
	    init->cap.max_send_sge > p->max_sge || init->cap.max_recv_sge > p->max_sge)
		return EINVAL;
	/* The provider's own limit is out of reach; one that a test sets is looked after. */
	if (device->desc.max_qp != STATE_UNSET &&
	    fabric_count_qps(device->desc.guid) >= (uint32_t)device->desc.max_qp)
		return ENOMEM;
	return 0;
}

/*
 * Size the queues: 0 and the grant in @cap, an errno value, or RULE_UNTOUCHED. Faults come first,
 * since a device that is out of something doesn't look at the request.
 */
static int size_queues(const struct dbl_device *device, struct ibv_qp_cap *cap)
{
	struct sizing sizing = personality_sizing(device->p, &device->desc);
	uint32_t asked = cap->max_inline_data;
	struct fault fault;
	int rc;

	if (fault_take("create_qp", device->desc.name, asked, NULL, &fault)) {
		if (fault.has_errno)
			return fault.errno_value ? fault.errno_value : RULE_UNTOUCHED;
		if (fault.has_grant) {
			cap->max_inline_data = (uint32_t)fault.grant;
			return 0;
		}
	}
	rc = device->p->rule(&sizing, cap);
	if (rc == 0 && cap->max_send_sge > device->p->max_sge)
		cap->max_send_sge = device->p->max_sge;
	return rc;
}

/* What a post is measured by. */
static uint32_t inline_limit(const struct dbl_device *device, uint32_t granted)
{
	struct sizing sizing = personality_sizing(device->p, &device->desc);

	return device->p->quirks & QUIRK_POST_CONST ? sizing.limit : granted;
}

static int alloc_queues(struct dbl_qp *qp)
{
	const struct ibv_qp_cap *cap = &qp->init.cap;
	int rc;

	qp->sq_size = cap->max_send_wr;
	qp->rq_size = cap->max_recv_wr;
	qp->sq = calloc(qp->sq_size + 1u, sizeof(*qp->sq));
	qp->rq = calloc(qp->rq_size + 1u, sizeof(*qp->rq));
	if (!qp->sq || !qp->rq)
		return ENOMEM;
	qp->pinned = personality_queue_bytes(qp->device->p, cap);
	rc = resource_pin(qp->device, qp->pinned);
	if (rc)
		qp->pinned = 0;
	return rc;
}

static void free_queues(struct dbl_qp *qp)
{
	for (uint32_t i = 0; qp->sq && i <= qp->sq_size; i++) {
		free(qp->sq[i].sges);
		free(qp->sq[i].data);
	}
	for (uint32_t i = 0; qp->rq && i <= qp->rq_size; i++)
		free(qp->rq[i].sges);
	free(qp->sq);
	free(qp->rq);
	resource_unpin(qp->pinned);
	free(qp);
}

static int name_qp(struct dbl_qp *qp)
{
	uint64_t guid = qp->device->desc.guid;
	int rc = fabric_take_qpn(guid, &qp->ibv.qp_num);

	if (rc == 0)
		rc = fabric_publish_qp(guid, qp->ibv.qp_num, engine_socket());
	return -rc;
}

static void fill_qp(struct dbl_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
	struct dbl_context *context = dbl_context(pd->context);

	qp->ibv.context = pd->context;
	qp->ibv.qp_context = init->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = init->send_cq;
	qp->ibv.recv_cq = init->recv_cq;
	qp->ibv.handle = context->next_handle++;
	qp->ibv.qp_type = init->qp_type;
	qp->ibv.state = IBV_QPS_RESET;
	qp->attr.qp_state = IBV_QPS_RESET;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	context->qps++;
	((struct dbl_pd *)pd)->users++;
	dbl_cq(init->send_cq)->users++;
	dbl_cq(init->recv_cq)->users++;
	list_push_back(&resource_qps, &qp->link);
}

/* 0, errno value, or RULE_UNTOUCHED. */
static int build(struct dbl_qp *qp, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct dbl_context *context = dbl_context(pd->context);
	struct ibv_qp_cap cap = init->cap;
	int rc = check_request(context, init);

	if (rc == 0)
		rc = size_queues(context->device, &cap);
	if (rc)
		return rc;
	qp->device = context->device;
	qp->init = *init;
	qp->init.cap = cap;
	qp->inline_limit = inline_limit(context->device, cap.max_inline_data);
	rc = alloc_queues(qp);
	if (rc == 0)
		rc = name_qp(qp);
	if (rc)
		return rc;
	fill_qp(qp, pd, init);
	/* As libibverbs does: the grant replaces the request. */
	init->cap = cap;
	return 0;
}

DBL_API struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	int saved = errno, rc = ENOMEM;
	struct dbl_qp *qp = calloc(1, sizeof(*qp));

	pthread_mutex_lock(&dbl_lock);
	if (qp)
		rc = build(qp, pd, init);
	if (rc && qp)
		free_queues(qp);
	pthread_mutex_unlock(&dbl_lock);
	errno = rc > 0 ? rc : saved;
	return rc ? NULL : &qp->ibv;
}

DBL_API int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct dbl_qp *qp = dbl_qp(ibv);
	struct dbl_cq *send = dbl_cq(ibv->send_cq), *recv = dbl_cq(ibv->recv_cq);
	unsigned reported;

	pthread_mutex_lock(&dbl_lock);
	if (transport_is_iwarp(qp) && qp->attr.qp_state == IBV_QPS_RTS)
		transport_terminate(qp);
	requester_reset(qp);
	list_unlink(&qp->link);
	fabric_forget_qp(qp->device->desc.guid, ibv->qp_num);
	cq_forget_qp(send, qp);
	cq_forget_qp(recv, qp);
	async_discard_qp(qp);
	reported = qp->async_reported;
	send->users--;
	recv->users--;
	((struct dbl_pd *)ibv->pd)->users--;
	dbl_context(ibv->context)->qps--;
	pthread_mutex_unlock(&dbl_lock);
	/* As the real one: waits for all events that were read to be acknowledged. */
	pthread_mutex_lock(&ibv->mutex);
	while (ibv->events_completed != reported)
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_lock(&dbl_lock);
	free_queues(qp);
	pthread_mutex_unlock(&dbl_lock);
	return 0;
}

DBL_API int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask,
			 struct ibv_qp_init_attr *init)
{
	struct dbl_qp *qp = dbl_qp(ibv);
	int rc;

	(void)attr_mask;
	pthread_mutex_lock(&dbl_lock);
	rc = device_check(qp->device);
	if (rc == 0) {
		*attr = qp->attr;
		attr->cur_qp_state = attr->qp_state;
		attr->cap = qp->init.cap;
		if (qp->device->p->quirks & QUIRK_QUERY_CONST)
			attr->cap.max_inline_data = qp->device->p->limit;
		*init = qp->init;
		init->cap = attr->cap;
		ibv->state = attr->qp_state;
	}
	pthread_mutex_unlock(&dbl_lock);
	return rc;
}

DBL_API int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}

/* No extended QPs: NULL sends programs to ibv_post_send(). */
DBL_API struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return NULL;
}

DBL_API int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	memset(ece, 0, sizeof(*ece));
	return EOPNOTSUPP;
}

DBL_API int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	return ece->vendor_id ? EOPNOTSUPP : 0;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "engine.h"
#include "fault.h"
#include "ops.h"
#include "transport.h"

/* Bytes of an MTU as verbs numbers it. */
static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

static uint64_t total_length(const struct ibv_sge *sges, int count)
{
	uint64_t length = 0;

	for (int i = 0; i < count; i++)
		length += sges[i].length;
	return length;
}

static int check_opcode(const struct dbl_qp *qp, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_RDMA_WRITE:
		return 0;
	case IBV_WR_RDMA_READ:
		return wr->send_flags & IBV_SEND_INLINE ? EINVAL : 0;
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return qp->device->p->quirks & QUIRK_NO_IMM ? EINVAL : 0;
	default:
		break;
	}
	return dbl_unsupported("this work request opcode");
}

/* Providers' checks of an inline post; the sign of the result is theirs. */
static int check_inline(const struct dbl_qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
	const struct personality *p = qp->device->p;

	if (!(wr->send_flags & IBV_SEND_INLINE) || (p->quirks & QUIRK_INLINE_IGNORED))
		return 0;
	if (length > qp->inline_limit)
		return p->oversize;
	if ((p->quirks & QUIRK_INLINE_MTU) && length > mtu_bytes(qp->attr.path_mtu))
		return EINVAL;
	return 0;
}

static int check_send(const struct dbl_qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
	int rc;

	if (qp->ibv.qp_type != IBV_QPT_RC)
		return dbl_unsupported("posting to a QP that isn't RC");
	if (qp->attr.qp_state < IBV_QPS_RTS)
		return EINVAL;
	rc = check_opcode(qp, wr);
	if (rc)
		return rc;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->init.cap.max_send_sge)
		return EINVAL;
	rc = check_inline(qp, wr, length);
	if (rc)
		return rc;
	if (length > WIRE_PAYLOAD_MAX)
		return EINVAL;
	return qp->sq_head - qp->sq_tail >= qp->sq_size ? ENOMEM : 0;
}

/* The bytes of an inline request, as they are now. */
static void *gather_inline(const struct ibv_send_wr *wr, uint64_t length)
{
	uint8_t *data = malloc(length + 1);
	size_t at = 0;

	for (int i = 0; data && i < wr->num_sge; i++) {
		memcpy(data + at, (const void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		at += wr->sg_list[i].length;
	}
	return data;
}

static int copy_sges(struct ibv_sge **ret_sges, const struct ibv_sge *sges, int count)
{
	struct ibv_sge *copy = malloc(((size_t)count + 1) * sizeof(*copy));

	if (!copy)
		return ENOMEM;
	if (count)
		memcpy(copy, sges, (size_t)count * sizeof(*copy));
	free(*ret_sges);
	*ret_sges = copy;
	return 0;
}

static int queue_send(struct dbl_qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
	struct dbl_send *slot = dbl_send_slot(qp, qp->sq_head);
	bool by_value = (wr->send_flags & IBV_SEND_INLINE) &&
			!(qp->device->p->quirks & QUIRK_INLINE_IGNORED);

	if (copy_sges(&slot->sges, wr->sg_list, wr->num_sge))
		return ENOMEM;
	free(slot->data);
	slot->data = by_value ? gather_inline(wr, length) : NULL;
	if (by_value && !slot->data)
		return ENOMEM;
	slot->wr_id = wr->wr_id;
	slot->opcode = wr->opcode;
	slot->flags = wr->send_flags;
	slot->imm = wr->imm_data;
	slot->sge_count = (unsigned)wr->num_sge;
	slot->length = (uint32_t)length;
	slot->remote_addr = wr->wr.rdma.remote_addr;
	slot->rkey = wr->wr.rdma.rkey;
	qp->sq_head++;
	return 0;
}

/* Providers whose posts return negative errors do so for all of them. */
static int with_sign(const struct dbl_qp *qp, int error)
{
	return qp->device->p->oversize < 0 && error > 0 ? -error : error;
}

static int post_one_send(struct dbl_qp *qp, const struct ibv_send_wr *wr)
{
	uint64_t length = total_length(wr->sg_list, wr->num_sge);
	struct fault fault;
	int rc;

	if (fault_take("post_send", qp->device->desc.name, length, NULL, &fault))
		return (int)fault.value;
	rc = check_send(qp, wr, length);
	return with_sign(qp, rc ? rc : queue_send(qp, wr, length));
}

int dbl_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct dbl_qp *qp = dbl_qp(ibv);
	int rc = 0;

	pthread_mutex_lock(&dbl_lock);
	for (; wr; wr = wr->next) {
		rc = post_one_send(qp, wr);
		if (rc) {
			*bad_wr = wr;
			break;
		}
	}
	engine_wake();
	pthread_mutex_unlock(&dbl_lock);
	return rc;
}

static int post_one_recv(struct dbl_qp *qp, const struct ibv_recv_wr *wr)
{
	struct dbl_recv *slot;
	struct fault fault;

	if (fault_take("post_recv", qp->device->desc.name, 0, NULL, &fault))
		return (int)fault.value;
	if (qp->attr.qp_state == IBV_QPS_RESET)
		return with_sign(qp, EINVAL);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->init.cap.max_recv_sge)
		return with_sign(qp, EINVAL);
	if (qp->rq_head - qp->rq_tail >= qp->rq_size)
		return with_sign(qp, ENOMEM);
	slot = dbl_recv_slot(qp, qp->rq_head);
	if (copy_sges(&slot->sges, wr->sg_list, wr->num_sge))
		return with_sign(qp, ENOMEM);
	slot->wr_id = wr->wr_id;
	slot->sge_count = (unsigned)wr->num_sge;
	qp->rq_head++;
	return 0;
}

int dbl_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct dbl_qp *qp = dbl_qp(ibv);
	int rc = 0;

	pthread_mutex_lock(&dbl_lock);
	for (; wr; wr = wr->next) {
		rc = post_one_recv(qp, wr);
		if (rc) {
			*bad_wr = wr;
			break;
		}
	}
	/* In ERR they are to be flushed. */
	if (qp->attr.qp_state == IBV_QPS_ERR)
		engine_wake();
	pthread_mutex_unlock(&dbl_lock);
	return rc;
}

/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "async.h"
#include "conn.h"
#include "cq.h"
#include "device.h"
#include "engine.h"
#include "fault.h"
#include "resource.h"
#include "transport.h"

/*
 * The receiving half of a QP: checks a request as the hardware does, carries it out in this
 * process's memory, and answers. What doesn't concern a QP that is ready gets no answer at all.
 */

/* Not an answer: the request is swallowed. */
#define WIRE_SILENCE 99u

static void answer(struct conn *conn, const struct dbl_qp *qp, struct wire *reply,
		   const uint8_t *payload)
{
	struct fault fault;

	reply->magic = WIRE_MAGIC;
	reply->type = WIRE_ACK;
	reply->dst_guid = qp->peer_guid;
	reply->src_guid = qp->device->desc.guid;
	reply->dst_qpn = qp->attr.dest_qp_num;
	reply->src_qpn = qp->ibv.qp_num;
	reply->rnr_timer = qp->attr.min_rnr_timer;
	if (fault_take("ack", qp->device->desc.name, 0, NULL, &fault) && fault.action == FAULT_DROP)
		return;
	conn_send(conn, reply, payload);
}

/* Complete the receive at the head of the queue. */
static void complete_recv(struct dbl_qp *qp, const struct wire *wire, enum ibv_wc_status status)
{
	const struct dbl_recv *slot = dbl_recv_slot(qp, qp->rq_next);
	bool written = wire->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool has_imm = written || wire->opcode == IBV_WR_SEND_WITH_IMM;
	struct dbl_wc wc = {
		.wc = {.wr_id = slot->wr_id,
		       .status = status,
		       .opcode = written ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		       .byte_len = wire->length,
		       .qp_num = qp->ibv.qp_num,
		       .src_qp = wire->src_qpn,
		       .vendor_err = status == IBV_WC_SUCCESS ? 0 : 0x80u + (uint32_t)status},
		.qp = qp,
		.solicited = wire->solicited,
	};

	if (has_imm) {
		wc.wc.imm_data = wire->imm;
		wc.wc.wc_flags = IBV_WC_WITH_IMM;
	}
	wc.slot = ++qp->rq_next;
	cq_push(dbl_cq(qp->ibv.recv_cq), &wc);
}

/* Spread a message over the posted receive. A status of that receive. */
static enum ibv_wc_status scatter(struct dbl_qp *qp, const uint8_t *payload, uint32_t length)
{
	const struct dbl_recv *slot = dbl_recv_slot(qp, qp->rq_next);

	for (unsigned i = 0; i < slot->sge_count && length; i++) {
		const struct ibv_sge *sge = &slot->sges[i];
		uint32_t part = sge->length < length ? sge->length : length;
		void *to;

		if (part == 0)
			continue;
		to = resource_local(qp->ibv.pd, sge->lkey, sge->addr, part, IBV_ACCESS_LOCAL_WRITE);
		if (!to)
			return IBV_WC_LOC_PROT_ERR;
		memcpy(to, payload, part);
		payload += part;
		length -= part;
	}
	return length ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

static uint32_t take_send(struct dbl_qp *qp, const struct wire *wire, const uint8_t *payload)
{
	enum ibv_wc_status status;

	if (qp->rq_next == qp->rq_head)
		return WIRE_RNR;
	/* Half a message never becomes a receive. */
	if (wire->payload != wire->length)
		return WIRE_SILENCE;
	status = scatter(qp, payload, wire->length);
	if (status != IBV_WC_SUCCESS && (qp->device->p->quirks & QUIRK_RXE_ERRORS))
		status = IBV_WC_LOC_QP_OP_ERR;
	complete_recv(qp, wire, status);
	if (status == IBV_WC_SUCCESS)
		return WIRE_OK;
	transport_break(qp);
	return status == IBV_WC_LOC_LEN_ERR ? WIRE_INVALID : WIRE_OPERATION;
}

/* Where a peer wants to write or read, if it may. Nothing is nowhere, and always allowed. */
static bool remote(struct dbl_qp *qp, const struct wire *wire, unsigned access, void **ret_to)
{
	*ret_to = NULL;
	if (wire->length == 0)
		return true;
	/* iWARP: the region's rights alone count, since nobody asks the QP's. */
	if (!(qp->attr.qp_access_flags & access) && !transport_is_iwarp(qp))
		return false;
	*ret_to = resource_remote(qp->ibv.pd, wire->rkey, wire->remote_addr, wire->length, access);
	return *ret_to != NULL;
}

static uint32_t refuse_access(struct dbl_qp *qp)
{
	async_raise_qp(qp, IBV_EVENT_QP_ACCESS_ERR);
	transport_break(qp);
	return WIRE_ACCESS;
}

static uint32_t take_write(struct dbl_qp *qp, const struct wire *wire, const uint8_t *payload)
{
	bool has_imm = wire->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	void *to;

	if (!remote(qp, wire, IBV_ACCESS_REMOTE_WRITE, &to))
		return refuse_access(qp);
	if (has_imm && qp->rq_next == qp->rq_head)
		return WIRE_RNR;
	if (wire->payload > wire->length)
		return WIRE_SILENCE;
	if (wire->payload)
		memcpy(to, payload, wire->payload);
	if (wire->payload < wire->length)
		return WIRE_SILENCE;
	if (has_imm)
		complete_recv(qp, wire, IBV_WC_SUCCESS);
	return WIRE_OK;
}

static uint32_t take_read(struct dbl_qp *qp, const struct wire *wire, struct wire *reply,
			  const uint8_t **ret_data)
{
	void *from;

	if (!remote(qp, wire, IBV_ACCESS_REMOTE_READ, &from))
		return refuse_access(qp);
	reply->payload = wire->length;
	*ret_data = from;
	return WIRE_OK;
}

/* iWARP: the stream ends, which the other end learns wherever it is. */
void transport_terminate(struct dbl_qp *qp)
{
	const struct wire wire = {
		.magic = WIRE_MAGIC,
		.type = WIRE_TERMINATE,
		.dst_guid = qp->peer_guid,
		.src_guid = qp->device->desc.guid,
		.dst_qpn = qp->attr.dest_qp_num,
		.src_qpn = qp->ibv.qp_num,
	};
	char socket[FABRIC_SOCKET_MAX];
	struct conn *conn = NULL;

	/* Within a process at once: no request may slip in between. */
	if (resource_qp(qp->peer_guid, qp->attr.dest_qp_num))
		transport_terminated(&wire);
	else if (fabric_find_qp(qp->peer_guid, qp->attr.dest_qp_num, socket) == 0)
		conn = conn_get(socket);
	if (conn)
		conn_send(conn, &wire, NULL);
	conn_put(conn);
}

static uint32_t carry_out(struct dbl_qp *qp, const struct wire *wire, const uint8_t *payload,
			  struct wire *reply, const uint8_t **ret_data)
{
	switch (wire->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return take_send(qp, wire, payload);
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return take_write(qp, wire, payload);
	case IBV_WR_RDMA_READ:
		return take_read(qp, wire, reply, ret_data);
	default:
		return WIRE_INVALID;
	}
}

/* The QP that a request is for, if it is connected to the sender and its port is up. */
static struct dbl_qp *addressee(const struct wire *wire)
{
	struct dbl_qp *qp = resource_qp(wire->dst_guid, wire->dst_qpn);

	if (!qp || qp->attr.qp_state < IBV_QPS_RTR || qp->attr.qp_state > IBV_QPS_SQD)
		return NULL;
	if (qp->peer_guid != wire->src_guid || qp->attr.dest_qp_num != wire->src_qpn)
		return NULL;
	return device_port_is_up(qp->device, qp->attr.port_num) ? qp : NULL;
}

void responder_take(struct conn *conn, const struct wire *wire, const uint8_t *payload)
{
	struct dbl_qp *qp = addressee(wire);
	struct wire reply = {.psn = wire->psn, .status = WIRE_OK};
	const uint8_t *data = NULL;
	bool repeated;

	if (!qp)
		return;
	repeated = qp->any_received && ((wire->psn + 1) & 0xffffff) == qp->expect_psn;
	if (wire->psn != qp->expect_psn && !repeated)
		return;
	if (!qp->any_received && qp->attr.qp_state == IBV_QPS_RTR)
		async_raise_qp(qp, IBV_EVENT_COMM_EST);
	/* A repeated request was carried out, but its answer lost. A READ is carried out again. */
	if (!repeated || wire->opcode == IBV_WR_RDMA_READ)
		reply.status = carry_out(qp, wire, payload, &reply, &data);
	if (reply.status == WIRE_SILENCE)
		return;
	/* iWARP has no answers to give: what is wrong ends the connection. */
	if (reply.status != WIRE_OK && transport_is_iwarp(qp)) {
		transport_terminate(qp);
		transport_break(qp);
		return;
	}
	if (reply.status != WIRE_OK)
		reply.payload = 0;
	if (reply.status == WIRE_OK && !repeated) {
		qp->expect_psn = (qp->expect_psn + 1) & 0xffffff;
		qp->any_received = true;
	}
	answer(conn, qp, &reply, data);
	engine_wake();
}

void transport_terminated(const struct wire *wire)
{
	struct dbl_qp *qp = resource_qp(wire->dst_guid, wire->dst_qpn);

	if (qp && qp->peer_guid == wire->src_guid && qp->attr.dest_qp_num == wire->src_qpn)
		transport_break(qp);
}

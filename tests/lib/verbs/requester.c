/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "cm_hooks.h"
#include "conn.h"
#include "cq.h"
#include "device.h"
#include "engine.h"
#include "fault.h"
#include "resource.h"
#include "transport.h"

/*
 * The sending half of a QP. One request is on its way at a time: `sq_next` is its count; what lies
 * before it is completed, what lies behind has not been looked at.
 */

/* iWARP: TCP repeats without end; how often is a matter of the stack. Chosen: soon. */
#define IWARP_REPEAT_NS 100000000u

/* What no program may read of a failed completion; so it does not look sensible. */
#define OPCODE_UNDEFINED 0x7f
#define LENGTH_UNDEFINED 0xdeadbeefu

/* Local ACK timeout: 4.096 µs × 2^timeout; 0 is never. */
static uint64_t ack_timeout_ns(const struct dbl_qp *qp)
{
	if (transport_is_iwarp(qp))
		return IWARP_REPEAT_NS;
	return qp->attr.timeout ? 4096ull << qp->attr.timeout : 0;
}

/* The RNR NAK timer field in units of 10 µs (IB specification, table 45). */
static uint64_t rnr_timer_ns(uint32_t field)
{
	static const uint32_t units[32] = {65536, 1,	2,    3,     4,	    6,	   8,	  12,
					   16,	  24,	32,   48,    64,    96,	   128,	  192,
					   256,	  384,	512,  768,   1024,  1536,  2048,  3072,
					   4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

	return (uint64_t)units[field & 31] * 10000;
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	default:
		return IBV_WC_SEND;
	}
}

/* Complete request `sq_next` and go on to the following one. */
static void complete(struct dbl_qp *qp, enum ibv_wc_status status)
{
	struct dbl_send *wqe = dbl_send_slot(qp, qp->sq_next);
	bool good = status == IBV_WC_SUCCESS, notify;
	struct dbl_wc wc = {
		.wc = {.wr_id = wqe->wr_id, .status = status, .qp_num = qp->ibv.qp_num},
		.qp = qp,
		.send = true,
	};

	notify = !good || qp->init.sq_sig_all || (wqe->flags & IBV_SEND_SIGNALED);
	wc.wc.opcode = good ? wc_opcode(wqe->opcode) : (enum ibv_wc_opcode)OPCODE_UNDEFINED;
	wc.wc.byte_len = good ? wqe->length : LENGTH_UNDEFINED;
	wc.wc.vendor_err = good ? 0 : 0x80u + (uint32_t)status;
	wc.slot = ++qp->sq_next;
	qp->completed_early = false;
	free(wqe->data);
	wqe->data = NULL;
	if (notify)
		cq_push(dbl_cq(qp->ibv.send_cq), &wc);
}

void transport_break(struct dbl_qp *qp)
{
	if (qp->attr.qp_state == IBV_QPS_ERR || qp->attr.qp_state == IBV_QPS_RESET)
		return;
	qp->attr.qp_state = IBV_QPS_ERR;
	qp->wait = WAIT_NOTHING;
	engine_wake();
}

/* The request failed: it completes so, unless it has completed already; the QP is in ERR. */
static void fail(struct dbl_qp *qp, enum ibv_wc_status status)
{
	qp->wait = WAIT_NOTHING;
	transport_break(qp);
	if (!qp->completed_early)
		complete(qp, status);
}

void requester_reset(struct dbl_qp *qp)
{
	qp->wait = WAIT_NOTHING;
	qp->completed_early = false;
	conn_put(qp->conn);
	qp->conn = NULL;
}

/* The bytes of a request by reference, read now. NULL: a key, a right or a bound is wrong. */
static uint8_t *gather(const struct dbl_qp *qp, const struct dbl_send *wqe)
{
	uint8_t *data = malloc(wqe->length + 1u);
	size_t at = 0;

	for (unsigned i = 0; data && i < wqe->sge_count; i++) {
		const struct ibv_sge *sge = &wqe->sges[i];
		const void *from;

		if (sge->length == 0)
			continue;
		from = resource_local(qp->ibv.pd, sge->lkey, sge->addr, sge->length, 0);
		if (!from) {
			free(data);
			return NULL;
		}
		memcpy(data + at, from, sge->length);
		at += sge->length;
	}
	return data;
}

/* Whether anything can leave here: the port is up, and the QP's own GID still there. */
static bool can_leave(struct dbl_qp *qp)
{
	unsigned num = qp->attr.port_num;
	const struct state_port *port = device_port(qp->device, num);

	if (!device_port_is_up(qp->device, num))
		return false;
	return transport_is_iwarp(qp) || !qp->attr.ah_attr.is_global ||
	       port->gids[qp->attr.ah_attr.grh.sgid_index].valid;
}

/* A stream to the process of the other QP, or NULL: then what is sent is lost. */
static struct conn *stream(struct dbl_qp *qp)
{
	char socket[FABRIC_SOCKET_MAX];

	if (!qp->conn && qp->has_peer &&
	    fabric_find_qp(qp->peer_guid, qp->attr.dest_qp_num, socket) == 0)
		qp->conn = conn_get(socket);
	return qp->conn;
}

static void put_on_wire(struct dbl_qp *qp, const struct dbl_send *wqe, const uint8_t *data,
			uint32_t payload)
{
	const struct wire wire = {
		.magic = WIRE_MAGIC,
		.type = WIRE_REQUEST,
		.dst_guid = qp->peer_guid,
		.src_guid = qp->device->desc.guid,
		.dst_qpn = qp->attr.dest_qp_num,
		.src_qpn = qp->ibv.qp_num,
		.psn = qp->send_psn,
		.opcode = wqe->opcode,
		.imm = wqe->imm,
		.remote_addr = wqe->remote_addr,
		.rkey = wqe->rkey,
		.length = wqe->length,
		.solicited = wqe->flags & IBV_SEND_SOLICITED ? 1 : 0,
		.payload = payload,
	};

	if (!can_leave(qp) || !stream(qp))
		return;
	if (conn_send(qp->conn, &wire, data) < 0) {
		conn_put(qp->conn);
		qp->conn = NULL;
	}
}

static void wait_for(struct dbl_qp *qp, enum dbl_wait wait, uint64_t now_ns, uint64_t after_ns)
{
	qp->wait = wait;
	qp->deadline_ns = after_ns ? now_ns + after_ns : 0;
}

/* What an injected fault does to a message; true if the message is dealt with. */
static bool suffer(struct dbl_qp *qp, const struct fault *fault, uint64_t now_ns)
{
	switch (fault->action) {
	case FAULT_DROP:
		wait_for(qp, WAIT_ACK, now_ns, ack_timeout_ns(qp));
		return true;
	case FAULT_DELAY:
		wait_for(qp, WAIT_DELAY, now_ns, (uint64_t)fault->ms * 1000000u);
		return true;
	case FAULT_FLUSH:
		fail(qp, IBV_WC_WR_FLUSH_ERR);
		return true;
	case FAULT_ERROR:
		fail(qp, (enum ibv_wc_status)fault->status);
		return true;
	case FAULT_NONE:
	case FAULT_PARTIAL:
		break;
	}
	return false;
}

/* A key, right or bound of the program's own is wrong. */
static enum ibv_wc_status bad_key_status(const struct dbl_qp *qp)
{
	if (qp->device->p->quirks & QUIRK_RXE_ERRORS)
		return IBV_WC_WR_FLUSH_ERR;
	if (qp->device->p->quirks & QUIRK_SIW_ERRORS)
		return IBV_WC_LOC_QP_OP_ERR;
	return IBV_WC_LOC_PROT_ERR;
}

/* Send request `sq_next`, for the first time or again. */
static void transmit(struct dbl_qp *qp, uint64_t now_ns, bool may_suffer)
{
	struct dbl_send *wqe = dbl_send_slot(qp, qp->sq_next);
	bool reads = wqe->opcode == IBV_WR_RDMA_READ, partial = false;
	uint8_t *data = wqe->data;
	struct fault fault;

	if (qp->must_listen && !qp->any_received) {
		fprintf(stderr, "verbs double: iWARP QP %u spoke before its dialler did\n",
			qp->ibv.qp_num);
		fail(qp, IBV_WC_FATAL_ERR);
		return;
	}
	if (may_suffer && fault_take("send", qp->device->desc.name, wqe->length, NULL, &fault)) {
		if (suffer(qp, &fault, now_ns))
			return;
		partial = fault.action == FAULT_PARTIAL;
	}
	if (!can_leave(qp) && (qp->device->p->quirks & QUIRK_LOCAL_DOWN_FLUSH)) {
		fail(qp, IBV_WC_WR_FLUSH_ERR);
		return;
	}
	if (!data && !reads)
		data = gather(qp, wqe);
	if (!data && !reads) {
		fail(qp, bad_key_status(qp));
		return;
	}
	put_on_wire(qp, wqe, data, reads ? 0 : partial ? wqe->length / 2 : wqe->length);
	/* TCP has a copy of its own, and the program may reuse its memory. */
	if (qp->device->p->quirks & QUIRK_EARLY_COMPLETION)
		wqe->data = data;
	if (data != wqe->data)
		free(data);
	if (partial) {
		fail(qp, IBV_WC_FATAL_ERR);
		return;
	}
	wait_for(qp, WAIT_ACK, now_ns, ack_timeout_ns(qp));
}

/* iWARP: the request is TCP's now, and done as far as the program is concerned. */
static void complete_early(struct dbl_qp *qp)
{
	struct dbl_send *wqe = dbl_send_slot(qp, qp->sq_next);
	bool notify = qp->init.sq_sig_all || (wqe->flags & IBV_SEND_SIGNALED);
	struct dbl_wc wc = {
		.wc = {.wr_id = wqe->wr_id,
		       .status = IBV_WC_SUCCESS,
		       .opcode = wc_opcode(wqe->opcode),
		       .byte_len = wqe->length,
		       .qp_num = qp->ibv.qp_num},
		.qp = qp,
		.send = true,
		.slot = qp->sq_next + 1,
	};

	if (qp->completed_early || wqe->opcode == IBV_WR_RDMA_READ)
		return;
	qp->completed_early = true;
	if (notify)
		cq_push(dbl_cq(qp->ibv.send_cq), &wc);
}

/* The deadline of what is on its way has passed. */
static void expire(struct dbl_qp *qp, uint64_t now_ns)
{
	bool forever = transport_is_iwarp(qp) ||
		       (qp->attr.retry_cnt == 7 && (qp->device->p->quirks & QUIRK_RETRY7_FOREVER));

	if (qp->wait != WAIT_ACK) {
		transmit(qp, now_ns, false);
		return;
	}
	if (!forever && qp->retries >= qp->attr.retry_cnt) {
		fail(qp, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	qp->retries++;
	/* The other process may have gone and another have come. */
	conn_put(qp->conn);
	qp->conn = NULL;
	transmit(qp, now_ns, true);
}

static void flush(struct dbl_qp *qp)
{
	bool late = qp->settled && (qp->device->p->quirks & QUIRK_NO_LATE_FLUSH);

	while (!late && qp->rq_next != qp->rq_head) {
		struct dbl_wc wc = {
			.wc = {.wr_id = dbl_recv_slot(qp, qp->rq_next)->wr_id,
			       .status = IBV_WC_WR_FLUSH_ERR,
			       .opcode = (enum ibv_wc_opcode)OPCODE_UNDEFINED,
			       .byte_len = LENGTH_UNDEFINED,
			       .vendor_err = 0x80u + IBV_WC_WR_FLUSH_ERR,
			       .qp_num = qp->ibv.qp_num},
			.qp = qp,
			.slot = ++qp->rq_next,
		};

		cq_push(dbl_cq(qp->ibv.recv_cq), &wc);
	}
	if (qp->device->p->quirks & QUIRK_NO_FLUSH)
		return;
	while (qp->sq_next != qp->sq_head) {
		if (qp->completed_early) {
			qp->completed_early = false;
			qp->sq_next++;
			continue;
		}
		complete(qp, IBV_WC_WR_FLUSH_ERR);
	}
}

/* Returns the QP's deadline, 0 for none. */
static uint64_t run_qp(struct dbl_qp *qp, uint64_t now_ns)
{
	if (qp->broken && qp->attr.qp_state != IBV_QPS_ERR && qp->attr.qp_state != IBV_QPS_RESET) {
		async_raise_qp(qp, IBV_EVENT_QP_FATAL);
		transport_break(qp);
	}
	if (qp->attr.qp_state == IBV_QPS_ERR)
		return 0;
	if (qp->attr.qp_state != IBV_QPS_RTS && qp->attr.qp_state != IBV_QPS_SQD)
		return 0;
	if (qp->wait == WAIT_NOTHING && qp->sq_next != qp->sq_head &&
	    qp->attr.qp_state == IBV_QPS_RTS) {
		qp->retries = qp->rnr_retries = 0;
		transmit(qp, now_ns, true);
	} else if (qp->wait != WAIT_NOTHING && qp->deadline_ns && qp->deadline_ns <= now_ns) {
		expire(qp, now_ns);
	}
	if (qp->wait == WAIT_ACK && (qp->device->p->quirks & QUIRK_EARLY_COMPLETION))
		complete_early(qp);
	return qp->wait != WAIT_NOTHING ? qp->deadline_ns : 0;
}

/* A QP in ERR: flush it, also what was posted since; once, tell the CM of an iWARP one. */
static void settle(struct dbl_qp *qp)
{
	flush(qp);
	if (qp->settled)
		return;
	qp->settled = true;
	if (transport_is_iwarp(qp) && !qp->told && dbl_cm_hooks)
		dbl_cm_hooks->qp_broke(qp->device, qp->ibv.qp_num);
}

uint64_t requester_run(uint64_t now_ns)
{
	uint64_t deadline = 0;
	struct list *node;

	list_for_each (node, &resource_qps) {
		struct dbl_qp *qp = list_entry(node, struct dbl_qp, link);
		uint64_t own = run_qp(qp, now_ns);

		if (qp->attr.qp_state == IBV_QPS_ERR)
			settle(qp);
		if (own && (!deadline || own < deadline))
			deadline = own;
	}
	return deadline;
}

/* READ: spread what came over the request's own memory. False: a key or bound is wrong. */
static bool scatter_read(const struct dbl_qp *qp, const struct dbl_send *wqe,
			 const uint8_t *payload, uint32_t length)
{
	for (unsigned i = 0; i < wqe->sge_count && length; i++) {
		const struct ibv_sge *sge = &wqe->sges[i];
		uint32_t part = sge->length < length ? sge->length : length;
		void *to = resource_local(qp->ibv.pd, sge->lkey, sge->addr, part,
					  IBV_ACCESS_LOCAL_WRITE);

		if (!to)
			return false;
		memcpy(to, payload, part);
		payload += part;
		length -= part;
	}
	return length == 0;
}

static void acknowledge(struct dbl_qp *qp, const struct wire *wire, const uint8_t *payload)
{
	struct dbl_send *wqe = dbl_send_slot(qp, qp->sq_next);

	qp->wait = WAIT_NOTHING;
	if (wqe->opcode == IBV_WR_RDMA_READ && !scatter_read(qp, wqe, payload, wire->payload)) {
		fail(qp, IBV_WC_LOC_PROT_ERR);
		return;
	}
	qp->send_psn = (qp->send_psn + 1) & 0xffffff;
	if (qp->completed_early) {
		qp->completed_early = false;
		qp->sq_next++;
	} else {
		complete(qp, IBV_WC_SUCCESS);
	}
	engine_wake();
}

static void not_ready(struct dbl_qp *qp, const struct wire *wire)
{
	if (qp->attr.rnr_retry != 7 && qp->rnr_retries >= qp->attr.rnr_retry) {
		fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	qp->rnr_retries++;
	wait_for(qp, WAIT_RNR, dbl_now_ns(), rnr_timer_ns(wire->rnr_timer));
}

void requester_answered(const struct wire *wire, const uint8_t *payload)
{
	struct dbl_qp *qp = resource_qp(wire->dst_guid, wire->dst_qpn);

	if (!qp || qp->wait != WAIT_ACK || wire->psn != qp->send_psn ||
	    wire->src_qpn != qp->attr.dest_qp_num || wire->src_guid != qp->peer_guid)
		return;
	if (!device_port_is_up(qp->device, qp->attr.port_num))
		return;
	switch (wire->status) {
	case WIRE_OK:
		acknowledge(qp, wire, payload);
		break;
	case WIRE_RNR:
		not_ready(qp, wire);
		break;
	case WIRE_ACCESS:
		fail(qp, IBV_WC_REM_ACCESS_ERR);
		break;
	case WIRE_INVALID:
		fail(qp, IBV_WC_REM_INV_REQ_ERR);
		break;
	default:
		fail(qp, IBV_WC_REM_OP_ERR);
		break;
	}
}

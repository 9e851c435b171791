/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cm.h"
#include "conn.h"
#include "device.h"
#include "engine.h"
#include "fault.h"

/*
 * What two CMs say to each other, after the IB specification (12.9): REQ, REP, RTU or REJ; DREQ,
 * DREP. A message that asks for an answer is repeated until it comes. iWARP's MPA exchange is the
 * same here, but for the third message, which it lacks.
 */

static const char *kind_name(enum cm_kind kind)
{
	static const char *const names[] = {"", "req", "rep", "rtu", "rej", "dreq", "drep"};

	return names[kind];
}

/*
 * rxe: a CM message that finds no way out puts the QP of all CM traffic in ERR, and nothing brings
 * it back but another incarnation of the device. The kernel's, so it holds for all processes: the
 * mark is a file.
 */
static void broken_path(const struct dbl_device *device, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/refs/%s.%d/.cm-broken", dbl_dir(), device->desc.name,
		 device->desc.index);
}

static bool is_broken(const struct dbl_device *device)
{
	char path[PATH_MAX];

	broken_path(device, path);
	return (device->p->quirks & QUIRK_FRAGILE_CM) && access(path, F_OK) == 0;
}

static void break_cm(const struct dbl_device *device)
{
	char path[PATH_MAX];
	int fd;

	broken_path(device, path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	close(fd);
	fprintf(stderr, "verbs double: a CM message of %s while its port is down ends its CM\n",
		device->desc.name);
}

/* Whether messages of @id leave this host, or reach it. A device that goes says so itself. */
static bool can_leave(const struct cm_id *id)
{
	struct dbl_device *device = device_by_name(id->device_name);

	return !device || (device_port_is_up(device, id->port) && !is_broken(device));
}

/* Put @payload on its way. A message to nobody is lost. */
void cm_conn_transmit(struct cm_id *id, enum cm_kind kind, const struct cm_payload *payload)
{
	const struct wire wire = {
		.magic = WIRE_MAGIC,
		.type = WIRE_CM,
		.dst_guid = id->peer_guid,
		.kind = kind,
		.payload = sizeof(*payload),
	};
	struct fault fault;

	struct dbl_device *device = device_by_name(id->device_name);

	if (fault_take("cm", id->device_name, 0, kind_name(kind), &fault)) {
		if (fault.action == FAULT_DELAY)
			id->repeat_ns = dbl_now_ns() + (uint64_t)fault.ms * 1000000u;
		return;
	}
	if (!can_leave(id)) {
		if ((device->p->quirks & QUIRK_FRAGILE_CM) && !is_broken(device))
			break_cm(device);
		return;
	}
	if (!id->conn && id->peer_socket[0])
		id->conn = conn_get(id->peer_socket);
	/* If that fails, the stream is about to end, and that is what is acted upon. */
	if (id->conn)
		conn_send(id->conn, &wire, payload);
}

/* InfiniBand's messages have room of a fixed size, and all of it is delivered. */
static uint8_t delivered_bytes(const struct cm_id *id, enum cm_kind kind, uint8_t given)
{
	if (id->is_iwarp)
		return given;
	switch (kind) {
	case CM_REQ:
		return CM_REQ_PRIVATE_BYTES;
	case CM_REP:
		return CM_REP_PRIVATE_BYTES;
	case CM_REJ:
		return CM_REJ_PRIVATE_BYTES;
	default:
		return 0;
	}
}

void cm_conn_send(struct cm_id *id, enum cm_kind kind, const void *private_data,
		  uint8_t private_bytes, uint16_t status)
{
	struct cm_payload payload = {
		.dst_id = id->peer_id,
		.src_id = id->handle,
		.src_guid = id->guid,
		.src_port = id->src_port,
		.dst_port = id->dst_port,
		.status = status,
		.qpn = id->local_qpn,
		.psn = id->local_psn,
		.responder_resources = id->initiator_depth,
		.initiator_depth = id->responder_resources,
		.retry_count = id->retry_count,
		.rnr_retry = id->rnr_retry,
		.mtu = id->mtu,
		.is_iwarp = id->is_iwarp,
		.private_bytes = delivered_bytes(id, kind, private_bytes),
	};

	memcpy(payload.src_ip, id->src_ip, 16);
	memcpy(payload.dst_ip, id->dst_ip, 16);
	memcpy(payload.src_gid, id->src_gid, 16);
	memcpy(payload.socket, engine_socket(), strlen(engine_socket()) + 1);
	if (private_bytes)
		memcpy(payload.private_data, private_data, private_bytes);
	id->repeat_ns = 0;
	if (kind == CM_REQ || kind == CM_DREQ || kind == CM_REP) {
		id->sent = payload;
		id->sent_kind = kind;
	}
	if (kind == CM_REQ || kind == CM_DREQ || (kind == CM_REP && !id->is_iwarp)) {
		uint64_t now = dbl_now_ns();

		id->repeat_ns = now + CM_REPEAT_NS;
		id->give_up_ns = now + CM_GIVE_UP_NS;
	}
	cm_conn_transmit(id, kind, &payload);
	engine_wake();
}

/* Both are done with each other; the event of that comes later. */
void cm_conn_enter_timewait(struct cm_id *id)
{
	id->repeat_ns = 0;
	id->state = id->is_iwarp ? CM_DONE : CM_TIMEWAIT;
	id->timer_ns = id->is_iwarp ? 0 : dbl_now_ns() + CM_TIMEWAIT_NS;
}

static void take_peer(struct cm_id *id, const struct cm_payload *from)
{
	id->peer_id = from->src_id;
	id->peer_guid = from->src_guid;
	id->remote_qpn = from->qpn;
	id->remote_psn = from->psn;
	memcpy(id->dst_gid, from->src_gid, 16);
	memcpy(id->peer_socket, from->socket, sizeof(id->peer_socket));
	id->peer_socket[sizeof(id->peer_socket) - 1] = '\0';
	if (from->mtu < id->mtu)
		id->mtu = from->mtu;
}

static struct cm_id *find_listener(const struct cm_payload *from)
{
	static const uint8_t any[16];
	struct list *node;

	list_for_each (node, &cm_ids) {
		struct cm_id *id = list_entry(node, struct cm_id, link);

		if (id->state == CM_LISTEN && id->src_port == from->dst_port &&
		    (memcmp(id->src_ip, any, 16) == 0 || memcmp(id->src_ip, from->dst_ip, 16) == 0))
			return id;
	}
	return NULL;
}

/* A request that is repeated, since its answer is late or was lost. */
static struct cm_id *find_passive(const struct cm_payload *from)
{
	struct list *node;

	list_for_each (node, &cm_ids) {
		struct cm_id *id = list_entry(node, struct cm_id, link);

		if (!id->active && id->peer_id == from->src_id)
			return id;
	}
	return NULL;
}

static struct cm_id *make_passive(struct cm_id *listener, const struct cm_payload *from,
				  const struct fabric_place *place)
{
	struct cm_id *id = cm_id_make(listener->id.channel, listener->id.context, listener->id.ps);

	if (!id)
		return NULL;
	id->listener = listener;
	listener->pending++;
	id->state = CM_REQ_RCVD;
	memcpy(id->src_ip, from->dst_ip, 16);
	id->src_port = from->dst_port;
	memcpy(id->dst_ip, from->src_ip, 16);
	id->dst_port = from->src_port;
	cm_id_take_source(id, place);
	take_peer(id, from);
	id->responder_resources = from->responder_resources;
	id->initiator_depth = from->initiator_depth;
	id->retry_count = from->retry_count;
	id->rnr_retry = from->rnr_retry;
	id->timeout_set = listener->timeout_set;
	id->ack_timeout = listener->ack_timeout;
	cm_id_fill_addresses(id);
	/* Dialled now, so that the death of the other side shows. */
	id->conn = conn_get(id->peer_socket);
	return id;
}

/* No one is there to take the request: whoever runs the device's CM says so. */
static void refuse(const struct cm_payload *from, const struct fabric_place *place)
{
	struct cm_id nobody = {.peer_id = from->src_id, .peer_guid = from->src_guid};
	struct cm_payload payload = {
		.dst_id = from->src_id,
		.status = CM_REJ_INVALID_SERVICE_ID,
		.is_iwarp = from->is_iwarp,
	};

	memcpy(nobody.device_name, place->device, sizeof(nobody.device_name));
	nobody.port = (uint8_t)place->port;
	memcpy(nobody.peer_socket, from->socket, sizeof(nobody.peer_socket));
	cm_conn_transmit(&nobody, CM_REJ, &payload);
	conn_put(nobody.conn);
}

static void take_req(const struct cm_payload *from)
{
	struct cm_id *listener = find_listener(from), *id = find_passive(from);
	struct fabric_place place;

	if (fabric_find_ip(from->dst_ip, &place) != 0 || place.facts.state != IBV_PORT_ACTIVE)
		return;
	if (id) {
		if (id->state == CM_REP_SENT || (id->state == CM_CONNECTED && id->is_iwarp))
			cm_conn_transmit(id, CM_REP, &id->sent);
		return;
	}
	if (!listener) {
		refuse(from, &place);
		return;
	}
	/* Over the backlog: no answer, so that the other side asks again. */
	if (listener->pending >= (unsigned)listener->backlog)
		return;
	id = make_passive(listener, from, &place);
	if (id)
		cm_raise(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, from);
}

static void take_rep(struct cm_id *id, const struct cm_payload *from)
{
	int rc;

	if (id->state == CM_CONNECTED && id->active) {
		/* It asks again: the last message was lost. */
		if (!id->is_iwarp)
			cm_conn_send(id, CM_RTU, NULL, 0, 0);
		return;
	}
	if (id->state != CM_REQ_SENT)
		return;
	take_peer(id, from);
	id->repeat_ns = 0;
	id->rnr_retry = from->rnr_retry;
	if (!id->is_iwarp) {
		id->state = CM_REP_RCVD;
		cm_raise(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, from);
		return;
	}
	rc = transport_connect_iwarp(id->device_name, id->local_qpn, id->peer_guid, id->remote_qpn,
				     false);
	id->state = rc ? CM_DONE : CM_CONNECTED;
	cm_raise(id, rc ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED, -rc, from);
}

static void take_rej(struct cm_id *id, const struct cm_payload *from)
{
	int status = from->status;

	if (id->state != CM_REQ_SENT && id->state != CM_REP_SENT && id->state != CM_REP_RCVD)
		return;
	id->repeat_ns = 0;
	id->state = CM_DONE;
	/* iWARP: what TCP or MPA said. */
	if (id->is_iwarp)
		status = status == CM_REJ_CONSUMER ? -ECONNRESET : -ECONNREFUSED;
	cm_raise(id, RDMA_CM_EVENT_REJECTED, status, from);
}

static void take_rtu(struct cm_id *id)
{
	if (id->state != CM_REP_SENT)
		return;
	id->repeat_ns = 0;
	id->state = CM_CONNECTED;
	cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
}

/* iWARP: the TCP connection is closed, which both ends see, and so do their QPs. */
static void close_iwarp(struct cm_id *id)
{
	transport_close_iwarp(id->device_name, id->local_qpn);
	id->state = CM_DONE;
	cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
}

static void take_dreq(struct cm_id *id)
{
	switch (id->state) {
	case CM_REP_SENT:
	case CM_CONNECTED:
		if (id->is_iwarp) {
			close_iwarp(id);
			break;
		}
		id->repeat_ns = 0;
		id->state = CM_DREQ_RCVD;
		cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		break;
	case CM_DREQ_SENT:
		/* Both at once. */
		cm_conn_send(id, CM_DREP, NULL, 0, 0);
		cm_conn_enter_timewait(id);
		cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		break;
	case CM_TIMEWAIT:
	case CM_DONE:
		cm_conn_send(id, CM_DREP, NULL, 0, 0);
		break;
	default:
		break;
	}
}

static void take_drep(struct cm_id *id)
{
	if (id->state != CM_DREQ_SENT)
		return;
	cm_conn_enter_timewait(id);
	cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
}

void cm_conn_message(const struct wire *wire, const uint8_t *bytes)
{
	struct cm_payload from;
	struct cm_id *id;

	if (wire->payload != sizeof(from))
		return;
	memcpy(&from, bytes, sizeof(from));
	if (wire->kind == CM_REQ) {
		take_req(&from);
		return;
	}
	id = cm_id_find(from.dst_id);
	if (!id || !can_leave(id))
		return;
	switch (wire->kind) {
	case CM_REP:
		take_rep(id, &from);
		break;
	case CM_RTU:
		take_rtu(id);
		break;
	case CM_REJ:
		take_rej(id, &from);
		break;
	case CM_DREQ:
		take_dreq(id);
		break;
	case CM_DREP:
		take_drep(id);
		break;
	default:
		break;
	}
}

void cm_conn_disconnect(struct cm_id *id)
{
	if (id->is_iwarp) {
		cm_conn_send(id, CM_DREQ, NULL, 0, 0);
		id->repeat_ns = 0;
		close_iwarp(id);
		return;
	}
	if (id->state == CM_DREQ_RCVD) {
		cm_conn_send(id, CM_DREP, NULL, 0, 0);
		cm_conn_enter_timewait(id);
		return;
	}
	id->state = CM_DREQ_SENT;
	cm_conn_send(id, CM_DREQ, NULL, 0, 0);
}

void cm_conn_end(struct cm_id *id)
{
	if (id->listener)
		id->listener->pending--;
	id->listener = NULL;
	switch (id->state) {
	case CM_REQ_RCVD:
	case CM_REQ_SENT:
	case CM_REP_RCVD:
		cm_conn_send(id, CM_REJ, NULL, 0, CM_REJ_CONSUMER);
		break;
	case CM_REP_SENT:
	case CM_CONNECTED:
	case CM_DREQ_SENT:
		cm_conn_send(id, CM_DREQ, NULL, 0, 0);
		if (id->is_iwarp)
			transport_close_iwarp(id->device_name, id->local_qpn);
		break;
	case CM_DREQ_RCVD:
		cm_conn_send(id, CM_DREP, NULL, 0, 0);
		break;
	default:
		break;
	}
	id->repeat_ns = 0;
	id->timer_ns = 0;
	id->state = CM_DONE;
}

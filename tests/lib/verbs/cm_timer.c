/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "cm.h"
#include "conn.h"
#include "device.h"

/*
 * What comes to the CM from elsewhere than a peer: time, and the devices.
 */

/* No answer came, however often it was asked. */
static void give_up(struct cm_id *id)
{
	id->repeat_ns = 0;
	switch (id->sent_kind) {
	case CM_REQ:
	case CM_REP:
		id->state = CM_DONE;
		cm_raise(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
		break;
	case CM_DREQ:
		cm_conn_enter_timewait(id);
		cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		break;
	default:
		break;
	}
}

static void expire(struct cm_id *id)
{
	id->timer_ns = 0;
	if (id->state == CM_ADDR_QUERY) {
		id->state = CM_BOUND;
		cm_raise(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, NULL);
	} else if (id->state == CM_TIMEWAIT) {
		id->state = CM_DONE;
		cm_raise(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
	}
}

/*
 * A neighbour that no longer answers ends no connection, but the CM tells of it every time that the
 * kernel finds out. Known here from the peer's host file.
 */
static void look_after_peer(struct cm_id *id, uint64_t now_ns)
{
	struct dbl_device *device = device_by_name(id->device_name);
	struct fabric_place place;

	if (id->state != CM_CONNECTED || !device || !(device->p->quirks & QUIRK_CM_NAGS)) {
		id->nag_ns = 0;
		return;
	}
	if (id->nag_ns > now_ns)
		return;
	if (id->nag_ns && device_port_is_up(device, id->port) &&
	    fabric_find_ip(id->dst_ip, &place) == 0 && place.facts.state != IBV_PORT_ACTIVE)
		cm_raise(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
	id->nag_ns = now_ns + CM_NAG_NS;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

static uint64_t on_run(uint64_t now_ns)
{
	uint64_t deadline = 0;
	struct list *node;

	list_for_each (node, &cm_ids) {
		struct cm_id *id = list_entry(node, struct cm_id, link);

		if (id->repeat_ns && id->repeat_ns <= now_ns) {
			if (now_ns >= id->give_up_ns) {
				give_up(id);
			} else {
				id->repeat_ns = now_ns + CM_REPEAT_NS;
				cm_conn_transmit(id, id->sent_kind, &id->sent);
			}
		}
		if (id->timer_ns && id->timer_ns <= now_ns)
			expire(id);
		look_after_peer(id, now_ns);
		deadline = earlier(deadline, earlier(id->repeat_ns, id->timer_ns));
		deadline = earlier(deadline, id->nag_ns);
	}
	return deadline;
}

static void on_device_gone(struct dbl_device *device)
{
	struct list *node;

	list_for_each (node, &cm_ids) {
		struct cm_id *id = list_entry(node, struct cm_id, link);

		if (id->guid != device->desc.guid || id->state == CM_REMOVED)
			continue;
		/* The CM takes leave of the peer before it goes. */
		if (id->state == CM_CONNECTED || id->state == CM_REP_SENT)
			cm_conn_send(id, CM_DREQ, NULL, 0, 0);
		id->repeat_ns = id->timer_ns = 0;
		id->state = CM_REMOVED;
		if (!id->listener)
			cm_raise(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
	}
}

static void on_addresses_changed(struct dbl_device *device)
{
	struct list *node;

	list_for_each (node, &cm_ids) {
		struct cm_id *id = list_entry(node, struct cm_id, link);

		if (id->guid == device->desc.guid && id->state == CM_CONNECTED)
			cm_raise(id, RDMA_CM_EVENT_ADDR_CHANGE, 0, NULL);
	}
}

/* The peer's process died; the kernel, which lives, takes leave of us in its name. */
static void lose_peer(struct cm_id *id)
{
	conn_put(id->conn);
	id->conn = NULL;
	id->repeat_ns = 0;
	switch (id->state) {
	case CM_REQ_SENT:
	case CM_REQ_RCVD:
	case CM_REP_RCVD:
		id->state = CM_DONE;
		if (!id->listener)
			cm_raise(id, RDMA_CM_EVENT_REJECTED, CM_REJ_CONSUMER, NULL);
		break;
	case CM_REP_SENT:
	case CM_CONNECTED:
	case CM_DREQ_SENT:
		if (id->is_iwarp)
			transport_close_iwarp(id->device_name, id->local_qpn);
		cm_conn_enter_timewait(id);
		cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		break;
	default:
		break;
	}
}

static void on_stream_broke(struct conn *conn)
{
	struct list *node;

	list_for_each (node, &cm_ids) {
		struct cm_id *id = list_entry(node, struct cm_id, link);

		if (id->conn == conn)
			lose_peer(id);
	}
}

static void on_qp_broke(struct dbl_device *device, uint32_t qpn)
{
	struct list *node;

	list_for_each (node, &cm_ids) {
		struct cm_id *id = list_entry(node, struct cm_id, link);

		if (id->guid == device->desc.guid && id->local_qpn == qpn &&
		    id->state == CM_CONNECTED)
			cm_conn_disconnect(id);
	}
}

const struct dbl_cm_hooks cm_conn_hooks = {
	.message = cm_conn_message,
	.run = on_run,
	.device_gone = on_device_gone,
	.addresses_changed = on_addresses_changed,
	.stream_broke = on_stream_broke,
	.qp_broke = on_qp_broke,
};

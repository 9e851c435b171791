/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "cm.h"
#include "cm_qp.h"
#include "conn.h"
#include "fault.h"

/* rdma_connect() and its answers, as far as they are the program's. */

static const struct rdma_conn_param defaults = {
	.responder_resources = RDMA_MAX_RESP_RES,
	.initiator_depth = RDMA_MAX_INIT_DEPTH,
	.retry_count = 7,
	.rnr_retry_count = 7,
};

static int check_param(const struct cm_id *id, const struct rdma_conn_param *param,
		       uint8_t private_max)
{
	if (!id->id.qp && !param)
		return EINVAL;
	if (!param)
		return 0;
	if ((param->responder_resources != RDMA_MAX_RESP_RES &&
	     param->responder_resources > CM_RD_ATOMIC_MAX) ||
	    (param->initiator_depth != RDMA_MAX_INIT_DEPTH &&
	     param->initiator_depth > CM_RD_ATOMIC_MAX))
		return EINVAL;
	if (param->private_data && param->private_data_len > private_max && !id->is_iwarp)
		return EINVAL;
	return 0;
}

static uint8_t private_bytes(const struct rdma_conn_param *param)
{
	return param->private_data ? param->private_data_len : 0;
}

/* MPA's frames hold as much for everyone; librdmacm's structures end before. */
static uint8_t request_room(const struct cm_id *id)
{
	return id->is_iwarp ? UINT8_MAX : CM_REQ_PRIVATE_BYTES;
}

static int find_peer(struct cm_id *id)
{
	struct fabric_place place;

	if (fabric_find_ip(id->dst_ip, &place) != 0)
		return -ENOENT;
	id->peer_guid = place.guid;
	if (fabric_find_cm(place.host, id->dst_ip, id->dst_port, id->peer_socket) < 0)
		return -ENOENT;
	/* A process that was killed has left its name behind. */
	id->conn = conn_get(id->peer_socket);
	return id->conn ? 0 : -ENOENT;
}

/* Nobody listens: the CM of the other host says so, at once. */
static void refused(struct cm_id *id)
{
	struct cm_payload none = {0};

	id->state = CM_DONE;
	cm_raise(id, RDMA_CM_EVENT_REJECTED,
		 id->is_iwarp ? -ECONNREFUSED : CM_REJ_INVALID_SERVICE_ID, &none);
}

static int start(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct fabric_place place;
	struct fault fault;

	if (id->state != CM_ROUTE_RESOLVED)
		return EINVAL;
	if (fault_take("connect", id->device_name, 0, NULL, &fault)) {
		if (fault.has_event)
			cm_raise(id, RDMA_CM_EVENT_CONNECT_ERROR, -fault.event_errno, NULL);
		return fault.errno_value;
	}
	id->local_qpn = id->id.qp ? id->id.qp->qp_num : param->qp_num;
	id->retry_count = param->retry_count & 7;
	id->rnr_retry = param->rnr_retry_count & 7;
	id->responder_resources = param->responder_resources == RDMA_MAX_RESP_RES
					  ? CM_RD_ATOMIC_MAX
					  : param->responder_resources;
	id->initiator_depth = param->initiator_depth == RDMA_MAX_INIT_DEPTH
				      ? CM_RD_ATOMIC_MAX
				      : param->initiator_depth;
	id->state = CM_REQ_SENT;
	if (find_peer(id) < 0 && fabric_find_ip(id->dst_ip, &place) == 0 &&
	    place.facts.state == IBV_PORT_ACTIVE) {
		refused(id);
		return 0;
	}
	cm_conn_send(id, CM_REQ, param->private_data, private_bytes(param), 0);
	return 0;
}

DBL_API int rdma_connect(struct rdma_cm_id *ibv, struct rdma_conn_param *param)
{
	struct cm_id *id = cm_id(ibv);
	int rc = check_param(id, param, request_room(id));

	if (rc)
		return cm_return(rc);
	pthread_mutex_lock(&dbl_lock);
	rc = start(id, param ? param : &defaults);
	pthread_mutex_unlock(&dbl_lock);
	return cm_return(rc);
}

/* Under dbl_lock: the answer, once the QP is ready. */
static int answer(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct fault fault;
	int rc = 0;

	if (id->state != CM_REQ_RCVD)
		return EINVAL;
	if (fault_take("accept", id->device_name, 0, NULL, &fault))
		return fault.errno_value;
	id->local_qpn = id->id.qp ? id->id.qp->qp_num : param->qp_num;
	id->rnr_retry = param->rnr_retry_count & 7;
	if (id->is_iwarp)
		rc = transport_connect_iwarp(id->device_name, id->local_qpn, id->peer_guid,
					     id->remote_qpn, true);
	if (rc)
		return rc;
	id->state = id->is_iwarp ? CM_CONNECTED : CM_REP_SENT;
	cm_conn_send(id, CM_REP, param->private_data, private_bytes(param), 0);
	if (id->is_iwarp)
		cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	return 0;
}

static void agree(struct cm_id *id, const struct rdma_conn_param *param)
{
	if (param->responder_resources != RDMA_MAX_RESP_RES)
		id->responder_resources = param->responder_resources;
	if (param->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = param->initiator_depth;
}

DBL_API int rdma_accept(struct rdma_cm_id *ibv, struct rdma_conn_param *param)
{
	struct cm_id *id = cm_id(ibv);
	int rc = check_param(id, param, CM_REP_PRIVATE_BYTES);

	if (rc)
		return cm_return(rc);
	if (!param)
		param = (struct rdma_conn_param *)&defaults;
	pthread_mutex_lock(&dbl_lock);
	agree(id, param);
	pthread_mutex_unlock(&dbl_lock);
	/* iWARP: librdmacm goes through the motions, and the kernel moves the QP. */
	if (!id->is_iwarp)
		rc = cm_qp_ready(id);
	if (rc)
		return cm_return(rc);
	pthread_mutex_lock(&dbl_lock);
	rc = answer(id, param);
	pthread_mutex_unlock(&dbl_lock);
	if (rc)
		cm_qp_to_error(id);
	return cm_return(rc);
}

static int reject(struct cm_id *id, const void *data, uint8_t bytes)
{
	int rc = EINVAL;

	if (!id->is_iwarp && bytes > CM_REJ_PRIVATE_BYTES)
		return cm_return(EINVAL);
	pthread_mutex_lock(&dbl_lock);
	if (id->state == CM_REQ_RCVD || id->state == CM_REP_RCVD) {
		cm_conn_send(id, CM_REJ, data, data ? bytes : 0, CM_REJ_CONSUMER);
		id->state = CM_DONE;
		rc = 0;
	}
	pthread_mutex_unlock(&dbl_lock);
	return cm_return(rc);
}

DBL_API int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return reject(cm_id(id), private_data, private_data_len);
}

DBL_API int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
			    uint8_t private_data_len)
{
	return reject(cm_id(id), private_data, private_data_len);
}

DBL_API int rdma_disconnect(struct rdma_cm_id *ibv)
{
	struct cm_id *id = cm_id(ibv);
	int rc = 0;

	if (!ibv->verbs)
		return cm_return(EINVAL);
	if (!id->is_iwarp)
		cm_qp_to_error(id);
	pthread_mutex_lock(&dbl_lock);
	switch (id->state) {
	case CM_CONNECTED:
	case CM_REP_SENT:
	case CM_DREQ_RCVD:
		cm_conn_disconnect(id);
		break;
	default:
		rc = EINVAL;
	}
	pthread_mutex_unlock(&dbl_lock);
	return cm_return(rc);
}

/* Nothing here waits for the event that this would tell of. */
DBL_API int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	(void)id;
	return cm_return(event == IBV_EVENT_COMM_EST ? 0 : EINVAL);
}

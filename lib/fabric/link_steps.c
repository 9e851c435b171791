/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fabric/cm_context.h"
#include "fabric/cm_park.h"
#include "fabric/link.h"
#include "os/log.h"

/*
 * The steps of a link that call librdmacm or move the queue pair; on the control thread, while the
 * loop leaves the link alone.
 */

static int modify(struct link *link, struct ibv_qp_attr *attr, int mask)
{
	int rc = ibv_modify_qp(link->qp->verbs, attr, mask);

	return rc > 0 ? -rc : rc;
}

/* To @state with the attributes that the connection manager has found. */
static int move(struct link *link, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask, rc = cm_result(rdma_init_qp_attr(link->id, &attr, &mask));

	if (rc < 0)
		return rc;
	if (mask & IBV_QP_TIMEOUT) {
		attr.timeout = LINK_ACK_TIMEOUT;
		attr.retry_cnt = LINK_RETRIES;
		attr.rnr_retry = LINK_RNR_RETRIES;
	}
	if (mask & IBV_QP_MIN_RNR_TIMER)
		attr.min_rnr_timer = LINK_RNR_TIMER;
	return modify(link, &attr, mask);
}

static int to_init(struct link *link)
{
	int rc = move(link, IBV_QPS_INIT);

	if (rc == 0 && link->ops->prepare)
		rc = link->ops->prepare(link, link->qp);
	return rc;
}

static int to_rts(struct link *link)
{
	int rc = to_init(link);

	if (rc == 0)
		rc = move(link, IBV_QPS_RTR);
	return rc < 0 ? rc : move(link, IBV_QPS_RTS);
}

static void fill_param(const struct link *link, const uint8_t *hello, struct rdma_conn_param *param)
{
	/* No RDMA READ and no atomics: nothing of ours uses them. */
	*param = (struct rdma_conn_param){
		.private_data = hello,
		.private_data_len = LINK_HELLO_BYTES,
		.retry_count = LINK_RETRIES,
		.rnr_retry_count = LINK_RNR_RETRIES,
		.qp_num = link->qp->verbs->qp_num,
	};
	/* iWARP's peer-to-peer start needs a read each way on some providers. */
	if (link->is_iwarp)
		param->initiator_depth = param->responder_resources = 1;
}

/* Of InfiniBand and RoCE; transports that have no such timeout refuse, and need none. */
static void set_ack_timeout(const struct link *link)
{
	uint8_t timeout = LINK_ACK_TIMEOUT;

	rdma_set_option(link->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			sizeof(timeout));
}

static int step_resolve(struct link *link)
{
	int rc = 0;

	if (!link->id)
		rc = cm_result(rdma_create_id(link->cm->channel, &link->id, link, RDMA_PS_TCP));
	if (rc < 0)
		return rc;
	set_ack_timeout(link);
	return cm_result(
		rdma_resolve_addr(link->id, &link->source.any, &link->target.any, LINK_RESOLVE_MS));
}

/* The address must have led to our device: the queue pair is on no other. */
static int step_route(struct link *link)
{
	if (!link->id->verbs ||
	    strcmp(ibv_get_device_name(link->id->verbs->device), link->cm->device->info.name) != 0)
		return -EXDEV;
	cm_context_note(link->id);
	return cm_result(rdma_resolve_route(link->id, LINK_ROUTE_MS));
}

static int step_connect(struct link *link)
{
	uint8_t hello[LINK_HELLO_BYTES];
	struct rdma_conn_param param;
	int rc = 0;

	link_hello_encode(&link->own, hello);
	fill_param(link, hello, &param);
	if (link->is_iwarp)
		rc = to_init(link);
	return rc < 0 ? rc : cm_result(rdma_connect(link->id, &param));
}

static int step_confirm(struct link *link)
{
	int rc = to_rts(link);

	return rc < 0 ? rc : cm_result(rdma_establish(link->id));
}

static int step_accept(struct link *link)
{
	uint8_t hello[LINK_HELLO_BYTES];
	struct rdma_conn_param param;
	int rc;

	/* Here, since this thread reads it when events come. */
	link->id->context = link;
	link_hello_encode(&link->own, hello);
	fill_param(link, hello, &param);
	set_ack_timeout(link);
	rc = link->is_iwarp ? to_init(link) : to_rts(link);
	return rc < 0 ? rc : cm_result(rdma_accept(link->id, &param));
}

/* Whether the other end knows of this connection, or will. */
static bool is_known_there(const struct link *link)
{
	return link->id && (!link->is_dialer || link->was_up || link->qp);
}

/* Nothing here may fail the end: whatever state the connection is in, the id goes, or is parked. */
static int step_close(struct link *link)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint8_t hello[LINK_HELLO_BYTES];

	link->is_parked = is_known_there(link) && cm_park(link->cm, link->id);
	if (link->is_parked)
		link->id = NULL;
	if (link->id && link->reject) {
		const struct link_hello reject = {.version = LINK_HELLO_VERSION,
						  .kind = LINK_REJECTION,
						  .reject = link->reject};

		link_hello_encode(&reject, hello);
		rdma_reject(link->id, hello, LINK_HELLO_BYTES);
	} else if (link->id) {
		rdma_disconnect(link->id);
	}
	if (link->qp)
		modify(link, &attr, IBV_QP_STATE);
	if (link->id && rdma_destroy_id(link->id))
		log_debug("%s: an id of the connection manager stays: error %d",
			  link->cm->device->info.name, errno);
	link->id = NULL;
	return 0;
}

void link_step_run(struct link *link)
{
	switch (link->step) {
	case LINK_STEP_RESOLVE:
		link->result = step_resolve(link);
		break;
	case LINK_STEP_ROUTE:
		link->result = step_route(link);
		break;
	case LINK_STEP_CONNECT:
		link->result = step_connect(link);
		break;
	case LINK_STEP_CONFIRM:
		link->result = step_confirm(link);
		break;
	case LINK_STEP_ACCEPT:
		link->result = step_accept(link);
		break;
	case LINK_STEP_CLOSE:
		link->result = step_close(link);
		break;
	case LINK_STEP_NONE:
		break;
	}
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "async.h"
#include "cm.h"
#include "cm_qp.h"
#include "engine.h"

DBL_API struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct cm_channel *channel;
	int rc = cm_devices_init();

	if (rc == 0)
		rc = -engine_hold();
	if (rc) {
		errno = rc;
		return NULL;
	}
	channel = calloc(1, sizeof(*channel));
	if (channel)
		channel->ibv.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (!channel || channel->ibv.fd < 0) {
		free(channel);
		engine_drop();
		return NULL;
	}
	list_init(&channel->events);
	pthread_mutex_lock(&dbl_lock);
	dbl_cm_hooks = &cm_conn_hooks;
	pthread_mutex_unlock(&dbl_lock);
	return &channel->ibv;
}

DBL_API void rdma_destroy_event_channel(struct rdma_event_channel *ibv)
{
	struct cm_channel *channel = (struct cm_channel *)ibv;

	close(ibv->fd);
	free(channel);
	engine_drop();
}

static void fill(struct cm_event *event, const struct cm_payload *payload)
{
	struct rdma_conn_param *conn = &event->event.param.conn;

	conn->responder_resources = payload->responder_resources;
	conn->initiator_depth = payload->initiator_depth;
	conn->flow_control = payload->flow_control;
	conn->retry_count = payload->retry_count;
	conn->rnr_retry_count = payload->rnr_retry;
	conn->srq = payload->srq;
	conn->qp_num = payload->qpn;
	conn->private_data_len = payload->private_bytes;
	if (payload->private_bytes) {
		memcpy(event->private_data, payload->private_data, payload->private_bytes);
		conn->private_data = event->private_data;
	}
}

static struct cm_channel *channel_of(const struct cm_id *id)
{
	return (struct cm_channel *)id->id.channel;
}

void cm_raise(struct cm_id *id, enum rdma_cm_event_type type, int status,
	      const struct cm_payload *payload)
{
	struct cm_event *event = calloc(1, sizeof(*event));
	/* A request is its listener's until it is fetched. */
	struct cm_id *owner = type == RDMA_CM_EVENT_CONNECT_REQUEST ? id->listener : id;

	if (!event)
		return;
	event->owner = owner;
	event->event.id = &id->id;
	event->event.event = type;
	event->event.status = status;
	if (payload)
		fill(event, payload);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		event->event.listen_id = &owner->id;
	list_push_back(&channel_of(owner)->events, &event->link);
	dbl_count_up(owner->id.channel->fd);
}

void cm_discard(struct cm_id *id)
{
	struct cm_channel *channel = channel_of(id);
	struct list *node, *tmp;

	list_for_each_safe (node, tmp, &channel->events) {
		struct cm_event *event = list_entry(node, struct cm_event, link);

		if (event->owner != id)
			continue;
		list_unlink(&event->link);
		dbl_count_down(channel->ibv.fd);
		if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			cm_conn_end(cm_id(event->event.id));
			cm_id_free(cm_id(event->event.id));
		}
		free(event);
	}
}

/* A request becomes an id of the program's. False: it could not, and is gone. */
static bool take_request(struct cm_event *event)
{
	struct cm_id *id = cm_id(event->event.id);
	int rc;

	pthread_mutex_lock(&dbl_lock);
	id->listener->pending--;
	id->listener = NULL;
	pthread_mutex_unlock(&dbl_lock);
	rc = cm_device_get(id);
	if (rc == 0)
		return true;
	pthread_mutex_lock(&dbl_lock);
	cm_conn_end(id);
	cm_id_free(id);
	pthread_mutex_unlock(&dbl_lock);
	return false;
}

/* What librdmacm does between the kernel's event and the program. False: the event is no more. */
static bool process(struct cm_event *event)
{
	struct cm_id *id = cm_id(event->event.id);
	int rc;

	switch (event->event.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		rc = cm_device_get(id);
		if (rc) {
			event->event.event = RDMA_CM_EVENT_ADDR_ERROR;
			event->event.status = -rc;
		}
		return true;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return take_request(event);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (!id->id.qp)
			return true;
		rc = cm_qp_finish(id);
		event->event.event = rc ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
		event->event.status = rc ? -rc : 0;
		return true;
	case RDMA_CM_EVENT_REJECTED:
		cm_qp_to_error(id);
		return true;
	default:
		return true;
	}
}

DBL_API int rdma_get_cm_event(struct rdma_event_channel *ibv, struct rdma_cm_event **ret_event)
{
	struct cm_channel *channel = (struct cm_channel *)ibv;
	struct cm_event *event;
	int rc;

	for (;;) {
		pthread_mutex_lock(&dbl_lock);
		rc = dbl_wait_queue(ibv->fd, &channel->events);
		if (rc < 0) {
			pthread_mutex_unlock(&dbl_lock);
			return cm_return(-rc);
		}
		event = list_entry(list_pop_front(&channel->events), struct cm_event, link);
		dbl_count_down(ibv->fd);
		event->owner->events_reported++;
		pthread_mutex_unlock(&dbl_lock);
		if (process(event))
			break;
		rdma_ack_cm_event(&event->event);
	}
	*ret_event = &event->event;
	return 0;
}

DBL_API int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cm_event *whole = (struct cm_event *)event;
	struct cm_id *owner;

	if (!event)
		return cm_return(EINVAL);
	owner = whole->owner;
	pthread_mutex_lock(&owner->mutex);
	owner->events_completed++;
	pthread_cond_signal(&owner->cond);
	pthread_mutex_unlock(&owner->mutex);
	free(whole);
	return 0;
}

DBL_API const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const names[] = {
		"RDMA_CM_EVENT_ADDR_RESOLVED",	 "RDMA_CM_EVENT_ADDR_ERROR",
		"RDMA_CM_EVENT_ROUTE_RESOLVED",	 "RDMA_CM_EVENT_ROUTE_ERROR",
		"RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
		"RDMA_CM_EVENT_CONNECT_ERROR",	 "RDMA_CM_EVENT_UNREACHABLE",
		"RDMA_CM_EVENT_REJECTED",	 "RDMA_CM_EVENT_ESTABLISHED",
		"RDMA_CM_EVENT_DISCONNECTED",	 "RDMA_CM_EVENT_DEVICE_REMOVAL",
		"RDMA_CM_EVENT_MULTICAST_JOIN",	 "RDMA_CM_EVENT_MULTICAST_ERROR",
		"RDMA_CM_EVENT_ADDR_CHANGE",	 "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};

	return (size_t)event < ARRAY_SIZE(names) ? names[event] : "UNKNOWN EVENT";
}

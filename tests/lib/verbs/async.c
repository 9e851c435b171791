/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "async.h"

/*
 * The count of an eventfd is the length of its queue, and both change under dbl_lock only; so
 * taking from a queue that isn't empty never blocks, and the descriptor polls right.
 */
DBL_API int dbl_wait_queue(int fd, struct list *queue)
{
	while (list_is_empty(queue)) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		int flags = fcntl(fd, F_GETFL), rc;

		if (flags >= 0 && (flags & O_NONBLOCK))
			return -EAGAIN;
		pthread_mutex_unlock(&dbl_lock);
		rc = poll(&wait, 1, -1) < 0 ? -errno : 0;
		pthread_mutex_lock(&dbl_lock);
		if (rc < 0)
			return rc;
		if (wait.revents & POLLNVAL)
			return -EBADF;
	}
	return 0;
}

static void raise_event(struct ibv_context *ibv, const struct ibv_async_event *async)
{
	struct dbl_event *event = calloc(1, sizeof(*event));

	if (!event)
		return;
	event->async = *async;
	list_push_back(&dbl_context(ibv)->async, &event->link);
	dbl_count_up(ibv->async_fd);
}

void async_raise_device(struct dbl_context *context, enum ibv_event_type type, int port)
{
	raise_event(&context->verbs.context,
		    &(struct ibv_async_event){.event_type = type, .element.port_num = port});
}

void async_raise_qp(struct dbl_qp *qp, enum ibv_event_type type)
{
	raise_event(qp->ibv.context,
		    &(struct ibv_async_event){.event_type = type, .element.qp = &qp->ibv});
}

void async_raise_cq(struct dbl_cq *cq)
{
	raise_event(cq->ibv.context, &(struct ibv_async_event){.event_type = IBV_EVENT_CQ_ERR,
							       .element.cq = &cq->ibv});
}

static bool is_of_qp(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	default:
		return false;
	}
}

/* Drop the queued events of @object; NULL: all. */
static void discard(struct dbl_context *context, const void *object)
{
	struct list *node, *tmp;

	list_for_each_safe (node, tmp, &context->async) {
		struct dbl_event *event = list_entry(node, struct dbl_event, link);
		const struct ibv_async_event *async = &event->async;
		const void *of = NULL;

		if (is_of_qp(async->event_type))
			of = async->element.qp;
		else if (async->event_type == IBV_EVENT_CQ_ERR)
			of = async->element.cq;
		if (object && of != object)
			continue;
		list_unlink(&event->link);
		dbl_count_down(context->verbs.context.async_fd);
		free(event);
	}
}

void async_discard_qp(struct dbl_qp *qp)
{
	discard(dbl_context(qp->ibv.context), &qp->ibv);
}

void async_discard_cq(struct dbl_cq *cq)
{
	discard(dbl_context(cq->ibv.context), &cq->ibv);
}

void async_discard(struct dbl_context *context)
{
	discard(context, NULL);
}

DBL_API int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
	struct dbl_context *context = dbl_context(ibv);
	struct dbl_event *first;
	int rc;

	pthread_mutex_lock(&dbl_lock);
	rc = dbl_wait_queue(ibv->async_fd, &context->async);
	if (rc == 0) {
		first = list_entry(list_pop_front(&context->async), struct dbl_event, link);
		dbl_count_down(ibv->async_fd);
		*event = first->async;
		free(first);
		if (is_of_qp(event->event_type))
			dbl_qp(event->element.qp)->async_reported++;
		else if (event->event_type == IBV_EVENT_CQ_ERR)
			dbl_cq(event->element.cq)->async_reported++;
	}
	pthread_mutex_unlock(&dbl_lock);
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	return 0;
}

DBL_API void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (is_of_qp(event->event_type)) {
		struct ibv_qp *qp = event->element.qp;

		pthread_mutex_lock(&qp->mutex);
		qp->events_completed++;
		pthread_cond_signal(&qp->cond);
		pthread_mutex_unlock(&qp->mutex);
	} else if (event->event_type == IBV_EVENT_CQ_ERR) {
		struct ibv_cq *cq = event->element.cq;

		pthread_mutex_lock(&cq->mutex);
		cq->async_events_completed++;
		pthread_cond_signal(&cq->cond);
		pthread_mutex_unlock(&cq->mutex);
	}
}

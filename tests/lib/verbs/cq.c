/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "async.h"
#include "cq.h"
#include "device.h"
#include "fault.h"
#include "ops.h"
#include "resource.h"

/* Bytes of a completion in the memory of hardware that pins it. */
#define CQE_BYTES 64

DBL_API struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct dbl_channel *channel = calloc(1, sizeof(*channel));
	int rc = channel ? 0 : ENOMEM;

	pthread_mutex_lock(&dbl_lock);
	if (rc == 0)
		rc = fault_errno("create_channel", dbl_context(context)->device->desc.name);
	pthread_mutex_unlock(&dbl_lock);
	if (rc == 0) {
		channel->ibv.context = context;
		channel->ibv.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
		list_init(&channel->events);
		rc = channel->ibv.fd < 0 ? errno : 0;
	}
	if (rc) {
		free(channel);
		errno = rc;
		return NULL;
	}
	return &channel->ibv;
}

DBL_API int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct dbl_channel *channel = (struct dbl_channel *)ibv;
	int users;

	pthread_mutex_lock(&dbl_lock);
	users = channel->ibv.refcnt;
	pthread_mutex_unlock(&dbl_lock);
	if (users)
		return EBUSY;
	close(channel->ibv.fd);
	free(channel);
	return 0;
}

static int check_create(struct dbl_context *context, int cqe, int vector)
{
	const struct dbl_device *device = context->device;
	uint32_t most = device->desc.max_cq == STATE_UNSET ? device->p->max_cq
							   : (uint32_t)device->desc.max_cq;
	int rc = fault_errno("create_cq", device->desc.name);

	if (rc)
		return rc;
	if (device_check(device))
		return EIO;
	if (cqe < 1 || (uint32_t)cqe > device->p->max_cqe || vector != 0)
		return EINVAL;
	return device_count_cqs(device) >= most ? ENOMEM : 0;
}

static int init_cq(struct dbl_cq *cq, struct dbl_context *context, int cqe)
{
	int rc;

	cq->ring = calloc((size_t)cqe, sizeof(*cq->ring));
	if (!cq->ring)
		return ENOMEM;
	if (!(context->device->p->quirks & QUIRK_KERNEL_QUEUES))
		cq->pinned = (uint64_t)cqe * CQE_BYTES;
	rc = resource_pin(context->device, cq->pinned);
	if (rc) {
		free(cq->ring);
		return rc;
	}
	cq->size = (uint32_t)cqe;
	cq->ibv.context = &context->verbs.context;
	cq->ibv.cqe = cqe;
	cq->ibv.handle = context->next_handle++;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	context->cqs++;
	return 0;
}

DBL_API struct ibv_cq *ibv_create_cq(struct ibv_context *ibv, int cqe, void *cq_context,
				     struct ibv_comp_channel *channel, int comp_vector)
{
	struct dbl_context *context = dbl_context(ibv);
	struct dbl_cq *cq = calloc(1, sizeof(*cq));
	int rc = cq ? 0 : ENOMEM;

	pthread_mutex_lock(&dbl_lock);
	if (rc == 0)
		rc = check_create(context, cqe, comp_vector);
	if (rc == 0)
		rc = init_cq(cq, context, cqe);
	if (rc == 0) {
		cq->ibv.channel = channel;
		cq->ibv.cq_context = cq_context;
		if (channel)
			channel->refcnt++;
	}
	pthread_mutex_unlock(&dbl_lock);
	if (rc) {
		free(cq);
		errno = rc;
		return NULL;
	}
	return &cq->ibv;
}

DBL_API int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq;
	(void)cqe;
	return dbl_unsupported("ibv_resize_cq");
}

/* Take the queue's unread events out of its channel. */
static void drop_events(struct dbl_cq *cq)
{
	struct dbl_channel *channel = (struct dbl_channel *)cq->ibv.channel;
	struct list *node, *tmp;

	list_for_each_safe (node, tmp, &channel->events) {
		struct dbl_event *event = list_entry(node, struct dbl_event, link);

		if (event->cq != cq)
			continue;
		list_unlink(&event->link);
		dbl_count_down(channel->ibv.fd);
		free(event);
	}
}

DBL_API int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct dbl_cq *cq = dbl_cq(ibv);
	unsigned reported, async_reported;

	pthread_mutex_lock(&dbl_lock);
	if (cq->users) {
		pthread_mutex_unlock(&dbl_lock);
		return EBUSY;
	}
	if (ibv->channel) {
		drop_events(cq);
		ibv->channel->refcnt--;
	}
	async_discard_cq(cq);
	reported = cq->events_reported;
	async_reported = cq->async_reported;
	resource_unpin(cq->pinned);
	dbl_context(ibv->context)->cqs--;
	pthread_mutex_unlock(&dbl_lock);
	/* As the real one: waits for all events that were read to be acknowledged. */
	pthread_mutex_lock(&ibv->mutex);
	while (ibv->comp_events_completed != reported ||
	       ibv->async_events_completed != async_reported)
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	free(cq->ring);
	free(cq);
	return 0;
}

static void raise_event(struct dbl_cq *cq)
{
	struct dbl_channel *channel = (struct dbl_channel *)cq->ibv.channel;
	struct dbl_event *event;

	cq->armed = CQ_IDLE;
	event = channel ? calloc(1, sizeof(*event)) : NULL;
	if (!event)
		return;
	event->cq = cq;
	list_push_back(&channel->events, &event->link);
	dbl_count_up(channel->ibv.fd);
}

static void overrun(struct dbl_cq *cq)
{
	cq->dead = true;
	async_raise_cq(cq);
}

void cq_push(struct dbl_cq *cq, const struct dbl_wc *wc)
{
	struct dbl_context *context = dbl_context(cq->ibv.context);
	struct fault fault;
	bool notable;

	if (cq->dead) {
		wc->qp->broken = true;
		return;
	}
	if (cq->count == cq->size ||
	    fault_take("cq", context->device->desc.name, 0, NULL, &fault)) {
		overrun(cq);
		wc->qp->broken = true;
		return;
	}
	cq->ring[(cq->head + cq->count++) % cq->size] = *wc;
	notable = wc->solicited || wc->wc.status != IBV_WC_SUCCESS;
	if (cq->armed == CQ_ARMED || (cq->armed == CQ_ARMED_SOLICITED && notable))
		raise_event(cq);
}

void cq_forget_qp(struct dbl_cq *cq, const struct dbl_qp *qp)
{
	bool is_stale = qp->device->p->quirks & QUIRK_STALE_CQES;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < cq->count; i++) {
		struct dbl_wc *from = &cq->ring[(cq->head + i) % cq->size];

		if (from->qp == qp && !is_stale)
			continue;
		if (from->qp == qp)
			from->qp = NULL;
		cq->ring[(cq->head + kept++) % cq->size] = *from;
	}
	cq->count = kept;
}

/* Polling is what makes room in the work queues. */
static void free_slots(const struct dbl_wc *wc)
{
	if (!wc->qp)
		return;
	if (wc->send)
		wc->qp->sq_tail = wc->slot;
	else
		wc->qp->rq_tail = wc->slot;
}

int dbl_poll_cq(struct ibv_cq *ibv, int num_entries, struct ibv_wc *wc)
{
	struct dbl_cq *cq = dbl_cq(ibv);
	int count = 0;

	pthread_mutex_lock(&dbl_lock);
	while (count < num_entries && cq->count > 0) {
		const struct dbl_wc *first = &cq->ring[cq->head];

		wc[count++] = first->wc;
		free_slots(first);
		cq->head = (cq->head + 1) % cq->size;
		cq->count--;
	}
	pthread_mutex_unlock(&dbl_lock);
	return count;
}

int dbl_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct dbl_cq *cq = dbl_cq(ibv);

	pthread_mutex_lock(&dbl_lock);
	/* Arming for more is never undone by arming for less. */
	if (!solicited_only)
		cq->armed = CQ_ARMED;
	else if (cq->armed == CQ_IDLE)
		cq->armed = CQ_ARMED_SOLICITED;
	pthread_mutex_unlock(&dbl_lock);
	return 0;
}

DBL_API int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
	struct dbl_channel *channel = (struct dbl_channel *)ibv;
	struct dbl_event *event;
	int rc;

	pthread_mutex_lock(&dbl_lock);
	rc = dbl_wait_queue(ibv->fd, &channel->events);
	if (rc == 0) {
		event = list_entry(list_pop_front(&channel->events), struct dbl_event, link);
		dbl_count_down(ibv->fd);
		event->cq->events_reported++;
		*cq = &event->cq->ibv;
		*cq_context = event->cq->ibv.cq_context;
		free(event);
	}
	pthread_mutex_unlock(&dbl_lock);
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	return 0;
}

DBL_API void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

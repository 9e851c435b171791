/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "fabric/worker_impl.h"

/*
 * Completions of all links of the worker. A queue is polled only while a link that is up has its
 * queue pair on it, which keeps it alive; what is polled may be of another link that is being made.
 */

void cq_add(struct worker *worker, struct cq *cq)
{
	for (uint32_t i = 0; i < worker->n_cqs; i++) {
		if (worker->cqs[i].cq == cq) {
			worker->cqs[i].links++;
			return;
		}
	}
	assert(worker->n_cqs < WORKER_LINKS_MAX);
	worker->cqs[worker->n_cqs++] = (struct worker_cq){.cq = cq, .links = 1};
}

void cq_drop(struct worker *worker, struct cq *cq)
{
	for (uint32_t i = 0; i < worker->n_cqs; i++) {
		if (worker->cqs[i].cq != cq)
			continue;
		if (--worker->cqs[i].links == 0)
			worker->cqs[i] = worker->cqs[--worker->n_cqs];
		return;
	}
}

/* The link of a completion; NULL: it is gone. */
static struct worker_link *link_of(struct worker *worker, uint64_t wr_id)
{
	uint32_t index = (uint32_t)(wr_id >> 32) & 0xffu;
	struct worker_link *link = atomic_load(&worker->links[index]);

	if (!link || worker_id(link, 0) != (wr_id & ~WORKER_ID_RECEIVE & ~0xffffffffull))
		return NULL;
	return link;
}

static void received(struct worker_link *link, uint32_t slot, uint32_t len)
{
	if (slot >= link->credits || len > WORKER_RECEIVE_BYTES) {
		link_fail(link, "the device tells of a receive that was not posted");
	} else if (link->state == WORKER_LINK_MADE) {
		assert(link->n_early < link->credits);
		link->early[link->n_early++] = (struct worker_early){slot, len};
	} else if (link->state == WORKER_LINK_UP) {
		link_receive(link, slot, len);
	}
}

static void sent(struct worker_link *link, uint32_t number)
{
	if (link_send_complete(&link->send, number) != LINK_FLOW_OK)
		link_fail(link, "the device tells of a request that was not posted");
	link_touch(link);
}

static void completion(struct worker *worker, const struct ibv_wc *wc)
{
	struct worker_link *link = link_of(worker, wc->wr_id);
	uint32_t number = (uint32_t)wc->wr_id;
	bool is_receive = wc->wr_id & WORKER_ID_RECEIVE;

	if (!link) {
		count_add(&worker->counts.stale, 1);
		return;
	}
	if (is_receive && link->receives_out)
		link->receives_out--;
	if (link->state == WORKER_LINK_DRAINS) {
		/* A flush, or what was done before: the place is free, nothing else counts. */
		if (!is_receive)
			(void)link_send_complete(&link->send, number);
		return;
	}
	if (wc->status != IBV_WC_SUCCESS) {
		count_add(&worker->counts.rnr, wc->status == IBV_WC_RNR_RETRY_EXC_ERR ? 1 : 0);
		link_fail(link, "%s: %s", is_receive ? "receiving" : "sending",
			  ibv_wc_status_str(wc->status));
		if (link->state == WORKER_LINK_DRAINS && !is_receive)
			(void)link_send_complete(&link->send, number);
		return;
	}
	if (is_receive)
		received(link, number, wc->byte_len);
	else
		sent(link, number);
}

/* A queue that can't be polled is of no use to anyone. */
static void cq_failed(struct worker *worker, const struct cq *cq)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &worker->up) {
		struct worker_link *link = list_entry(node, struct worker_link, links);

		if (link->qp->cq == cq)
			link_fail(link, "the completion queue has failed");
	}
}

/* Whether there was any. */
static bool cq_poll(struct worker *worker, struct cq *cq)
{
	struct ibv_wc wcs[WORKER_POLL];
	bool any = false;

	for (uint32_t i = 0; i < WORKER_POLLS; i++) {
		int n = ibv_poll_cq(cq->verbs, WORKER_POLL, wcs);

		if (n < 0)
			cq_failed(worker, cq);
		if (n <= 0)
			break;
		/* What the loop asked for before the peer could do this comes before it: a lane has
		 * begun when a message for it is looked at, and when its link is lost. */
		mail_take(worker);
		count_add(&worker->counts.polled, (uint64_t)n);
		any = true;
		for (int j = 0; j < n; j++)
			completion(worker, &wcs[j]);
		if (n < (int)WORKER_POLL)
			break;
	}
	return any;
}

bool cqs_poll(struct worker *worker)
{
	bool any = false;

	/* None is dropped meanwhile: links go in links_drain(). They come by mail, behind the last.
	 */
	for (uint32_t i = 0; i < worker->n_cqs; i++)
		any |= cq_poll(worker, worker->cqs[i].cq);
	return any;
}

bool cqs_arm(struct worker *worker)
{
	bool any = false;

	for (uint32_t i = 0; i < worker->n_cqs; i++) {
		struct worker_cq *cq = &worker->cqs[i];

		if (cq->is_armed)
			continue;
		if (ibv_req_notify_cq(cq->cq->verbs, 0))
			cq_failed(worker, cq->cq);
		cq->is_armed = true;
		count_add(&worker->counts.armed, 1);
		/* Behind the arm: what came before it makes no event. */
		any |= cq_poll(worker, cq->cq);
	}
	return !any && list_is_empty(&worker->dirty);
}

void cqs_events(struct worker *worker)
{
	struct ibv_cq *verbs;
	void *context;
	bool armed;

	/* There is one at least; and one more at most of each queue that is still armed. Others, of
	 * queues that were dropped, keep the channel readable. */
	do {
		if (ibv_get_cq_event(worker->config.channel, &verbs, &context))
			return;
		count_add(&worker->counts.events, 1);
		armed = false;
		for (uint32_t i = 0; i < worker->n_cqs; i++) {
			if (worker->cqs[i].cq->verbs == verbs)
				worker->cqs[i].is_armed = false;
			armed |= worker->cqs[i].is_armed;
		}
		/* At once: destroying a queue waits for it. */
		ibv_ack_cq_events(verbs, 1);
	} while (armed);
}

/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "fabric/worker_impl.h"

/* What link_send_next() wants posted, as verbs: one chain and one post each time. */

/* A SEND: header and words inline, with the payload behind them, or from a registered slot. */
static void fill_send(struct worker *worker, struct worker_link *link, uint32_t i)
{
	const struct link_wr *wr = &worker->wrs[i];
	struct ibv_sge *sge = &worker->sges[i];
	const struct worker_lane *lane;
	uint8_t *at;

	worker->sends[i].opcode = IBV_WR_SEND;
	sge->length = wr->own_bytes + wr->bytes;
	if (!wr->is_inline) {
		/* Held until the number is free again, by when the device has read it. */
		at = link->slots + (size_t)(wr->number & (link_slots(link->qp->send_wr_max) - 1)) *
					   WORKER_SLOT_BYTES;
		memcpy(at, wr->own, wr->own_bytes);
		sge->lkey = link->region->lkey;
		sge->addr = (uintptr_t)at;
		return;
	}
	/* In one piece, which is copied while it is posted. */
	at = worker->gathered[i];
	memcpy(at, wr->own, wr->own_bytes);
	if (wr->bytes) {
		lane = wr->lane->user;
		ring_copy_out(half_ring_const(lane->setup.client), lane->setup.client_bytes,
			      wr->from, at + wr->own_bytes, wr->bytes);
	}
	sge->addr = (uintptr_t)at;
}

/* A WRITE from the client's ring to the same offset of the peer's. */
static void fill_write(struct worker *worker, uint32_t i)
{
	const struct link_wr *wr = &worker->wrs[i];
	const struct worker_lane *lane = wr->lane->user;
	const struct worker_lane_setup *setup = &lane->setup;

	worker->sges[i] = (struct ibv_sge){
		.addr = (uintptr_t)(half_ring_const(setup->client) +
				    (wr->from.v & (setup->client_bytes - 1))),
		.length = wr->bytes,
		.lkey = setup->client_lkey,
	};
	worker->sends[i].opcode = IBV_WR_RDMA_WRITE;
	worker->sends[i].wr.rdma.remote_addr =
		setup->peer_address + (wr->from.v & (setup->peer_bytes - 1));
	worker->sends[i].wr.rdma.rkey = setup->peer_rkey;
}

static void count_lane(struct worker_lane *lane, const struct link_wr *wr)
{
	struct worker_lane_counts *counts = &lane->counts;

	count_add(&counts->wrs, 1);
	count_add(&counts->bytes_sent, wr->bytes);
	if (wr->op == LINK_WR_WRITE) {
		lane->tx_has_write = true;
		lane->tx_write_is_inline = wr->is_inline;
		return;
	}
	count_add(&counts->messages, 1);
	if (wr->bytes)
		count_add(&counts->eager, 1);
	else if (lane->tx_has_write && lane->tx_write_is_inline)
		count_add(&counts->write_inline, 1);
	else if (lane->tx_has_write)
		count_add(&counts->by_reference, 1);
	lane->tx_has_write = false;
}

/* 0, or what the provider says, negative. */
static int post(struct worker *worker, struct worker_link *link, uint32_t n)
{
	struct ibv_send_wr *bad = NULL;
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		const struct link_wr *wr = &worker->wrs[i];
		unsigned int flags = (wr->is_inline ? IBV_SEND_INLINE : 0u) |
				     (wr->is_signalled ? IBV_SEND_SIGNALED : 0u);

		worker->sends[i] = (struct ibv_send_wr){
			.wr_id = worker_id(link, wr->number),
			.next = i + 1 < n ? &worker->sends[i + 1] : NULL,
			.sg_list = &worker->sges[i],
			.num_sge = 1,
			.send_flags = flags,
		};
		if (wr->op == LINK_WR_SEND)
			fill_send(worker, link, i);
		else
			fill_write(worker, i);
		count_add(&link->counts.messages, wr->op == LINK_WR_SEND ? 1 : 0);
		if (wr->lane)
			count_lane(wr->lane->user, wr);
	}
	/* Providers return either sign. */
	rc = ibv_post_send(link->qp->verbs, worker->sends, &bad);
	return rc > 0 ? -rc : rc;
}

/* All that can go now. */
static void link_post_all(struct worker *worker, struct worker_link *link)
{
	size_t n;
	int rc = link_repost(link);

	if (rc < 0) {
		link_fail(link, "posting receives: %s", strerror(-rc));
		return;
	}
	while (link->may_send &&
	       (n = link_send_next(&link->send, worker->wrs, WORKER_POST_WRS)) > 0) {
		rc = post(worker, link, (uint32_t)n);
		if (rc < 0) {
			link_fail(link, "posting: %s", strerror(-rc));
			return;
		}
	}
	lanes_finish(link);
	link_show(link);
}

bool links_have_bulk(const struct worker *worker)
{
	const struct list *node;

	list_for_each (node, &worker->dirty) {
		const struct worker_link *link = list_entry(node, const struct worker_link, dirty);

		if (link->state == WORKER_LINK_UP && !list_is_empty(&link->send.bulk))
			return true;
	}
	return false;
}

void links_post(struct worker *worker)
{
	struct list *node;

	/* Nothing here touches another link, nor this one again. */
	while ((node = list_pop_front(&worker->dirty)) != NULL) {
		struct worker_link *link = list_entry(node, struct worker_link, dirty);

		if (link->state == WORKER_LINK_UP)
			link_post_all(worker, link);
	}
}

/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "os/clock.h"

#include "lib/tap.h"
#include "peer.h"

void peer_nonce(int i, uint8_t ret_nonce[LINK_NONCE_BYTES])
{
	memset(ret_nonce, 0x5a, LINK_NONCE_BYTES);
	memcpy(ret_nonce, &i, sizeof(i));
}

union gid_address peer_address(const char *text, int port)
{
	union gid_address address = {{0}};

	address.in.sin_family = AF_INET;
	address.in.sin_port = htons((uint16_t)port);
	CHECK_EQ(inet_pton(AF_INET, text, &address.in.sin_addr), 1);
	return address;
}

static int prepare(struct link *link, struct qp *qp)
{
	struct peer_link *self = container_of(link, struct peer_link, link);
	struct peer *peer = self->peer;
	struct ibv_sge sge = {
		.addr = (uintptr_t)(peer->memory + self->index * PEER_MESSAGE_BYTES),
		.length = PEER_MESSAGE_BYTES,
		.lkey = peer->region->lkey,
	};
	struct ibv_recv_wr receive = {
		.wr_id = (uint64_t)self->index, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;
	int rc = ibv_post_recv(qp->verbs, &receive, &bad);

	return rc > 0 ? -rc : rc;
}

static void on_up(struct link *link)
{
	struct peer_link *self = container_of(link, struct peer_link, link);

	self->is_up = true;
	if (self->peer->board)
		atomic_fetch_add(&self->peer->board->up, 1);
}

static void on_down(struct link *link, const char *why)
{
	struct peer_link *self = container_of(link, struct peer_link, link);

	self->is_down = true;
	snprintf(self->why, sizeof(self->why), "%s", why);
	if (self->peer->board)
		atomic_fetch_add(&self->peer->board->down, 1);
}

static void on_closed(struct link *link)
{
	struct peer_link *self = container_of(link, struct peer_link, link);

	self->is_closed = true;
	if (self->peer->board)
		atomic_fetch_add(&self->peer->board->closed, 1);
}

static const struct link_ops ops = {
	.prepare = prepare, .up = on_up, .down = on_down, .closed = on_closed};

struct peer_link *peer_link(struct peer *peer)
{
	struct peer_link *link;

	if (!CHECK(peer->n_links < PEER_LINKS))
		return NULL;
	link = &peer->links[peer->n_links];
	*link = (struct peer_link){.peer = peer, .index = peer->n_links++};
	link_init(&link->link, &peer->cm, &peer->pool, &ops);
	return link;
}

static int admit(void *ctx, const struct link_hello *hello, const struct sockaddr *from,
		 struct link **ret_link)
{
	struct peer *peer = ctx;
	uint8_t nonce[LINK_NONCE_BYTES];
	struct peer_link *link;

	CHECK_EQ(from->sa_family, AF_INET);
	for (int i = 0; i < peer->admit_max; i++) {
		peer_nonce(i, nonce);
		if (memcmp(nonce, hello->nonce, sizeof(nonce)) != 0)
			continue;
		link = peer_link(peer);
		if (!link)
			return LINK_REJECT_BUSY;
		link_set_hello(&link->link, nonce, 1, (uint32_t)i);
		*ret_link = &link->link;
		return 0;
	}
	return LINK_REJECT_NONCE;
}

struct opening {
	struct control_job job;
	struct peer *peer;
	int result;
	bool is_done;
};

static void open_run(struct control_job *job)
{
	struct opening *opening = container_of(job, struct opening, job);
	struct peer *peer = opening->peer;

	opening->result = cm_open(&peer->cm, peer->rig.device, &peer->rig.control);
}

static void open_done(struct control_job *job)
{
	container_of(job, struct opening, job)->is_done = true;
}

bool peer_open(struct peer *peer, struct verbs_host *host, const char *name, uint32_t pool_size)
{
	struct opening opening = {.job = {.run = open_run, .done = open_done}, .peer = peer};
	const struct list *node;

	memset(peer, 0, sizeof(*peer));
	if (!rig_open_on(&peer->rig, host, name))
		return false;
	peer->memory = calloc(PEER_LINKS + 1, PEER_MESSAGE_BYTES);
	peer->region = ibv_reg_mr(peer->rig.device->pd, peer->memory,
				  (PEER_LINKS + 1) * PEER_MESSAGE_BYTES, IBV_ACCESS_LOCAL_WRITE);
	CHECK(peer->region);
	rig_pool(&peer->rig, &peer->pool, pool_size, pool_size, NULL);
	qp_pool_tick(&peer->pool, clock_now_ns());
	CHECK_EQ(control_submit(&peer->rig.control, &opening.job), 0);
	RIG_AWAIT(&peer->rig, opening.is_done && peer->pool.n_ready == pool_size);
	cm_set_admit(&peer->cm, admit, peer);
	list_for_each (node, &peer->pool.ready) {
		const struct qp *qp = list_entry((struct list *)(uintptr_t)node, struct qp, link);

		if (peer->n_known < ARRAY_SIZE(peer->known))
			peer->known[peer->n_known++] = qp->verbs->qp_num;
	}
	return CHECK_OK(opening.result);
}

void peer_turn(struct peer *peer, int timeout_ms)
{
	struct pollfd wait[] = {
		{.fd = control_fd(&peer->rig.control), .events = POLLIN},
		{.fd = peer->cm.poll.in_flight ? -1 : cm_fd(&peer->cm), .events = POLLIN},
	};

	if (poll(wait, ARRAY_SIZE(wait), timeout_ms) > 0) {
		if (wait[0].revents)
			control_reap(&peer->rig.control);
		if (wait[1].revents)
			cm_poll(&peer->cm);
	}
	cm_tick(&peer->cm, clock_now_ns());
	qp_pool_tick(&peer->pool, clock_now_ns());
}

void peer_close(struct peer *peer)
{
	cm_stop(&peer->cm);
	PEER_AWAIT(peer, cm_is_quiet(&peer->cm));
	peer->rig.has_cm = !list_is_empty(&peer->cm.listeners) || peer->cm.counts.dials > 0;
	rig_pool_end(&peer->rig, &peer->pool);
	/* Everything is quiet: nothing runs on the control thread. */
	cm_close(&peer->cm);
	CHECK_EQ(ibv_dereg_mr(peer->region), 0);
	free(peer->memory);
	for (int i = 0; i < peer->n_links; i++)
		CHECK(peer->links[i].is_closed);
	rig_close(&peer->rig);
}

struct peer_link *peer_dial(struct peer *peer, const char *source, const char *target, int port,
			    int i)
{
	union gid_address from = peer_address(source, 0), to = peer_address(target, port);
	struct peer_link *link = peer_link(peer);
	uint8_t nonce[LINK_NONCE_BYTES];

	if (!link)
		return NULL;
	peer_nonce(i, nonce);
	link_set_hello(&link->link, nonce, 1, (uint32_t)i);
	CHECK_OK(link_dial(&link->link, &from, &to));
	return link;
}

bool peer_send(struct peer *peer, struct peer_link *link)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(peer->memory + PEER_LINKS * PEER_MESSAGE_BYTES),
		.length = PEER_MESSAGE_BYTES,
	};
	struct ibv_send_wr send = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	return CHECK_EQ(ibv_post_send(link->link.qp->verbs, &send, &bad), 0);
}

int peer_receive(struct peer *peer)
{
	struct ibv_wc done;
	int n = 0;

	/* Those of the links: the list of all is the control thread's. */
	for (int i = 0; i < peer->n_links; i++) {
		const struct qp *qp = peer->links[i].link.qp;

		while (qp && ibv_poll_cq(qp->cq->verbs, 1, &done) == 1) {
			if (done.status != IBV_WC_SUCCESS || done.opcode != IBV_WC_RECV)
				continue;
			CHECK_EQ(done.byte_len, PEER_MESSAGE_BYTES);
			n++;
		}
	}
	return n;
}

bool peer_knew(const struct peer *peer, uint32_t qp_num)
{
	for (uint32_t i = 0; i < peer->n_known; i++) {
		if (peer->known[i] == qp_num)
			return true;
	}
	return false;
}

/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric/worker_impl.h"
#include "os/clock.h"
#include "os/log.h"

/* Receives posted at once. Chosen: as many as are polled at once. */
#define REPOST WORKER_POLL

/* --- receives --------------------------------------------------------------------------------- */

/* Post the receives @slots[0, @n), @n <= REPOST. 0 or -errno. */
static int post_receives(struct worker_link *link, const uint32_t *slots, uint32_t n)
{
	struct ibv_recv_wr wrs[REPOST], *bad = NULL;
	struct ibv_sge sges[REPOST];
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)(link->receives +
					    (size_t)slots[i] * WORKER_RECEIVE_BYTES),
			.length = WORKER_RECEIVE_BYTES,
			.lkey = link->region->lkey,
		};
		wrs[i] = (struct ibv_recv_wr){
			.wr_id = worker_id(link, slots[i]) | WORKER_ID_RECEIVE,
			.next = i + 1 < n ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
		};
	}
	/* Providers return either sign. */
	rc = ibv_post_recv(link->qp->verbs, wrs, &bad);
	if (rc)
		return rc < 0 ? rc : -rc;
	link->receives_out += n;
	return 0;
}

/* Post again what was received and is done with. 0 or -errno. */
int link_repost(struct worker_link *link)
{
	uint32_t done = 0;

	while (done < link->n_repost) {
		uint32_t n = (uint32_t)u64_min(link->n_repost - done, REPOST);
		int rc = post_receives(link, link->repost + done, n);

		if (rc < 0)
			return rc;
		link_flow_reposted(&link->send.flow, n);
		done += n;
	}
	link->n_repost = 0;
	return 0;
}

/* --- making (control thread) ------------------------------------------------------------------ */

static void link_release(struct worker_link *link)
{
	int rc = link->region ? ibv_dereg_mr(link->region) : 0;

	if (rc)
		log_debug("a memory region of a link stays: error %d", rc);
	free(link->receives);
	free(link->early);
	free(link->repost);
	free(link->notes);
	free(link->lanes.lane);
	free(link->places);
	free(link);
}

static int link_allocate(struct worker_link *link)
{
	const struct worker_config *config = &link->worker->config;
	uint32_t slots = link_slots(link->qp->send_wr_max);
	size_t receive_bytes = (size_t)link->credits * WORKER_RECEIVE_BYTES;
	size_t bytes = receive_bytes + (size_t)slots * WORKER_SLOT_BYTES;
	void *block;

	link->early = calloc(link->credits, sizeof(*link->early));
	link->repost = calloc(link->credits, sizeof(*link->repost));
	link->notes = calloc(slots, sizeof(*link->notes));
	link->lanes.lane = calloc(config->lanes_max, sizeof(*link->lanes.lane));
	link->lanes.count = config->lanes_max;
	link->places = calloc(config->lanes_max, sizeof(*link->places));
	if (!link->early || !link->repost || !link->notes || !link->lanes.lane || !link->places)
		return -ENOMEM;
	/* Whole pages of its own: a process may fork, and the device keeps these. */
	if (posix_memalign(&block, 4096, u64_align_up(bytes, 4096)) != 0)
		return -ENOMEM;
	memset(block, 0, bytes);
	link->receives = block;
	link->slots = link->receives + receive_bytes;
	errno = 0;
	link->region = ibv_reg_mr(config->device->pd, block, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!link->region)
		return errno > 0 ? -errno : -EIO;
	return 0;
}

/* A place in the worker's table. 0, WORKER_FULL or -ESHUTDOWN. */
static int take_place(struct worker_link *link)
{
	struct worker *worker = link->worker;
	int rc = WORKER_FULL;

	pthread_mutex_lock(&worker->lock);
	if (worker->is_stopped)
		rc = -ESHUTDOWN;
	for (uint32_t i = 0; rc == WORKER_FULL && i < WORKER_LINKS_MAX; i++) {
		if (atomic_load(&worker->links[i]))
			continue;
		link->index = i;
		link->generation = ++worker->next_generation;
		worker->n_links++;
		atomic_store(&worker->links[i], link);
		rc = 0;
	}
	pthread_mutex_unlock(&worker->lock);
	return rc;
}

static void leave_place(struct worker_link *link)
{
	struct worker *worker = link->worker;

	pthread_mutex_lock(&worker->lock);
	atomic_store(&worker->links[link->index], NULL);
	worker->n_links--;
	pthread_mutex_unlock(&worker->lock);
}

static int post_all(struct worker_link *link)
{
	uint32_t slots[REPOST];
	int rc = 0;

	for (uint32_t at = 0; rc == 0 && at < link->credits; at += REPOST) {
		uint32_t n = (uint32_t)u64_min(link->credits - at, REPOST);

		for (uint32_t i = 0; i < n; i++)
			slots[i] = at + i;
		rc = post_receives(link, slots, n);
	}
	return rc;
}

int worker_link_make(struct worker *worker, struct qp *qp, uint32_t credits, void *user,
		     struct worker_link **ret_link)
{
	struct worker_link *link;
	int rc;

	if (credits < LINK_CREDITS_MIN || credits > LINK_CREDITS_MAX ||
	    credits > qp->spec.recv_wr || qp->send_wr_max < LINK_DEPTH_MIN ||
	    qp->send_wr_max > LINK_DEPTH_MAX)
		return -EINVAL;
	link = calloc(1, sizeof(*link));
	if (!link)
		return -ENOMEM;
	mail_init(&link->mail, MAIL_LINK);
	list_init(&link->links);
	list_init(&link->dirty);
	list_init(&link->ending);
	link->worker = worker;
	link->qp = qp;
	link->credits = credits;
	link->user = user;
	rc = link_allocate(link);
	if (rc == 0)
		rc = take_place(link);
	if (rc) {
		link_release(link);
		return rc;
	}
	/* No message can come yet: the queue pair is in INIT, so this is still nobody else's. */
	rc = post_all(link);
	if (rc < 0) {
		leave_place(link);
		link_release(link);
		return rc;
	}
	*ret_link = link;
	return 0;
}

struct worker_link *worker_link_free(struct worker_link *link)
{
	if (!link)
		return NULL;
	assert(link->n_lanes == 0 && link->state == WORKER_LINK_GONE);
	link_release(link);
	return NULL;
}

/* --- the loop's ------------------------------------------------------------------------------- */

static struct link_limits limits_of(const struct worker_link *link, uint32_t peer_credits)
{
	uint64_t bytes = link->worker->config.link_bytes;

	if (bytes < LINK_CHUNK_BYTES)
		bytes = (uint64_t)LINK_OUT_CHUNKS * LINK_CHUNK_BYTES;
	return (struct link_limits){
		.depth = link->qp->send_wr_max,
		.inline_bytes = link->qp->inline_max,
		.chunk_bytes = LINK_CHUNK_BYTES,
		.link_bytes = (uint32_t)u64_min(bytes, 1u << 30),
		.lane_bytes =
			(uint32_t)u64_min(bytes, (uint64_t)LANE_OUT_CHUNKS * LINK_CHUNK_BYTES),
		.own_credits = link->credits,
		.peer_credits = peer_credits,
	};
}

int worker_link_up(struct worker_link *link, const struct worker_link_setup *setup)
{
	const struct link_limits limits = limits_of(link, setup->peer_credits);

	if (!link_limits_are_ok(&limits))
		return -EPROTO;
	link->setup = *setup;
	/* Here, so that whoever reads its counters does not read while they are cleared. */
	link_send_init(&link->send, &limits, link->notes);
	mail_ask(link->worker, &link->mail, ASK_BEGIN);
	return 0;
}

void worker_link_end(struct worker_link *link, const char *why)
{
	pthread_mutex_lock(&link->worker->lock);
	snprintf(link->end_why, sizeof(link->end_why), "%s", why);
	pthread_mutex_unlock(&link->worker->lock);
	mail_ask(link->worker, &link->mail, ASK_END);
}

void *worker_link_user(const struct worker_link *link)
{
	return link->user;
}

uint32_t worker_link_lanes(const struct worker_link *link)
{
	return link->n_lanes;
}

/* --- the thread's ----------------------------------------------------------------------------- */

void link_touch(struct worker_link *link)
{
	if (link->state == WORKER_LINK_UP && !list_is_linked(&link->dirty))
		list_push_back(&link->worker->dirty, &link->dirty);
}

/* What it stands at, for whoever reads the counters. */
void link_show(struct worker_link *link)
{
	const struct link_flow *flow = &link->send.flow;

	count_set(&link->counts.credits, flow->credits);
	count_set(&link->counts.owed, flow->owed);
	count_set(&link->counts.wrs_out, link_flow_out(flow));
}

void link_go_up(struct worker_link *link)
{
	struct worker *worker = link->worker;
	bool is_iwarp = worker->config.device->info.transport == FABRIC_IWARP;

	if (link->state != WORKER_LINK_MADE)
		return;
	link_test_init(&link->test, worker->now_ns);
	link->state = WORKER_LINK_UP;
	link->may_send = !is_iwarp || link->setup.is_dialer;
	list_push_back(&worker->up, &link->links);
	count_add(&worker->counts.links_made, 1);
	cq_add(worker, link->qp->cq);
	if (is_iwarp && link->setup.is_dialer) {
		/* The other end waits for a first message: the question of the test is one, asked
		 * as if there had been silence for long. */
		link->test.heard_ns = worker->now_ns - LINK_TEST_IDLE_NS;
	}
	worker_deadline(worker, worker->now_ns);
	for (uint32_t i = 0; i < link->n_early && link->state == WORKER_LINK_UP; i++)
		link_receive(link, link->early[i].slot, link->early[i].len);
	link->n_early = 0;
	link_touch(link);
}

/* Forget it. Its lanes are over with it. */
static void link_gone(struct worker_link *link)
{
	struct worker *worker = link->worker;

	if (link->state == WORKER_LINK_DRAINS)
		cq_drop(worker, link->qp->cq);
	list_unlink(&link->links);
	list_unlink(&link->dirty);
	lanes_over(link);
	link->state = WORKER_LINK_GONE;
	mail_tell_link(link, TELL_GONE, NULL);
}

void link_fail(struct worker_link *link, const char *format, ...)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct worker *worker = link->worker;
	char why[WORKER_WHY_BYTES];
	enum worker_link_state before = link->state;
	va_list args;
	int rc;

	if (before >= WORKER_LINK_DRAINS)
		return;
	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	link->state = WORKER_LINK_DRAINS;
	for (uint32_t i = 0; i < link->lanes.count; i++) {
		if (link->lanes.lane[i])
			lane_lose(link->lanes.lane[i]->user);
	}
	mail_tell_link(link, TELL_DOWN, why);
	if (before == WORKER_LINK_MADE) {
		/* Its queue pair may be gone. */
		link->state = WORKER_LINK_GONE;
		link_gone(link);
		return;
	}
	count_add(&worker->counts.links_lost, 1);
	list_unlink(&link->dirty);
	/* This blocks for what the device's firmware takes; a link is lost rarely, and as long as
	 * its queue pair is not in ERR the peer may write into memory of its lanes. */
	rc = ibv_modify_qp(link->qp->verbs, &attr, IBV_QP_STATE);
	if (rc)
		log_debug("%s: a queue pair does not go to ERR: error %d",
			  worker->config.device->info.name, rc);
	link->drain_ns = worker->now_ns + WORKER_DRAIN_NS;
	worker_deadline(worker, link->drain_ns);
}

void link_asked_to_end(struct worker_link *link)
{
	char why[WORKER_WHY_BYTES];

	pthread_mutex_lock(&link->worker->lock);
	memcpy(why, link->end_why, sizeof(why));
	pthread_mutex_unlock(&link->worker->lock);
	link_fail(link, "%s", why);
}

/* Forget links that have drained, or had the time to. */
void links_drain(struct worker *worker)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &worker->up) {
		struct worker_link *link = list_entry(node, struct worker_link, links);

		if (link->state != WORKER_LINK_DRAINS)
			continue;
		if (worker->now_ns >= link->drain_ns ||
		    (link_flow_is_settled(&link->send.flow) && link->receives_out == 0))
			link_gone(link);
	}
}

/* Whether a lane that ends waits for the peer for too long. */
static bool is_overdue(struct worker_link *link)
{
	struct worker *worker = link->worker;
	struct list *node;

	list_for_each (node, &link->ending) {
		const struct worker_lane *lane = list_entry(node, struct worker_lane, ending);

		if (worker->now_ns >= lane->done_ns)
			return true;
		worker_deadline(worker, lane->done_ns);
	}
	return false;
}

static void link_time(struct worker_link *link)
{
	struct worker *worker = link->worker;
	uint64_t next_ns = UINT64_MAX;

	switch (link_test_tick(&link->test, worker->now_ns, &next_ns)) {
	case LINK_TEST_FINE:
		break;
	case LINK_TEST_ASK:
		link_send_ask(&link->send, link->test.number);
		link_touch(link);
		break;
	case LINK_TEST_DEAD:
		link_fail(link, "the peer has not answered for %llu ms",
			  LINK_TEST_WAIT_NS / 1000000ull);
		return;
	}
	worker_deadline(worker, next_ns);
	if (is_overdue(link))
		link_fail(link, "the peer has not ended a lane within %llu ms",
			  WORKER_DONE_NS / 1000000ull);
}

void links_time(struct worker *worker)
{
	struct list *node, *next;

	worker->next_ns = UINT64_MAX;
	list_for_each_safe (node, next, &worker->up) {
		struct worker_link *link = list_entry(node, struct worker_link, links);

		if (link->state == WORKER_LINK_UP)
			link_time(link);
		if (link->state == WORKER_LINK_DRAINS)
			worker_deadline(worker, link->drain_ns);
	}
}

/* --- messages --------------------------------------------------------------------------------- */

static void link_news(struct worker_link *link, const struct link_news *news)
{
	switch (news->type) {
	case LINK_MSG_TEST_ANSWER:
		if (!link_test_answered(&link->test, news->number)) {
			link_fail(link, "the peer answers what nobody asked");
			break;
		}
		count_add(&link->counts.answers, 1);
		count_set(&link->counts.round_trip_ns, clock_now_ns() - link->test.asked_ns);
		break;
	case LINK_MSG_BYE:
		link_fail(link, "the peer has closed the link");
		break;
	default:
		break;
	}
}

/* The message of @len bytes in receive @slot. */
void link_receive(struct worker_link *link, uint32_t slot, uint32_t len)
{
	const uint8_t *bytes = link->receives + (size_t)slot * WORKER_RECEIVE_BYTES;
	struct link_news news;

	count_add(&link->counts.received, 1);
	link->may_send = true;
	link_test_heard(&link->test, link->worker->now_ns);
	switch (link_take(&link->send, &link->lanes, bytes, len, &news)) {
	case LINK_TAKEN:
		if (news.lane)
			lane_news(news.lane->user, &news);
		else
			link_news(link, &news);
		break;
	case LINK_STALE:
		break;
	case LINK_LANE_BREACH:
		lane_breach(news.lane->user, &news);
		break;
	case LINK_LINK_BREACH:
		link_fail(link, "the peer breaks the protocol: %s", news.why);
		break;
	}
	if (link->state == WORKER_LINK_UP)
		link->repost[link->n_repost++] = slot;
	link_touch(link);
}

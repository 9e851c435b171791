/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "core/link_flow.h"
#include "devices_impl.h"
#include "events.h"
#include "links_impl.h"
#include "os/clock.h"
#include "remote_lane.h"

/*
 * A link has two halves of life that end in either order: the connection manager's (until closed())
 * and the worker's (until link_gone()). Behind both, and when no lane has anything registered for
 * it any more, its memory is released on the control thread.
 */

static void free_now(struct host_link *link)
{
	struct link_peer *peer = link->peer;
	struct host_device *dev = link->dev;

	list_unlink(&link->link);
	free(link);
	link_peer_put(peer);
	dev->n_links--;
	host_device_settle(dev);
}

static void free_run(struct control_job *job)
{
	struct host_link *link = container_of(job, struct host_link, free_job);

	link->worker = worker_link_free(link->worker);
}

static void free_done(struct control_job *job)
{
	struct host_link *link = container_of(job, struct host_link, free_job);

	if (job->cancelled)
		free_run(job);
	free_now(link);
}

/* Free it if nothing of it is left. */
static void settle(struct host_link *link)
{
	int rc;

	if (!link->is_closed || (link->worker && !link->is_gone) || link->lanes || link->is_freeing)
		return;
	if (!link->worker) {
		free_now(link);
		return;
	}
	link->free_job = (struct control_job){.run = free_run, .done = free_done};
	rc = control_submit(&link->dev->control, &link->free_job);
	link->is_freeing = rc == 0;
	if (rc == CONTROL_FULL) {
		links_wake(link->peer->links);
	} else if (rc == CONTROL_STOPPED) {
		free_run(&link->free_job);
		free_now(link);
	}
}

void host_link_tick(struct host_link *link)
{
	settle(link);
}

void host_link_put(struct host_link *link)
{
	link->lanes--;
	settle(link);
}

/* It has come to nothing, or is lost; once. */
static void fail(struct host_link *link, const char *why)
{
	if (link->is_down)
		return;
	link->is_down = true;
	links_failed(link, why);
	remote_link_down(link);
}

void host_link_end(struct host_link *link, const char *why)
{
	fail(link, why);
	if (link->worker && link->is_up)
		worker_link_end(link->worker, why);
	link_close(&link->cm, why);
}

/* --- the connection manager's ----------------------------------------------------------------- */

/* On the control thread. */
static int prepare(struct link *cm, struct qp *qp)
{
	struct host_link *link = container_of(cm, struct host_link, cm);
	int rc = worker_link_make(link->dev->worker, qp, link->credits, link, &link->worker);

	return rc > 0 ? -ENOSPC : rc;
}

static void on_up(struct link *cm)
{
	struct host_link *link = container_of(cm, struct host_link, cm);
	struct link_peer *peer = link->peer;
	const struct worker_link_setup setup = {
		.peer_credits = cm->peer.credits,
		.is_dialer = cm->is_dialer,
	};

	if (!link_group_result(&peer->group, link->path, link->attempt, LINK_PLACE_EV_UP,
			       clock_now_ns())) {
		link_close(cm, "another link was made meanwhile");
		return;
	}
	link->qp = TAKE(cm->qp, NULL);
	link->is_up = true;
	link->up_ns = clock_now_ns();
	if (worker_link_up(link->worker, &setup) < 0) {
		host_link_end(link, "the other daemon has too few receives");
		return;
	}
	peer->up = link;
	peer->failures = 0;
	links_note_failed(peer, REASON_NONE, "");
	peer->links->made++;
	event_log_within(&peer->links->ups, link->up_ns, LINK_UP,
			 LOG_FACTS(LOG_TEXT("SHUNT_PEER", peer->name),
				   LOG_TEXT("SHUNT_DEVICE", link->dev->name)),
			 "peer %s: link up over %s, %s", peer->name, link->dev->name,
			 cm->is_dialer ? "dialled from here" : "dialled by it");
}

static void on_down(struct link *cm, const char *why)
{
	struct host_link *link = container_of(cm, struct host_link, cm);

	fail(link, why);
	if (link->is_up)
		worker_link_end(link->worker, why);
}

static void on_closed(struct link *cm)
{
	struct host_link *link = container_of(cm, struct host_link, cm);

	fail(link, cm->why);
	link->is_closed = true;
	/* No step runs any more that could still make it. */
	if (link->worker && !link->is_gone)
		worker_link_end(link->worker, cm->why);
	settle(link);
}

static const struct link_ops cm_ops = {
	.prepare = prepare, .up = on_up, .down = on_down, .closed = on_closed};

struct host_link *host_link_new(struct link_peer *peer, struct host_device *dev,
				struct qp_pool *pool, uint64_t path, uint32_t attempt)
{
	struct host_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->peer = peer;
	link->dev = dev;
	link->pool = pool;
	link->path = path;
	link->attempt = attempt;
	link->credits = (uint32_t)u64_min(pool->spec.recv_wr, LINK_CREDITS_MAX);
	link_init(&link->cm, &dev->cm, pool, &cm_ops);
	list_push_back(&peer->links->all, &link->link);
	peer->refs++;
	dev->n_links++;
	return link;
}

/* --- the worker's ----------------------------------------------------------------------------- */

static void link_down(struct worker_link *worker_link, const char *why)
{
	struct host_link *link = worker_link_user(worker_link);

	fail(link, why);
	link_close(&link->cm, why);
}

static void link_gone(struct worker_link *worker_link)
{
	struct host_link *link = worker_link_user(worker_link);
	const struct worker_link_counts counts = worker_link_counts(worker_link);

	link->is_gone = true;
	link_figures_add(&link->dev->gone, &counts);
	link_figures_add(&link->peer->links->gone, &counts);
	if (link->qp)
		qp_pool_retire(link->pool, TAKE(link->qp, NULL));
	settle(link);
}

const struct worker_ops links_worker_ops = {
	.lane_words = remote_lane_words,
	.lane_ended = remote_lane_ended,
	.lane_over = remote_lane_over,
	.link_down = link_down,
	.link_gone = link_gone,
};

/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fabric/worker_impl.h"
#include "os/sys.h"
#include "os/syswait.h"

/* --- the loop's ------------------------------------------------------------------------------- */

int worker_lane_make(struct worker_link *link, void *user, struct worker_lane **ret_lane)
{
	uint32_t index = 0;
	struct worker_lane *lane;

	while (index < link->lanes.count && link->places[index].is_taken)
		index++;
	if (index == link->lanes.count)
		return WORKER_FULL;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return -ENOMEM;
	mail_init(&lane->mail, MAIL_LANE);
	list_init(&lane->hot);
	list_init(&lane->ending);
	lane->source = SOURCE_BELL;
	lane->link = link;
	lane->user = user;
	link->places[index].is_taken = true;
	lane->token = (struct cdc_token){index, ++link->places[index].generation};
	link->n_lanes++;
	*ret_lane = lane;
	return 0;
}

struct cdc_token worker_lane_token(const struct worker_lane *lane)
{
	return lane->token;
}

int worker_lane_begin(struct worker_lane *lane, const struct worker_lane_setup *setup)
{
	assert(!lane->is_begun);
	if (!ring_size_ok(setup->client_bytes) || !ring_size_ok(setup->fed_bytes) ||
	    !ring_size_ok(setup->peer_bytes) || !ring_size_ok(setup->peer_source_bytes) ||
	    setup->epoch == 0)
		return -EINVAL;
	lane->setup = *setup;
	lane->is_begun = true;
	mail_ask(lane->link->worker, &lane->mail, ASK_BEGIN);
	return 0;
}

void worker_lane_end(struct worker_lane *lane)
{
	if (lane->is_begun)
		mail_ask(lane->link->worker, &lane->mail, ASK_END);
}

void worker_lane_end_alone(struct worker_lane *lane)
{
	if (lane->is_begun)
		mail_ask(lane->link->worker, &lane->mail, ASK_ALONE);
}

struct worker_lane *worker_lane_free(struct worker_lane *lane)
{
	if (!lane)
		return NULL;
	assert(!lane->is_begun || lane->mail.is_closed);
	lane->link->places[lane->token.index].is_taken = false;
	lane->link->n_lanes--;
	free(lane);
	return NULL;
}

void *worker_lane_user(const struct worker_lane *lane)
{
	return lane->user;
}

const char *worker_end_name(enum worker_end end)
{
	static const char *const names[WORKER_ENDS] = {
		[WORKER_ASKED] = "asked",
		[WORKER_PEER_DONE] = "peer_done",
		[WORKER_LOST] = "lost",
		[WORKER_PEER_BREACH] = "peer_breach",
		[WORKER_CLIENT_BREACH] = "client_breach",
	};

	return (unsigned int)end < WORKER_ENDS ? names[end] : "invalid";
}

/* --- hot and parked --------------------------------------------------------------------------- */

static void unpark(struct worker_lane *lane)
{
	if (TAKE(lane->is_parked, false))
		lane->link->worker->n_parked--;
}

void lane_heat(struct worker_lane *lane)
{
	lane->quiet_turns = 0;
	unpark(lane);
	if (!lane->is_ended && !lane->is_waiting && !list_is_linked(&lane->hot))
		list_push_back(&lane->link->worker->hot, &lane->hot);
}

static void unblocked(struct worker_lane *lane)
{
	uint64_t ns = lane->link->worker->now_ns - TAKE(lane->blocked_since_ns, 0);

	count_add(&lane->counts.blocked_ns, ns);
	count_add(&lane->link->counts.blocked_ns, ns);
}

/* How long our bytes wait for nothing but room there. */
static void clock_blocked(struct worker_lane *lane)
{
	uint64_t now_ns = lane->link->worker->now_ns;
	bool blocked = link_lane_is_blocked(&lane->core);

	if (blocked && !lane->blocked_since_ns) {
		lane->blocked_since_ns = now_ns;
		count_add(&lane->counts.blocked, 1);
		count_add(&lane->link->counts.blocked, 1);
	} else if (!blocked && lane->blocked_since_ns) {
		unblocked(lane);
	}
}

/* Whether the client has done anything new; a breach ends the lane. */
static bool lane_look(struct worker_lane *lane)
{
	const char *why;
	int rc = half_look(lane, &why);

	if (rc < 0)
		lane_end(lane, WORKER_CLIENT_BREACH, why);
	if (rc == 0)
		return false;
	lane->quiet_turns = 0;
	clock_blocked(lane);
	link_touch(lane->link);
	return true;
}

/* Park it, unless something is new. */
static bool lane_park(struct worker_lane *lane)
{
	half_arm(lane);
	if (lane_look(lane))
		return false;
	list_unlink(&lane->hot);
	lane->is_parked = true;
	lane->link->worker->n_parked++;
	count_add(&lane->link->worker->counts.parked, 1);
	return true;
}

bool lanes_poll(struct worker *worker)
{
	struct list *node, *next;
	bool any = false;

	list_for_each_safe (node, next, &worker->hot) {
		struct worker_lane *lane = list_entry(node, struct worker_lane, hot);

		if (lane_look(lane))
			any = true;
		else if (++lane->quiet_turns > WORKER_HOT_TURNS)
			any |= !lane_park(lane);
	}
	return any;
}

bool lanes_park(struct worker *worker)
{
	struct list *node, *next;
	bool all = true;

	list_for_each_safe (node, next, &worker->hot)
		all &= lane_park(list_entry(node, struct worker_lane, hot));
	return all;
}

/* --- the beginning ---------------------------------------------------------------------------- */

static int watch_bell(struct worker_lane *lane)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &lane->source};

	return sys_epoll_ctl(lane->link->worker->epoll_fd, EPOLL_CTL_ADD, lane->setup.own_bell,
			     &event);
}

static void forget_bell(struct worker_lane *lane)
{
	/* It may not be watched, if that has failed. */
	sys_epoll_ctl(lane->link->worker->epoll_fd, EPOLL_CTL_DEL, lane->setup.own_bell, NULL);
}

void lane_go(struct worker_lane *lane)
{
	struct worker_link *link = lane->link;
	const struct link_lane_setup setup = {
		.own = lane->token,
		.peer = lane->setup.peer,
		.epoch = lane->setup.epoch,
		.own_bytes = lane->setup.client_bytes,
		.peer_bytes = lane->setup.peer_bytes,
		.recv_bytes = lane->setup.fed_bytes,
		.source_bytes = lane->setup.peer_source_bytes,
	};
	int rc;

	link_lane_init(&lane->core, &setup, lane);
	if (link->state != WORKER_LINK_UP) {
		lane->is_ended = true;
		mail_tell_lane(lane, TELL_ENDED, WORKER_LOST, "its link is not up");
		mail_tell_over(lane, true);
		return;
	}
	link->lanes.lane[lane->token.index] = &lane->core;
	count_add(&link->counts.lanes, 1);
	count_add(&link->worker->counts.lanes_begun, 1);
	rc = watch_bell(lane);
	if (rc < 0) {
		lane_end(lane, WORKER_LOST, "its bell can't be watched");
		return;
	}
	lane->is_waiting = lane->setup.is_second;
	if (!lane->is_waiting) {
		/* It begins with a message, be there anything to say or not: the peer waits. */
		link_send_want(&link->send, &lane->core);
		link_touch(link);
		lane_heat(lane);
	}
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Nothing of either half is touched behind this. */
static void freeze(struct worker_lane *lane, enum worker_end end, const char *why)
{
	lane->is_ended = true;
	link_lane_freeze(&lane->core);
	list_unlink(&lane->hot);
	unpark(lane);
	forget_bell(lane);
	if (lane->blocked_since_ns)
		unblocked(lane);
	mail_tell_lane(lane, TELL_ENDED, end, why);
}

void lane_end(struct worker_lane *lane, enum worker_end end, const char *why)
{
	struct worker_link *link = lane->link;
	const char *fault;

	if (lane->is_ended)
		return;
	/* What its client did last: the offset of what it has consumed goes with LANE_DONE. */
	if (end == WORKER_ASKED && !lane->is_waiting && half_look(lane, &fault) < 0) {
		end = WORKER_CLIENT_BREACH;
		why = fault;
	}
	freeze(lane, end, why);
	if (link->state != WORKER_LINK_UP)
		return;
	/* One that waits may have no other end yet, which would miss this. */
	if (!lane->is_waiting)
		link_send_stop(&link->send, &lane->core);
	lane->done_ns = link->worker->now_ns + WORKER_DONE_NS;
	worker_deadline(link->worker, lane->done_ns);
	list_push_back(&link->ending, &lane->ending);
	link_touch(link);
}

/* It need not wait for the other end any more. */
static void lane_is_heard(struct worker_lane *lane)
{
	if (TAKE(lane->is_waiting, false) && lane->is_ended)
		link_send_stop(&lane->link->send, &lane->core);
}

void lane_end_alone(struct worker_lane *lane)
{
	lane_end(lane, WORKER_PEER_DONE, "the peer never began it");
	lane_is_heard(lane);
	lane->peer_is_done = true;
	link_touch(lane->link);
}

void lane_lose(struct worker_lane *lane)
{
	if (!lane->is_ended)
		freeze(lane, WORKER_LOST, "its link is lost");
}

/* The worker forgets @lane. */
static void lane_over(struct worker_lane *lane, bool link_lost)
{
	struct worker_link *link = lane->link;

	list_unlink(&lane->ending);
	link->lanes.lane[lane->token.index] = NULL;
	count_add(&link->counts.lanes, UINT64_MAX);
	count_add(&link->worker->counts.lanes_over, 1);
	mail_tell_over(lane, link_lost);
}

void lanes_finish(struct worker_link *link)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &link->ending) {
		struct worker_lane *lane = list_entry(node, struct worker_lane, ending);

		if (!lane->peer_is_done || !(lane->core.tx.flags & CDC_F_DONE) ||
		    !link_lane_is_quiet(&lane->core))
			continue;
		link_send_remove(&link->send, &lane->core);
		lane_over(lane, false);
	}
}

void lanes_over(struct worker_link *link)
{
	for (uint32_t i = 0; i < link->lanes.count; i++) {
		if (link->lanes.lane[i])
			lane_over(link->lanes.lane[i]->user, true);
	}
}

/* --- messages --------------------------------------------------------------------------------- */

void lane_news(struct worker_lane *lane, const struct link_news *news)
{
	count_add(&lane->counts.received, 1);
	lane_is_heard(lane);
	if (!lane->is_ended) {
		half_feed(lane, news);
		if (news->words.set)
			mail_tell_lane(lane, TELL_WORDS, WORKER_ASKED, "");
		clock_blocked(lane);
		/* Its client is about to do something. */
		lane_heat(lane);
	}
	if (news->type == LINK_MSG_LANE_DONE) {
		lane->peer_is_done = true;
		lane_end(lane, WORKER_PEER_DONE, "the peer has ended it");
	}
}

void lane_breach(struct worker_lane *lane, const struct link_news *news)
{
	if (!lane->is_ended)
		count_add(&lane->link->counts.breaches, 1);
	lane_is_heard(lane);
	lane_end(lane, WORKER_PEER_BREACH, news->why);
	/* Nothing that it says is listened to any more but that it writes no more; it may as well
	 * never say so, and then the link is killed. */
	if (news->type == LINK_MSG_LANE_DONE)
		lane->peer_is_done = true;
}

/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "os/fd.h"
#include "os/memfd.h"
#include "peers_impl.h"
#include "remote_lane.h"
#include "remote_ops.h"
#include "server.h"
#include "session.h"

/* How long a daemon that is about to end answers for lanes whose client is through: the other one
 * may have to ask. Chosen: it has asked several times by then, if it is there. */
#define ANSWERS_NS 500000000u

void remote_hold(struct remote_lane *lane, struct end *end)
{
	end->remote = lane;
	end->last_epoch = lane->epoch;
	if (!lane->end)
		lane->end = end;
}

/* Another end that holds the same lane; @end itself if none does. */
static struct end *next_holder(const struct end *end)
{
	struct end *kin = end_next_kin(end);

	while (kin->remote != end->remote)
		kin = end_next_kin(kin);
	return kin;
}

bool remote_let_go(struct end *end)
{
	struct remote_lane *lane = end->remote;
	struct end *next = next_holder(end);

	end->remote = NULL;
	if (lane->end == end)
		lane->end = next == end ? NULL : next;
	return !lane->end;
}

/* --- the client ------------------------------------------------------------------------------- */

static enum coupling_verdict check_epoch(const struct end *end, uint32_t epoch)
{
	if (end->remote->epoch == epoch)
		return COUPLING_OK;
	return epoch <= end->last_epoch ? COUPLING_LATE : COUPLING_WRONG;
}

static enum coupling_verdict mapped(struct end *end, uint32_t epoch)
{
	enum coupling_verdict verdict = check_epoch(end, epoch);
	struct remote_lane *lane = end->remote;
	enum reason reason;

	if (verdict != COUPLING_OK)
		return verdict;
	if (lane->has_mapped || memfd_seal_writers(lane->half) < 0)
		return COUPLING_WRONG;
	lane->has_mapped = true;
	reason = remote_lane_attach(lane);
	if (reason != REASON_NONE)
		remote_take_back(lane, reason, reason);
	return COUPLING_OK;
}

static enum coupling_verdict drained(struct end *end, uint32_t epoch, enum reason reason)
{
	enum coupling_verdict verdict = check_epoch(end, epoch);
	struct remote_lane *lane = end->remote;

	if (verdict != COUPLING_OK)
		return verdict;
	end->state = CTL_STATE_TCP;
	end->reason = reason;
	if (!lane->has_begun) {
		remote_take_back(lane, REASON_NONE, REASON_PEER_LEFT);
		return COUPLING_OK;
	}
	remote_let_go(end);
	end_note(end, HISTORY_DRAINED, reason, epoch);
	lane->r.drained = true;
	remote_unkeep(lane);
	/* Its last words go with that. */
	if (lane->worker)
		worker_lane_end(lane->worker);
	remote_act(lane);
	return COUPLING_OK;
}

static void leave(struct end *end, enum reason reason, bool died)
{
	const struct ctl_msg msg = {
		.type = CTL_UNPAIR,
		.token = end->token,
		.u.unpair = {.epoch = end->remote->epoch, .reason = reason},
	};
	struct remote_lane *lane = end->remote;

	if (!lane->has_begun) {
		remote_take_back(lane, reason == REASON_CANCELLED ? reason : REASON_NONE,
				 died ? REASON_PEER_DIED : REASON_PEER_LEFT);
		return;
	}
	if (reason == REASON_CANCELLED) {
		/* It crossed our PEER, so this end never said ready, and nothing has begun. */
		end_note(end, HISTORY_UNPAIRED, reason, lane->epoch);
		session_send(end->session, &msg, NULL, 0);
		end->state = CTL_STATE_TCP;
		remote_let_go(end);
		lane->r.drained = true;
		remote_unkeep(lane);
		if (lane->worker)
			worker_lane_end(lane->worker);
		remote_act(lane);
		return;
	}
	if (!remote_let_go(end))
		return;
	if (reason == REASON_SEVERAL_HOLDERS)
		return; /* another process takes its place */
	/* Who closes tells us if he is the last holder; of the dead their bell tells. */
	if (reason == REASON_CLOSED)
		lane->gone_ns = loop_now(&lane->server->loop);
	remote_act_soon(lane);
}

static void ask_demote(struct end *end, enum reason reason)
{
	const struct ctl_msg msg = {
		.type = CTL_DEMOTE,
		.token = end->token,
		.u.demote = {.reason = reason},
	};

	end_note(end, HISTORY_ASKED, reason, end->remote->epoch);
	session_send(end->session, &msg, NULL, 0);
	session_kick(end->session);
}

static const struct remote_ops ops = {
	.mapped = mapped,
	.drained = drained,
	.leave = leave,
	.ask_demote = ask_demote,
	.adopt = remote_adopt,
	.add_live = remote_add_live,
	.add_sizes = remote_add_sizes,
	.messages = remote_messages,
	.show = remote_json,
};

void remote_start(struct links *links)
{
	remote_lanes_init(links->server->peers->offer_id);
	links->server->remote = &ops;
}

/* All that hold @lane: any may be asleep in a place where it can't be woken. */
static void ask_holders(const struct remote_lane *lane, enum reason reason)
{
	struct end *end = lane->end;

	do {
		if (end->remote == lane)
			ask_demote(end, reason);
		end = end_next_kin(end);
	} while (end != lane->end);
}

void remote_retire(void)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (!lane->has_begun)
			remote_take_back(lane, REASON_NO_LINK, REASON_PEER_LEFT);
		else if (lane->end)
			ask_holders(lane, REASON_DAEMON_GONE);
	}
}

bool remote_are_any_left(const struct server *server)
{
	struct list *node;

	list_for_each (node, &remote_lanes) {
		const struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->end || lane->r.sock >= 0 || !lane->has_ended ||
		    loop_now(&server->loop) - lane->ended_ns < ANSWERS_NS)
			return true;
	}
	return false;
}

void remote_lapse(const struct link_peer *peer)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->peer != peer)
			continue;
		if (!lane->has_begun)
			remote_take_back(lane, REASON_NO_PEER_DAEMON, REASON_PEER_LEFT);
		else if (lane->end)
			ask_holders(lane, REASON_NO_PEER_DAEMON);
	}
}

void remote_want(const struct link_peer *peer)
{
	struct list *node;

	list_for_each (node, &remote_lanes) {
		const struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->peer != peer)
			continue;
		peers_want(lane->server->peers, &lane->name);
		return;
	}
}

void remote_stop(void)
{
	struct list *node, *next;

	remote_keep_all();
	list_for_each_safe (node, next, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (!lane->has_begun) {
			remote_take_back(lane, REASON_NONE, REASON_PEER_LEFT);
			continue;
		}
		/* As if we had died: the halves are left as they are, and what is to be reset is by
		 * the program's own guard. */
		lane->end = NULL;
		lane->is_unwanted = true;
		fd_close(TAKE(lane->r.sock, -1));
		if (lane->worker)
			worker_lane_end(lane->worker);
		remote_lane_settle(lane);
	}
}

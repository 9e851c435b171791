/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"
#include "core/ring.h"
#include "os/bell.h"
#include "os/fd.h"
#include "pair.h"
#include "remote_lane.h"
#include "server.h"
#include "session.h"

/* --- taking back ------------------------------------------------------------------------------ */

static void send_refuse(struct remote_lane *lane, enum reason reason)
{
	const struct peer_msg msg = {
		.type = PEER_REFUSE,
		.u.refuse = {.your_id = lane->peer_id, .reason = (uint16_t)reason},
	};

	if (lane->peer->session)
		peer_session_send(lane->peer->session, &msg);
}

void remote_take_back(struct remote_lane *lane, enum reason answer, enum reason reason)
{
	struct ctl_msg msg = {.type = CTL_UNPAIR, .u.unpair = {.epoch = lane->epoch}};
	struct end *end = lane->end;

	if (lane->is_failed)
		return;
	lane->is_failed = true;
	if (reason != REASON_NONE)
		send_refuse(lane, reason);
	fd_close(TAKE(lane->r.sock, -1));
	while (end) {
		remote_let_go(end);
		end->state = CTL_STATE_TCP;
		end->reason = answer;
		msg.token = end->token;
		msg.u.unpair.reason = answer;
		if (answer != REASON_NONE) {
			end_note(end, HISTORY_UNPAIRED, answer, lane->epoch);
			session_send(end->session, &msg, NULL, 0);
			session_kick(end->session);
		}
		end = lane->end;
	}
	remote_lane_settle(lane);
}

/* --- the beginning ---------------------------------------------------------------------------- */

/* Whether an older lane of the connection still has its socket: its FIN or replay is under way. */
static bool is_held(const struct tcp_name *name)
{
	struct list *node;

	list_for_each (node, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->r.sock >= 0 && memcmp(&lane->name, name, sizeof(*name)) == 0)
			return true;
	}
	return false;
}

static void send_pair(struct remote_lane *lane)
{
	AUTO_FD int bell = bell_copy(lane->bell);
	AUTO_FD int ear = TAKE(lane->ear_bell, -1);
	const int fds[3] = {lane->half, bell, ear};
	const struct ctl_msg msg = {
		.type = CTL_PAIR,
		.token = lane->end->token,
		.u.pair =
			{
				.epoch = lane->epoch,
				.role = !link_peer_we_are_lower(lane->peer),
				.flags = CTL_LANE_REMOTE,
				.own_ring_bytes = lane->ring_bytes,
				.peer_ring_bytes = lane->ring_bytes,
			},
	};

	if (bell < 0) {
		session_cut(lane->end->session, "no descriptor is left for its lane");
		return;
	}
	end_note(lane->end, HISTORY_PAIRED, REASON_NONE, lane->epoch);
	session_send(lane->end->session, &msg, fds, ARRAY_SIZE(fds));
}

enum reason remote_match(void *ctx, struct peer_session *session, struct end *end, uint64_t own_id,
			 const struct peer_offer *offer)
{
	const struct link_peer *peer = links_peer_of(ctx, session);
	struct remote_lane *lane;
	enum reason reason;

	if (!peer || peer->links->is_retiring)
		return REASON_NO_LINK;
	if (!peer->up)
		return links_reason(peer);
	if (is_held(&end->name))
		return REASON_PROMOTE_WAIT;
	if (!ring_size_ok(offer->ring_bytes))
		return REASON_PROTOCOL;
	lane = remote_lane_new(peer->up, end, offer, own_id, &reason);
	if (!lane)
		return reason;
	lane->is_first = peers_goes_first(end, offer, link_peer_we_are_lower(peer));
	lane->r.sock = pair_take(end);
	remote_hold(lane, end);
	send_pair(lane);
	return REASON_NONE;
}

static void send_match(struct remote_lane *lane)
{
	const struct cdc_token token = worker_lane_token(lane->worker);
	const struct mr_half *fed = lane->fed.half;
	const struct peer_msg msg = {
		.type = PEER_MATCH,
		.u.match =
			{
				.own_id = lane->own_id,
				.your_id = lane->peer_id,
				.token = {token.index, token.generation},
				.epoch = lane->epoch,
				.rkey = fed->region->rkey,
				.address = (uintptr_t)fed->region->addr,
				.ring_bytes = lane->ring_bytes,
				.link = lane->host_link->cm.own.generation,
			},
	};

	lane->sent_match = true;
	if (lane->peer->session)
		peer_session_send(lane->peer->session, &msg);
}

static void completed(struct remote_lane *lane)
{
	struct tally *tally = &lane->server->tally;
	struct end *end = lane->end;
	const struct ctl_msg msg = {
		.type = CTL_PEER, .token = end->token, .u.peer = {.epoch = lane->epoch}};

	session_send(end->session, &msg, &lane->fed.half->fd, 1);
	tally->lanes++;
	tally->remote++;
	if (end->lanes++ == 0)
		tally->promoted++;
	end->state = CTL_STATE_MAPPED;
	end->reason = REASON_NONE;
	end_note(end, HISTORY_READY, REASON_NONE, lane->epoch);
}

static bool begin(struct remote_lane *lane)
{
	const struct peer_match *match = &lane->match;
	const struct worker_lane_setup setup = {
		.peer = {match->token.index, match->token.generation},
		.epoch = lane->epoch,
		.client = lane->client.half->ctl,
		.client_bytes = lane->ring_bytes,
		.client_lkey = lane->client.half->region->lkey,
		.fed = lane->fed.half->ctl,
		.fed_bytes = lane->ring_bytes,
		.peer_address = match->address,
		.peer_rkey = match->rkey,
		.peer_bytes = match->ring_bytes,
		.peer_source_bytes = lane->source_bytes,
		.client_bell = lane->bell,
		.own_bell = lane->ear,
		.is_second = !lane->is_first,
	};
	void *fed = mmap(NULL, half_bytes(lane->ring_bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
			 lane->fed.half->fd, 0);

	if (fed == MAP_FAILED)
		return false;
	lane->r.fed = fed;
	atomic_store(&lane->r.fed->lane, lane->key.id);
	lane->r.half_ring_bytes = lane->r.fed_ring_bytes = lane->ring_bytes;
	if (worker_lane_begin(lane->worker, &setup) < 0)
		return false;
	lane->has_begun = true;
	return true;
}

void remote_lane_go_on(struct remote_lane *lane)
{
	if (!lane->fed.half || !lane->client.half || lane->has_begun)
		return;
	if (lane->is_first && !lane->sent_match)
		send_match(lane);
	if (!lane->has_match)
		return;
	if (!begin(lane)) {
		remote_take_back(lane, REASON_NO_MEMORY, REASON_NO_MEMORY);
		return;
	}
	remote_keep_later(lane);
	if (!lane->is_first)
		send_match(lane);
	completed(lane);
}

/* --- the other daemon ------------------------------------------------------------------------- */

struct remote_lane *remote_find(const struct link_peer *peer, uint64_t own_id)
{
	struct list *node;

	list_for_each (node, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->peer == peer && lane->own_id == own_id && !lane->is_failed)
			return lane;
	}
	return NULL;
}

/*
 * The other daemon has matched these two offers, and we have not: what we have matched either with
 * instead it has forgotten, and nobody would ever answer.
 */
static void give_up_others(const struct link_peer *peer, const struct peer_match *match)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->peer == peer && !lane->has_begun &&
		    (lane->own_id == match->your_id || lane->peer_id == match->own_id))
			remote_take_back(lane, REASON_PEER_LEFT, REASON_PEER_LEFT);
	}
}

static void on_match(struct link_peer *peer, const struct peer_match *match)
{
	struct remote_lane *lane = remote_find(peer, match->your_id);
	const struct peer_msg no = {
		.type = PEER_REFUSE,
		.u.refuse = {.your_id = match->own_id, .reason = REASON_PEER_LEFT},
	};

	if (!lane || lane->peer_id != match->own_id) {
		give_up_others(peer, match);
		peer_session_send(peer->session, &no);
		return;
	}
	if (lane->has_match && memcmp(match, &lane->match, sizeof(*match)) == 0) {
		/* Said again over a new session: our answer may have been lost with the former. */
		if (lane->has_begun && !lane->is_first)
			send_match(lane);
		return;
	}
	if (lane->has_match || match->epoch != lane->epoch || !lane->host_link ||
	    match->link != lane->host_link->cm.peer.generation ||
	    !ring_size_ok(match->ring_bytes)) {
		if (!lane->has_begun)
			remote_take_back(lane, REASON_NO_LINK, REASON_NO_LINK);
		return;
	}
	lane->has_match = true;
	lane->match = *match;
	remote_lane_go_on(lane);
}

/* The other daemon takes the lane back. Behind our beginning it is lost then. */
static void on_refuse(struct link_peer *peer, const struct peer_refuse *refuse)
{
	struct remote_lane *lane = remote_find(peer, refuse->your_id);

	if (!lane)
		return;
	if (!lane->has_begun) {
		remote_take_back(lane,
				 reason_passes(refuse->reason) ? refuse->reason : REASON_PEER_LEFT,
				 REASON_NONE);
		return;
	}
	lane->is_unwanted = true;
	if (lane->worker)
		worker_lane_end_alone(lane->worker);
}

void remote_message(struct link_peer *peer, const struct peer_msg *msg)
{
	if (msg->type == PEER_MATCH)
		on_match(peer, &msg->u.match);
	else if (msg->type == PEER_REFUSE)
		on_refuse(peer, &msg->u.refuse);
	else if (msg->type == PEER_LOST)
		remote_on_lost(peer, &msg->u.lane_at);
	else if (msg->type == PEER_REPLAYED)
		remote_on_noted(peer, &msg->u.lane_at);
}

/* Whether the other daemon, too, has begun @lane: its word of that came over the link. */
static bool has_heard(const struct remote_lane *lane)
{
	return !lane->worker || worker_lane_counts(lane->worker).received > 0;
}

/*
 * MATCH or REFUSE may have been lost with the former session. What has not begun anywhere is taken
 * back. Of the others MATCH is said again, and the answer is MATCH or REFUSE: by the first, which
 * doesn't know whether the second has begun, and by the second, which doesn't know whether the
 * first has taken it back.
 */
void remote_match_again(struct link_peer *peer)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->peer != peer || lane->is_failed || lane->has_ended)
			continue;
		if (!lane->sent_match)
			remote_take_back(lane, REASON_NO_PEER_DAEMON, REASON_NO_PEER_DAEMON);
		else if (lane->is_first ? !lane->has_begun : !has_heard(lane))
			send_match(lane);
	}
}

void remote_link_down(struct host_link *link)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->host_link == link && !lane->has_begun)
			remote_take_back(lane, REASON_NO_LINK, REASON_NO_LINK);
	}
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "base/util.h"
#include "core/ring.h"
#include "lib/relay/relay.h"
#include "os/bell.h"
#include "os/fd.h"
#include "os/memfd.h"
#include "os/syswait.h"
#include "os/tcp.h"
#include "remote_ops.h"
#include "session.h"

/* end->remote is the place that the end holds. */
static struct host_end *place_of(const struct end *end)
{
	return (struct host_end *)end->remote;
}

void place_hold(struct host_end *place, struct end *end)
{
	end->remote = (struct remote_lane *)place;
	end->last_epoch = place->lane->epoch;
	if (!place->end)
		place->end = end;
}

/* Another end that holds the same place; @end itself if none does. */
static struct end *next_holder(const struct end *end)
{
	struct end *kin = end_next_kin(end);

	while (kin->remote != end->remote)
		kin = end_next_kin(kin);
	return kin;
}

/* @end holds its place no more. Whether nobody else does, either. */
static bool let_go(struct end *end)
{
	struct host_end *place = place_of(end);
	struct end *next = next_holder(end);

	end->remote = NULL;
	if (place->end == end)
		place->end = next == end ? NULL : next;
	return !place->end;
}

/* --- making ----------------------------------------------------------------------------------- */

static void on_ear(struct source *source, uint32_t events)
{
	struct host_end *place = container_of(source, struct host_end, ear);
	char bytes[256];

	while (sys_read(source->fd, bytes, sizeof(bytes)) > 0)
		;
	/* No process has the lane any more: it says so before or soon, or is dead. */
	if (events & EPOLLHUP) {
		loop_remove(source);
		place->gone_ns = loop_now(&place->lane->server->loop);
		relay_act(place->lane);
	}
	relay_wake(place);
}

struct relay_lane *lane_new(struct server *server, uint32_t epoch, uint64_t ring_bytes)
{
	struct relay_lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->server = server;
	lane->epoch = epoch;
	lane->ring_bytes = ring_bytes;
	for (int i = 0; i < 2; i++)
		lane->places[i] = (struct host_end){
			.lane = lane,
			.half = -1,
			.fed = -1,
			.bell = -1,
			.ear_bell = -1,
			.ear = {.fd = -1},
			.r = {.sock = -1},
		};
	relay_fate(lane);
	list_push_back(&relay.lanes, &lane->link);
	return lane;
}

void place_release(struct host_end *place)
{
	struct remote_end *r = &place->r;

	if (r->half)
		munmap((void *)(uintptr_t)r->half, half_bytes(r->half_ring_bytes));
	if (r->fed)
		munmap(r->fed, half_bytes(r->fed_ring_bytes));
	fd_close(r->sock);
	*r = (struct remote_end){.sock = -1};
	loop_remove(&place->ear);
	fd_close(TAKE(place->ear.fd, -1));
	fd_close(TAKE(place->ear_bell, -1));
	fd_close(TAKE(place->bell, -1));
	fd_close(TAKE(place->half, -1));
	fd_close(TAKE(place->fed, -1));
	if (place->user) {
		place->user->ring_bytes -= 2 * place->lane->ring_bytes;
		place->user = quota_user_put(&place->lane->server->quota, place->user);
	}
}

void lane_free(struct relay_lane *lane)
{
	struct timer_heap *timers = &lane->server->loop.timers;

	for (int i = 0; i < 2; i++) {
		place_release(&lane->places[i]);
		timer_clear(timers, &lane->places[i].carry);
		timer_clear(timers, &lane->places[i].act);
	}
	timer_clear(timers, &lane->fate);
	list_unlink(&lane->link);
	free(lane);
}

bool lane_try_free(struct relay_lane *lane)
{
	uint64_t limit_ns = lane->server->conf.resume_timeout_s * 1000000000u;
	uint64_t now = loop_now(&lane->server->loop);

	for (int i = 0; i < 2; i++) {
		const struct host_end *place = &lane->places[i];

		if (place->end || place->r.sock >= 0 ||
		    (place->orphan_ns && now - place->orphan_ns < limit_ns))
			return false;
	}
	lane_free(lane);
	return true;
}

int place_map(struct host_end *place, int half, int fed)
{
	uint64_t ring = place->lane->ring_bytes;
	size_t bytes = half_bytes(ring);
	void *own, *ours;

	own = mmap(NULL, bytes, PROT_READ, MAP_SHARED, half, 0);
	ours = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fed, 0);
	if (own != MAP_FAILED) {
		place->r.half = own;
		place->r.half_ring_bytes = ring;
	}
	if (ours != MAP_FAILED) {
		place->r.fed = ours;
		place->r.fed_ring_bytes = ring;
	}
	return own == MAP_FAILED || ours == MAP_FAILED ? -ENOMEM : 0;
}

int place_listen_to(struct host_end *place, int bell)
{
	int ear = bell_ear(bell);

	if (ear < 0)
		return ear;
	place->ear.fd = ear;
	return loop_add(&place->lane->server->loop, &place->ear, ear, EPOLLIN, on_ear);
}

static enum reason place_make(struct host_end *place, struct end *end)
{
	struct quota *quota = &place->lane->server->quota;
	struct quota_user *user = end->session->user;
	uint64_t bytes = half_bytes(place->lane->ring_bytes);
	struct tcp_facts facts;

	if (tcp_facts_read(end->dup, &facts))
		return REASON_NOT_CONNECTED;
	if (!quota_take_ring(quota, user, 2 * place->lane->ring_bytes))
		return REASON_OVER_QUOTA;
	place->user = quota_user_ref(user);
	place->name = end->name;
	place->half = memfd_make("shunt-half", bytes);
	place->fed = memfd_make("shunt-half", bytes);
	place->bell = bell_make();
	place->ear_bell = bell_make();
	place->r.syn_bias = facts.syn_bias;
	if (place->half < 0 || place->fed < 0 || place->bell < 0 ||
	    place_listen_to(place, place->ear_bell) < 0 ||
	    place_map(place, place->half, place->fed) < 0)
		return REASON_NO_DESCRIPTORS;
	place->r.sock = sys_fcntl(end->dup, F_DUPFD_CLOEXEC, 0);
	return place->r.sock < 0 ? REASON_NO_DESCRIPTORS : REASON_NONE;
}

static void send_pair(struct host_end *place, unsigned int role)
{
	AUTO_FD int bell = bell_copy(place->bell);
	AUTO_FD int ear = TAKE(place->ear_bell, -1);
	const int fds[3] = {place->half, bell, ear};
	const struct ctl_msg msg = {
		.type = CTL_PAIR,
		.token = place->end->token,
		.u.pair =
			{
				.epoch = place->lane->epoch,
				.role = role,
				.flags = CTL_LANE_REMOTE,
				.own_ring_bytes = place->lane->ring_bytes,
				.peer_ring_bytes = place->lane->ring_bytes,
			},
	};

	end_note(place->end, HISTORY_PAIRED, REASON_NONE, place->lane->epoch);
	session_send(place->end->session, &msg, fds, ARRAY_SIZE(fds));
}

/* Whether an older lane of the connection still has its socket: its FIN or replay is under way. */
static bool is_held(const struct tcp_name *name)
{
	struct list *node;

	list_for_each (node, &relay.lanes) {
		struct relay_lane *lane = list_entry(node, struct relay_lane, link);

		for (int i = 0; i < 2; i++)
			if (lane->places[i].r.sock >= 0 &&
			    !memcmp(&lane->places[i].name, name, sizeof(*name)))
				return true;
	}
	return false;
}

/* The duplicates of @a and @b are open still. */
static enum reason pair(struct server *server, struct end *a, struct end *b)
{
	uint32_t epoch = a->next_epoch > b->next_epoch ? a->next_epoch : b->next_epoch;
	struct end *ends[2] = {a, b};
	enum reason reason = REASON_NONE;
	struct relay_lane *lane;

	if (is_held(&a->name) || is_held(&b->name))
		return REASON_PROMOTE_WAIT;
	lane = lane_new(server, epoch, server->conf.ring_bytes);
	if (!lane)
		return REASON_NO_MEMORY;
	for (int i = 0; i < 2 && reason == REASON_NONE; i++)
		reason = place_make(&lane->places[i], ends[i]);
	if (reason != REASON_NONE) {
		lane_free(lane);
		return reason;
	}
	for (unsigned int i = 0; i < 2; i++)
		place_hold(&lane->places[i], ends[i]);
	for (unsigned int i = 0; i < 2; i++)
		send_pair(&lane->places[i], i);
	return REASON_NONE;
}

/* --- the life of a lane ----------------------------------------------------------------------- */

static enum coupling_verdict check_epoch(const struct end *end, uint32_t epoch)
{
	if (place_of(end)->lane->epoch == epoch)
		return COUPLING_OK;
	return epoch <= end->last_epoch ? COUPLING_LATE : COUPLING_WRONG;
}

static void completed(struct relay_lane *lane)
{
	struct tally *tally = &lane->server->tally;

	lane->complete = true;
	for (int i = 0; i < 2; i++) {
		struct end *end = lane->places[i].end;

		tally->lanes++;
		if (end->lanes++ == 0)
			tally->promoted++;
		end->state = CTL_STATE_MAPPED;
		end->reason = REASON_NONE;
		end_note(end, HISTORY_READY, REASON_NONE, lane->epoch);
		relay_wake(&lane->places[i]);
	}
}

static enum coupling_verdict mapped(struct end *end, uint32_t epoch)
{
	enum coupling_verdict verdict = check_epoch(end, epoch);
	struct host_end *place = place_of(end);
	struct ctl_msg msg = {.type = CTL_PEER, .token = end->token, .u.peer = {.epoch = epoch}};

	if (verdict != COUPLING_OK)
		return verdict;
	if (place->half < 0 || memfd_seal_writers(place->half) < 0)
		return COUPLING_WRONG;
	place->mapped = true;
	if (place_other(place)->mapped && relay.conf.half_begun) {
		completed(place->lane);
		relay_die_half_begun();
		return COUPLING_OK;
	}
	session_send(end->session, &msg, &place->fed, 1);
	fd_close(TAKE(place->half, -1));
	fd_close(TAKE(place->fed, -1));
	if (place_other(place)->mapped)
		completed(place->lane);
	return COUPLING_OK;
}

/* A lane that was never complete is taken back on both sides. */
static void take_back(struct relay_lane *lane, struct end *leaver, enum reason answer,
		      enum reason reason)
{
	struct ctl_msg msg = {.type = CTL_UNPAIR, .u.unpair = {.epoch = lane->epoch}};

	for (int i = 0; i < 2; i++) {
		struct end *end = lane->places[i].end;

		if (!end)
			continue;
		msg.token = end->token;
		msg.u.unpair.reason = end == leaver ? answer : reason;
		let_go(end);
		end->state = CTL_STATE_TCP;
		end->reason = msg.u.unpair.reason;
		if (msg.u.unpair.reason != REASON_NONE) {
			session_send(end->session, &msg, NULL, 0);
			session_kick(end->session);
		}
	}
	lane_free(lane);
}

static enum coupling_verdict drained(struct end *end, uint32_t epoch, enum reason reason)
{
	enum coupling_verdict verdict = check_epoch(end, epoch);
	struct host_end *place = place_of(end);

	if (verdict != COUPLING_OK)
		return verdict;
	end->state = CTL_STATE_TCP;
	end->reason = reason;
	if (!place->lane->complete) {
		take_back(place->lane, end, REASON_NONE, REASON_PEER_LEFT);
		return COUPLING_OK;
	}
	place->r.drained = true;
	relay_settle(place);
	/* Its last words are for the other end. */
	relay_wake(place);
	let_go(end);
	end_note(end, HISTORY_DRAINED, reason, epoch);
	return COUPLING_OK;
}

static void leave(struct end *end, enum reason reason, bool died)
{
	struct host_end *place = place_of(end);
	struct relay_lane *lane = place->lane;

	if (!lane->complete) {
		take_back(lane, end, reason == REASON_CANCELLED ? reason : REASON_NONE,
			  died ? REASON_PEER_DIED : REASON_PEER_LEFT);
		return;
	}
	if (reason == REASON_CANCELLED) {
		/* It crossed our PEER, so this end never said ready, and nothing has begun. */
		take_back(lane, end, reason, REASON_PEER_LEFT);
		return;
	}
	if (!let_go(end))
		return;
	if (relay.dying) {
		place_release(place);
		place->orphan_ns = loop_now(&lane->server->loop);
		relay_lose(lane);
		return;
	}
	if (reason == REASON_SEVERAL_HOLDERS)
		return; /* another process takes its place */
	/* Who closes tells us if he is the last holder; of the dead their bell tells. */
	if (reason == REASON_CLOSED) {
		place->r.gone = true;
		place->gone_ns = loop_now(&lane->server->loop);
	}
	relay_wake(place);
	relay_act(lane);
}

static void ask_demote(struct end *end, enum reason reason)
{
	const struct ctl_msg msg = {
		.type = CTL_DEMOTE,
		.token = end->token,
		.u.demote = {.reason = reason},
	};

	end_note(end, HISTORY_ASKED, reason, place_of(end)->lane->epoch);
	session_send(end->session, &msg, NULL, 0);
	session_kick(end->session);
}

const struct remote_ops relay_ops = {
	.pair = pair,
	.mapped = mapped,
	.drained = drained,
	.leave = leave,
	.ask_demote = ask_demote,
	.adopt = relay_adopt,
};

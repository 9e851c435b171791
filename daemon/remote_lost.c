/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "os/log.h"
#include "peers_impl.h"
#include "remote_lane.h"
#include "server.h"

/*
 * What two daemons tell each other of a lane that has ended, over their session: LOST, where the
 * sender's client stands with the other's bytes, and REPLAYED, that this was noted for good. Either
 * daemon may be a successor that has the lane from its client (remote_adopt.c), and either may die
 * at any moment; so a lane is called by its connection, its epoch, and the id that both daemons
 * wrote into their halves when it began.
 *
 * What a daemon knows of a lane that the other one asks for decides the answer:
 *
 *	the lane here                  LOST, offset not certain      LOST with an offset
 *	not begun                      taken back: as if through     the same
 *	runs; the sender has it, too   as below, when it has ended   as below, when it has ended
 *	runs; from a successor         is ended, then as below       is ended, then as below
 *	ended, both ends through       LOST: all of it               REPLAYED
 *	lost, our client reads on      nothing yet                   recorded, REPLAYED
 *	lost, our client has stopped   LOST with its offset          recorded, REPLAYED
 *	forgotten: in a grave          LOST as told, REPLAYED        the same
 *	unknown, but our client is     REPLAYED, of no interest      the same
 *	  on TCP or in a later epoch
 *	unknown                        nothing                       nothing
 *
 * The last line is a successor whose client has not been called since: idle in a place where it
 * can't be woken, stopped, or about to come. It may be the other way round, too, that the lane was
 * over and its client gone before the predecessor died; only the client could tell. To say nothing
 * is right for both: who is asked by its own client adopts the lane and then asks the other daemon
 * itself, and a connection whose other end is gone for good meets the kernel's FIN or RST, or its
 * time limit.
 *
 * LOST is said again, with longer and longer pauses, until both know what they have to: a session
 * may have been lost with what was sent last, and the other client may adopt at any time. While
 * there is no session, one is wanted. What is decided stays: an offset that was certain once is
 * derived from words that nobody changes any more, by a successor as well.
 *
 * One death can't be asked about: before the client of the daemon that died was told of the lane,
 * so that it will never adopt it. Our client has not begun then either, since it has never seen the
 * other one ready, and uses TCP without an answer; but it is not through with the lane before there
 * is one, since the other end may have begun all the same, and its words are lost.
 *
 * "Of no interest" (PEER_OFFSET_NONE in REPLAYED) says that the sender's client is through with the
 * epoch. It was not before all bytes of ours had arrived: by their end (tx_end), or by an offset
 * that we had recorded before. So who has recorded nothing may take its client's end for that.
 */

/* Between two LOST of a lane: the shortest and the longest pause. Chosen: a client that is called
 * adopts its lanes within a tenth of a second; thousands of lanes must not be a flood. */
#define AGAIN_MIN_NS 100000000u
#define AGAIN_MAX_NS 1600000000u

/* Lanes that are no more, in case that the other daemon has not heard. Chosen: more than are lost
 * with a link in the time that a message takes. */
#define GRAVES 1024u

static struct grave {
	struct remote_key key;
	uint64_t told;
} graves[GRAVES];
static uint32_t graves_made;

static uint64_t word(const _Atomic uint64_t *at)
{
	return atomic_load(at);
}

void remote_bury(const struct remote_lane *lane)
{
	graves[graves_made++ % GRAVES] = (struct grave){.key = lane->key, .told = lane->told};
}

static const struct grave *find_grave(const struct remote_key *key)
{
	for (uint32_t i = 0; i < GRAVES; i++)
		if (memcmp(&graves[i].key, key, sizeof(*key)) == 0)
			return &graves[i];
	return NULL;
}

/* What @at is about, with the connection as our end of it is called. */
static struct remote_key key_of(const struct peer_lane_at *at)
{
	return (struct remote_key){
		.name = {.local = peer_address_to_end(&at->remote),
			 .peer = peer_address_to_end(&at->local)},
		.id = at->id,
		.epoch = at->epoch,
	};
}

static struct remote_lane *find_lane(const struct remote_key *key)
{
	struct remote_lane *lane = remote_lane_by_key(key);

	return lane && !lane->is_failed ? lane : NULL;
}

/* Tell all that may speak for the other end of @lane. Whether there is any. */
static bool tell(const struct remote_lane *lane, enum peer_type type, uint64_t offset)
{
	const struct peer_msg msg = {
		.type = type,
		.u.lane_at = {.id = lane->key.id,
			      .local = peer_address_of(&lane->name.local),
			      .remote = peer_address_of(&lane->name.peer),
			      .epoch = lane->epoch,
			      .offset = offset},
	};
	struct list *node, *next;
	bool any = false;

	/* A session that takes nothing any more ends at once. */
	list_for_each_safe (node, next, &lane->server->links->peers) {
		const struct link_peer *peer = list_entry(node, struct link_peer, link);

		if (!peer->session || !peer_session_may_speak(peer->session, &lane->name))
			continue;
		any = true;
		peer_session_send(peer->session, &msg);
	}
	return any;
}

/* Where our client stands with the other's bytes, if that is certain. */
static uint64_t standing(const struct remote_lane *lane)
{
	uint64_t offset;

	if (remote_reached(&lane->r, &offset))
		return offset;
	if (lane->r.lost && lane->r.sock >= 0)
		return PEER_OFFSET_NONE;
	/* Through with it, or closed: then the rest is TCP's to refuse. */
	return word(&lane->r.fed->prod);
}

/* Whether both daemons know all that they have to. */
static bool is_agreed(const struct remote_lane *lane)
{
	return lane->r.settled && (!lane->r.lost || remote_has_recorded(&lane->r));
}

void remote_tell_noted(struct remote_lane *lane)
{
	if (lane->heard == PEER_OFFSET_NONE || (lane->r.lost && !remote_has_recorded(&lane->r)))
		return;
	tell(lane, PEER_REPLAYED, TAKE(lane->heard, PEER_OFFSET_NONE));
}

void remote_tell_lost(struct remote_lane *lane)
{
	uint64_t now = loop_now(&lane->server->loop), offset;

	if (!lane->has_ended)
		return;
	remote_tell_noted(lane);
	offset = standing(lane);
	if (lane->has_told && offset == lane->told && (is_agreed(lane) || now < lane->again_ns))
		return;
	lane->pause_ns = lane->has_told ? u64_min(2 * lane->pause_ns, AGAIN_MAX_NS) : AGAIN_MIN_NS;
	lane->again_ns = now + lane->pause_ns;
	lane->told = offset;
	lane->has_told = tell(lane, PEER_LOST, offset);
	if (!lane->has_told)
		peers_want(lane->server->peers, &lane->name);
}

/* --- the other daemon speaks ------------------------------------------------------------------ */

/* The client of the end @name is on TCP or in a later epoch: it has or had nothing of @epoch. */
static bool is_through(const struct server *server, const struct tcp_name *name, uint32_t epoch)
{
	struct tcp_name mirror = tcp_name_mirror(name);
	const struct end *end = registry_opposite(&server->registry, &mirror);

	return end && !end->remote &&
	       (end->last_epoch >= epoch || (end->dup >= 0 && end->next_epoch > epoch));
}

static void answer(struct peer_session *session, enum peer_type type, const struct peer_lane_at *at,
		   uint64_t offset)
{
	struct peer_msg msg = {.type = type, .u.lane_at = *at};

	msg.u.lane_at.local = at->remote;
	msg.u.lane_at.remote = at->local;
	msg.u.lane_at.offset = offset;
	peer_session_send(session, &msg);
}

/* A lane that is not here, or no more. */
static void answer_unknown(const struct server *server, struct peer_session *session,
			   const struct peer_lane_at *at, const struct remote_key *key)
{
	const struct grave *grave = find_grave(key);

	if (grave) {
		answer(session, PEER_LOST, at, grave->told);
		answer(session, PEER_REPLAYED, at, at->offset);
	} else if (is_through(server, &key->name, at->epoch)) {
		answer(session, PEER_REPLAYED, at, PEER_OFFSET_NONE);
	}
}

void remote_on_lost(struct link_peer *peer, const struct peer_lane_at *at)
{
	const struct server *server = peer->links->server;
	const struct remote_key key = key_of(at);
	/* It outlives a failure to send, unlike @peer. */
	struct peer_session *session = peer->session;
	struct remote_lane *lane;

	if (!peer_session_may_speak(session, &key.name))
		return;
	lane = find_lane(&key);
	if (lane && !lane->has_begun) {
		remote_take_back(lane, REASON_NO_LINK, REASON_NONE);
		lane = NULL;
	}
	if (!lane) {
		answer_unknown(server, session, at, &key);
		return;
	}
	/* It asks, and gets an answer if there is one: two that have none must not ask each other
	 * for ever. */
	if (at->offset == PEER_OFFSET_NONE && lane->told != PEER_OFFSET_NONE)
		lane->has_told = false;
	lane->heard = at->offset;
	remote_peer_lost(lane, peer, at->offset);
}

void remote_on_noted(struct link_peer *peer, const struct peer_lane_at *at)
{
	const struct remote_key key = key_of(at);
	struct remote_lane *lane = find_lane(&key);
	struct remote_end *r;

	if (!lane || !lane->has_ended || !peer_session_may_speak(peer->session, &key.name))
		return;
	r = &lane->r;
	if (at->offset != PEER_OFFSET_NONE && (!lane->has_told || at->offset != lane->told))
		return; /* of what we said before it was certain */
	if (at->offset == PEER_OFFSET_NONE && r->wanted == OPT_NONE && !remote_has_recorded(r))
		r->wanted = word(&r->half->tx_end);
	r->settled = true;
	remote_act(lane);
}

void remote_session_up(struct link_peer *peer)
{
	struct list *node, *next;

	/* What was sent last may not have arrived; to hear it again changes nothing. */
	list_for_each_safe (node, next, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->is_failed || !peer_session_may_speak(peer->session, &lane->name))
			continue;
		lane->has_told = false;
		remote_act_soon(lane);
	}
}

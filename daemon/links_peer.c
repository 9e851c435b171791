/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "links_impl.h"
#include "os/clock.h"
#include "os/log.h"
#include "peers_impl.h"
#include "remote_lane.h"
#include "server.h"

/*
 * The daemons that links go to, as sessions with them come and go.
 *
 * A session that is lost does no harm to a link: it is wanted again, and comes again, and the link
 * was good for all of that time. But without one a link that is lost, too, can't be answered for,
 * since what the daemons have to tell each other then goes over the session. So a link whose
 * session does not come back in time (the other daemon takes our key no more, TCP between the hosts
 * is cut) is given up while it works: the lanes are asked to leave, and the last one takes it
 * along.
 */

/*
 * Anybody can go by the UUID of another: it is told to all. So a daemon is who it is by where it
 * speaks from as well, its address or its entry in the settings. One with several addresses and no
 * entry is several peers, with a link to each.
 */
static bool is_of(const struct link_peer *peer, const struct peer_session *session)
{
	if (memcmp(peer->uuid, peer_session_hello(session)->uuid, PEER_UUID_BYTES) != 0)
		return false;
	return peer->rule == session->rule &&
	       (peer->rule || peer_address_same(&peer->address, &session->remote));
}

struct link_peer *links_peer_of(const struct links *links, const struct peer_session *session)
{
	struct list *node;

	list_for_each (node, &links->peers) {
		struct link_peer *peer = list_entry(node, struct link_peer, link);

		if (is_of(peer, session))
			return peer;
	}
	return NULL;
}

void links_drop_nonces(struct links *links, const struct link_peer *peer, uint64_t now_ns)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &links->nonces) {
		struct link_nonce *nonce = list_entry(node, struct link_nonce, link);

		if (nonce->peer == peer || now_ns >= nonce->until_ns) {
			list_unlink(&nonce->link);
			free(nonce);
		}
	}
}

void link_peer_try_free(struct link_peer *peer)
{
	if (peer->session || peer->refs)
		return;
	links_drop_nonces(peer->links, peer, 0);
	list_unlink(&peer->link);
	free(peer);
}

void link_peer_put(struct link_peer *peer)
{
	peer->refs--;
	link_peer_try_free(peer);
}

static struct link_peer *add_peer(struct links *links, const struct peer_session *session)
{
	const struct peer_hello *hello = peer_session_hello(session);
	struct link_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	if (!link_group_init(&peer->group, links->server->peers->uuid, hello->uuid, 1)) {
		free(peer);
		return NULL;
	}
	peer->links = links;
	memcpy(peer->uuid, hello->uuid, sizeof(peer->uuid));
	peer->address = session->remote;
	peer->rule = session->rule;
	peer_address_text(&peer->address, peer->name);
	list_push_back(&links->peers, &peer->link);
	return peer;
}

/* Who speaks from @peer's address now has taken the place of another daemon: that one is dead, and
 * so are its links, however long they would take to find out. */
static void end_former(struct links *links, const struct link_peer *peer)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &links->all) {
		struct host_link *link = list_entry(node, struct host_link, link);
		const struct link_peer *former = link->peer;

		if (former != peer && !former->session &&
		    peer_address_same(&former->address, &peer->address))
			host_link_end(link, "its daemon was started anew");
	}
}

/* Both have learned something: no pause is due any more. */
static void dial_soon(struct link_peer *peer)
{
	if (peer->up)
		return;
	peer->failures = 0;
	peer->retry_at_ns = clock_now_ns() + (link_peer_we_are_lower(peer) ? 0 : LINKS_YIELD_NS);
	links_wake(peer->links);
}

void links_session_up(void *ctx, struct peer_session *session)
{
	struct links *links = ctx;
	struct link_peer *peer = links_peer_of(links, session);

	if (!peer)
		peer = add_peer(links, session);
	if (!peer)
		return;
	peer->session = session;
	peer->has_lapsed = peer->is_revoked = false;
	end_former(links, peer);
	dial_soon(peer);
	remote_match_again(peer);
	remote_session_up(peer);
	links_wake(links);
}

void links_session_revoked(void *ctx, struct peer_session *session)
{
	struct link_peer *peer = links_peer_of(ctx, session);

	if (!peer || peer->session != session)
		return;
	/* The lanes go while the link works; the last one takes it along. */
	peer->has_lapsed = true;
	peer->is_revoked = true;
	links_end_attempts(peer, "its key is revoked");
	remote_lapse(peer);
}

void links_session_changed(void *ctx, struct peer_session *session)
{
	struct link_peer *peer = links_peer_of(ctx, session);

	if (peer && peer->session == session)
		dial_soon(peer);
}

void links_look_again(struct links *links)
{
	struct list *node;

	if (!links)
		return;
	peers_tell_rdma(links->server->peers);
	list_for_each (node, &links->peers)
		dial_soon(list_entry(node, struct link_peer, link));
}

void links_session_down(void *ctx, struct peer_session *session)
{
	struct link_peer *peer = links_peer_of(ctx, session);

	if (!peer || peer->session != session)
		return;
	peer->session = NULL;
	/* Who has no session has no password either, be it the best of reasons. */
	links_drop_nonces(peer->links, peer, 0);
	if (peer->ask.id)
		link_group_result(&peer->group, peer->ask.path, peer->ask.attempt,
				  LINK_PLACE_EV_FAILED, clock_now_ns());
	peer->ask.id = 0;
	peer->down_ns = clock_now_ns();
	links_wake(peer->links);
	link_peer_try_free(peer);
}

void link_peer_look(struct link_peer *peer, uint64_t now_ns)
{
	uint64_t lapse_ns = peer->links->server->conf.peer_lapse_ms * 1000000u;

	if (!peer->up)
		return;
	links_wake(peer->links);
	if (!peer->is_revoked && now_ns - peer->down_ns < lapse_ns) {
		remote_want(peer);
		return;
	}
	if (!peer->has_lapsed) {
		peer->has_lapsed = true;
		log_notice("peer %s: no session for %llu ms (peer_lapse_ms): its connections go "
			   "back to TCP",
			   peer->name, (unsigned long long)(lapse_ns / 1000000u));
		remote_lapse(peer);
	}
	if (!peer->up->lanes)
		host_link_end(peer->up, "there is no session with its daemon any more");
}

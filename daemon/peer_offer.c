/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "end.h"
#include "pair.h"
#include "peers_impl.h"
#include "server.h"
#include "session.h"

/*
 * Two offers, one match. Each daemon judges by its own end, read now, and the other's figures, read
 * before they were sent: what the other's kernel had acknowledged by then ours has received, and
 * what it had received ours has written. The other half of the comparison is the other daemon's,
 * and both must agree. A stale end of a reused port fails one of the two.
 */

static void free_offer(struct own_offer *own)
{
	map_del(&own->host->peers->by_id, own->id);
	list_unlink(&own->link);
	own->end->offer = NULL;
	free(own);
}

static void free_claim(struct peer_claim *claim)
{
	struct peer_host *host = claim->host;

	timer_clear(&host->peers->server->loop.timers, &claim->timer);
	map_del_bytes(&host->peers->by_name, &claim->name, sizeof(claim->name));
	list_unlink(&claim->link);
	host->n_claims--;
	free(claim);
}

static struct peer_claim *claim_for(const struct peers *peers, const struct tcp_name *name)
{
	return map_get_bytes(&peers->by_name, name, sizeof(*name));
}

/* Send the offer @own on @session, with the figures of now. */
static void send_offer(struct own_offer *own, struct peer_session *session)
{
	struct end *end = own->end;
	struct server *server = end->session->server;
	struct peer_msg msg = {.type = PEER_OFFER};
	struct peer_offer *offer = &msg.u.offer;
	struct tcp_facts facts;

	if (pair_read(end, &facts) != REASON_NONE)
		return; /* its own time limit, or its registration, deals with it */
	offer->id = own->id;
	offer->local = peer_address_of(&end->name.local);
	offer->remote = peer_address_of(&end->name.peer);
	offer->acked_bytes = facts.acked_bytes;
	offer->received_bytes = facts.received_bytes;
	offer->written_bytes = facts.written_bytes;
	offer->sent_syn = (uint8_t)facts.syn_bias;
	offer->ring_bytes = server->conf.ring_bytes;
	offer->epoch = end->next_epoch;
	offer->answers = own->answers;
	own->sent_to = session->host->serial;
	session->counts.offers_sent++;
	peer_session_send(session, &msg);
}

void peer_offer_refuse(struct peer_session *session, uint64_t id, enum reason reason)
{
	const struct peer_msg msg = {
		.type = PEER_REFUSE,
		.u.refuse = {.your_id = id, .reason = (uint16_t)reason},
	};

	session->counts.refusals_sent++;
	peer_session_send(session, &msg);
}

static enum reason judge(const struct peer_offer *theirs, const struct tcp_facts *ours)
{
	if (theirs->acked_bytes > ours->received_bytes ||
	    theirs->received_bytes > ours->written_bytes || theirs->sent_syn + ours->syn_bias < 1)
		return REASON_STALE_PEER;
	return REASON_NONE;
}

/* Both offers are there. @claim is used up. */
static void match(struct own_offer *own, struct peer_claim *claim, struct peer_session *session)
{
	struct peers *peers = session->peers;
	const struct peer_offer offer = claim->offer;
	struct end *end = own->end;
	uint64_t own_id = own->id;
	struct tcp_facts facts;
	enum reason reason;

	free_claim(claim);
	/* The other daemon has to judge as well. */
	if (own->sent_to == 0) {
		own->answers = offer.id;
		send_offer(own, session);
	}
	if (session->phase != PEER_UP)
		return; /* it took nothing any more; the end waits on */
	reason = pair_read(end, &facts);
	if (reason == REASON_NONE)
		reason = judge(&offer, &facts);
	if (reason == REASON_NONE) {
		session->counts.matches++;
		reason = peers->user.match
				 ? peers->user.match(peers->user.ctx, session, end, own_id, &offer)
				 : REASON_NO_LINK;
		if (reason == REASON_NONE)
			return;
	}
	peer_offer_refuse(session, offer.id, reason);
	pair_refuse(end, reason);
}

/* A session that can carry offers of @host. */
static struct peer_session *session_of(const struct peer_host *host)
{
	return host->session && host->session->phase == PEER_UP ? host->session : NULL;
}

void peers_offer(struct peers *peers, struct end *end)
{
	struct peer_claim *claim;
	struct peer_session *session;
	struct own_offer *own;
	struct peer_host *host;

	if (!peers)
		return;
	host = peer_host_for(peers, &end->name);
	own = host ? calloc(1, sizeof(*own)) : NULL;
	if (!own)
		return;
	list_init(&own->link);
	own->host = host;
	own->end = end;
	own->id = ++peers->offer_id;
	if (map_put(&peers->by_id, own->id, own) < 0) {
		free(own);
		return;
	}
	list_push_back(&host->offers, &own->link);
	end->offer = own;
	loop_set_timer(&peers->server->loop, &end->timer, peers->server->conf.offer_wait_ms);
	claim = claim_for(peers, &end->name);
	session = session_of(claim ? claim->host : host);
	if (claim && session)
		own->answers = claim->offer.id;
	if (session)
		send_offer(own, session);
	if (own->sent_to == 0)
		own->answers = 0;
	if (claim && session && session->phase == PEER_UP && own->sent_to)
		match(own, claim, session);
	else if (!session)
		peer_host_want(host);
}

bool peers_goes_first(const struct end *end, const struct peer_offer *theirs, bool is_lower)
{
	const struct own_offer *own = end->offer;
	bool ours_answers = own->answers == theirs->id, theirs_answers = theirs->answers == own->id;

	return ours_answers == theirs_answers ? is_lower : ours_answers;
}

void peers_withdraw(struct end *end)
{
	struct own_offer *own = end->offer;
	struct peer_session *session = session_of(own->host);
	const struct peer_msg msg = {.type = PEER_WITHDRAW, .u.withdraw = {.id = own->id}};
	/* Also one that is matched: the other daemon may have it twice, if it was told over two
	 * sessions, and must not keep it for an end that comes later. */
	bool has_it = session && own->sent_to == session->host->serial;

	free_offer(own);
	if (has_it)
		peer_session_send(session, &msg);
}

enum reason peers_wait_reason(const struct end *end)
{
	const struct own_offer *own = end->offer;

	return own && own->sent_to == 0 && !session_of(own->host) ? REASON_NO_PEER_DAEMON
								  : REASON_PEER_UNKNOWN;
}

void peer_offers_send(struct peer_host *host)
{
	struct peer_session *session = host->session;
	struct list *node, *next;

	list_for_each_safe (node, next, &host->offers) {
		struct own_offer *own = list_entry(node, struct own_offer, link);

		/* It has waited for the session; now it waits for the other end. */
		if (own->sent_to == 0)
			loop_set_timer(&host->peers->server->loop, &own->end->timer,
				       host->peers->server->conf.offer_wait_ms);
		send_offer(own, session);
		if (session->phase != PEER_UP)
			return;
	}
}

void peer_offers_drop_claims(struct peer_host *host)
{
	struct list *node;

	while ((node = list_first(&host->claims)) != NULL)
		free_claim(list_entry(node, struct peer_claim, link));
}

void peer_offers_forget(struct peer_host *host)
{
	struct list *node;

	peer_offers_drop_claims(host);
	while ((node = list_first(&host->offers)) != NULL)
		free_offer(list_entry(node, struct own_offer, link));
}

static void on_claim_waited(struct timer *timer)
{
	free_claim(container_of(timer, struct peer_claim, timer));
}

/* Whether the peer of @session may speak for connections of @address. */
static bool may_claim(const struct peer_session *session, const struct peer_address *address)
{
	if (peer_address_same(address, &session->remote))
		return true;
	for (uint32_t i = 0; session->rule && i < session->rule->n_addresses; i++) {
		if (peer_address_same(address, &session->rule->addresses[i]))
			return true;
	}
	return false;
}

bool peer_session_may_speak(const struct peer_session *session, const struct tcp_name *name)
{
	const struct peer_address address = peer_address_of(&name->peer);

	return may_claim(session, &address);
}

/* Keep @offer, in place of an older one for the same connection. NULL without memory. */
static struct peer_claim *keep_claim(struct peer_host *host, const struct tcp_name *name,
				     const struct peer_offer *offer)
{
	struct peers *peers = host->peers;
	struct peer_claim *claim = claim_for(peers, name);

	/* Both may speak for the address, so they are one. */
	if (claim)
		free_claim(claim);
	claim = calloc(1, sizeof(*claim));
	if (!claim)
		return NULL;
	list_init(&claim->link);
	timer_init(&claim->timer, on_claim_waited);
	claim->host = host;
	claim->name = *name;
	claim->offer = *offer;
	if (map_put_bytes(&peers->by_name, &claim->name, sizeof(claim->name), claim) < 0) {
		free(claim);
		return NULL;
	}
	list_push_back(&host->claims, &claim->link);
	host->n_claims++;
	loop_set_timer(&peers->server->loop, &claim->timer, peers->server->conf.offer_wait_ms);
	return claim;
}

void peer_offer_received(struct peer_session *session, const struct peer_offer *offer)
{
	struct peers *peers = session->peers;
	struct tcp_name name, mirror;
	char text[PEER_ADDRESS_TEXT];
	struct peer_claim *claim;
	struct end *end;

	session->counts.offers_received++;
	if (!may_claim(session, &offer->local)) {
		peers_complain(peers, PEER_COMPLAINT_CLAIM, &session->remote,
			       "claims a connection of %s, for which it may not speak: refused",
			       peer_address_text(&offer->local, text));
		peer_offer_refuse(session, offer->id, REASON_NOT_ELIGIBLE);
		return;
	}
	name.local = peer_address_to_end(&offer->remote);
	name.peer = peer_address_to_end(&offer->local);
	mirror = tcp_name_mirror(&name);
	claim = claim_for(peers, &name);
	if (!claim && session->host->n_claims >= peers->server->conf.peer_offers_max) {
		peers_complain(peers, PEER_COMPLAINT_CROWD, &session->remote,
			       "more than %u offers wait (peer_offers_max): refused",
			       session->host->n_claims);
		peer_offer_refuse(session, offer->id, REASON_OVER_QUOTA);
		return;
	}
	claim = keep_claim(session->host, &name, offer);
	if (!claim) {
		peer_offer_refuse(session, offer->id, REASON_NO_MEMORY);
		return;
	}
	end = registry_opposite(&peers->server->registry, &mirror);
	/* A session that is leaving carries no answers: its successor does. */
	session = session_of(session->host);
	if (session && end && end->dup >= 0 && end->offer)
		match(end->offer, claim, session);
}

void peer_offer_withdrawn(struct peer_session *session, uint64_t id)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &session->host->claims) {
		struct peer_claim *claim = list_entry(node, struct peer_claim, link);

		if (claim->offer.id == id) {
			free_claim(claim);
			return;
		}
	}
	/* It has crossed our answer. */
}

bool peer_offer_refused(struct peer_session *session, const struct peer_refuse *refuse)
{
	struct own_offer *own = map_get(&session->peers->by_id, refuse->your_id);
	enum reason reason = refuse->reason;

	session->counts.refusals_received++;
	/* Of this peer's only: whoever was not offered it has no say. */
	if (!own || own->sent_to != session->host->serial)
		return false;
	/* Nobody far away decides that a connection of ours stays on TCP for good. */
	pair_refuse(own->end, reason_passes(reason) ? reason : REASON_PEER_LEFT);
	return true;
}

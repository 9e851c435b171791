/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "events.h"
#include "os/clock.h"
#include "peers_impl.h"
#include "server.h"

/* Pauses before an address that proved to be our own is dialled again: the longest. */
#define FAILURES_OWN 32u

static bool same_uuid(const struct peer_session *a, const struct peer_session *b)
{
	return memcmp(a->hello.uuid, b->hello.uuid, PEER_UUID_BYTES) == 0;
}

/* Whether somebody with another entry in the settings goes by the same UUID. */
static bool uuid_is_taken(const struct peer_session *session)
{
	struct list *node;

	list_for_each (node, &session->peers->sessions) {
		const struct peer_session *other = list_entry(node, struct peer_session, link);

		if (other != session && other->phase == PEER_UP && other->rule != session->rule &&
		    same_uuid(other, session))
			return true;
	}
	return false;
}

/* Of two crossing sessions with one host, both UP: that which stays. */
static struct peer_session *winner(struct peer_session *old, struct peer_session *new)
{
	bool lower_is_ours = memcmp(new->peers->uuid, new->hello.uuid, PEER_UUID_BYTES) < 0;

	return new->dialled == lower_is_ours ? new : old;
}

/* @session has said who it is: it becomes its host's, or is not needed. */
static void session_up(struct peer_session *session)
{
	struct peers *peers = session->peers;
	struct peer_host *host = session->host;
	struct peer_session *old = host->session;
	char text[PEER_ADDRESS_TEXT];

	session->phase = PEER_UP;
	peer_session_proven(session);
	loop_set_timer(&peers->server->loop, &session->timer,
		       peers->server->conf.peer_ping_ms / 2 + 1);
	if (host->dial == session)
		host->dial = NULL;
	if (old && same_uuid(old, session) && old->dialled != session->dialled) {
		peers->crossed++;
		if (winner(old, session) == old) {
			peer_session_leave(session, PEER_BYE_CROSSED);
			return;
		}
		peer_session_leave(old, PEER_BYE_CROSSED);
	} else if (old) {
		peer_session_bye(old, PEER_BYE_REPLACED);
	}
	session->up_ns = clock_now_ns();
	peer_address_text(&session->remote, text);
	event_log_within(&host->news, session->up_ns, PEER_UP,
			 LOG_FACTS(LOG_TEXT("SHUNT_PEER", text),
				   LOG_TEXT("SHUNT_SOFTWARE", session->hello.software)),
			 "peer %s: session up, %s, %s", text, session->hello.software,
			 session->dialled ? "dialled from here" : "called by it");
	peer_host_reached(host, session);
	if (session->phase == PEER_UP && peers->user.up) {
		session->announced = true;
		peers->user.up(peers->user.ctx, session);
	}
}

static void first_hello(struct peer_session *session, const struct peer_hello *hello)
{
	struct peers *peers = session->peers;

	session->hello = *hello;
	if (memcmp(hello->uuid, peers->uuid, PEER_UUID_BYTES) == 0) {
		struct peer_host *host = session->host;

		peer_session_bye(session, PEER_BYE_SELF);
		if (!host)
			return;
		host->failures = FAILURES_OWN;
		peer_host_failed(host, "that is this daemon itself");
		return;
	}
	if (uuid_is_taken(session)) {
		peer_session_cut(session, PEER_COMPLAINT_CLAIM, PEER_BYE_NOT_ALLOWED,
				 "it goes by the UUID of another peer");
		return;
	}
	if (!session->host)
		session->host = peer_host_get(peers, &session->local, &session->remote);
	if (!session->host) {
		peer_session_cut(session, PEER_COMPLAINT_CROWD, PEER_BYE_BUSY,
				 "too many hosts are known (peer_hosts_max)");
		return;
	}
	session_up(session);
}

static void another_hello(struct peer_session *session, const struct peer_hello *hello)
{
	const struct peers *peers = session->peers;
	const struct peer_hello *old = &session->hello;
	bool moved;

	if (memcmp(hello->uuid, old->uuid, PEER_UUID_BYTES) != 0) {
		peer_session_cut(session, PEER_COMPLAINT_PROTOCOL, PEER_BYE_PROTOCOL,
				 "it changes its UUID");
		return;
	}
	/* One that only repeats itself must not make us dial without a pause. */
	moved = hello->n_rdma != old->n_rdma ||
		memcmp(hello->rdma, old->rdma, hello->n_rdma * sizeof(hello->rdma[0])) != 0;
	session->hello = *hello;
	if (moved && session->announced && peers->user.changed)
		peers->user.changed(peers->user.ctx, session);
}

static void on_bye(struct peer_session *session, enum peer_bye why)
{
	struct peer_host *host = session->host;
	bool was_its = host && (host->session == session || host->dial == session);
	char text[PEER_ADDRESS_TEXT];

	peer_address_text(&session->remote, text);
	if (was_its && why != PEER_BYE_CROSSED && why != PEER_BYE_REPLACED)
		event_log_within(&host->news, clock_now_ns(), PEER_DOWN,
				 LOG_FACTS(LOG_TEXT("SHUNT_PEER", text),
					   LOG_TEXT("SHUNT_REASON", peer_bye_text(why))),
				 "peer %s: goodbye: %s", text, peer_bye_text(why));
	if (was_its && why == PEER_BYE_CROSSED)
		peer_counts_move(&host->carried, &session->counts);
	peer_session_doom(session);
	if (was_its)
		peer_host_failed(host, peer_bye_text(why));
}

/* What concerns lanes and links, while nobody here makes any. */
static void decline(struct peer_session *session, const struct peer_msg *msg)
{
	const struct peer_msg no = {
		.type = PEER_NONCE,
		.u.nonce = {.id = msg->type == PEER_NONCE_ASK ? msg->u.nonce_ask.id : 1,
			    .reason = REASON_NO_LINK},
	};

	switch (msg->type) {
	case PEER_MATCH:
		peer_offer_refuse(session, msg->u.match.own_id, REASON_NO_LINK);
		break;
	case PEER_NONCE_ASK:
		peer_session_send(session, &no);
		break;
	case PEER_REFUSE: /* it has crossed our own, or our withdrawal */
		break;
	default:
		session->counts.strays++;
		break;
	}
}

static void for_the_user(struct peer_session *session, const struct peer_msg *msg)
{
	struct peers *peers = session->peers;

	if (peers->user.message && session->announced)
		peers->user.message(peers->user.ctx, session, msg);
	else
		decline(session, msg);
}

/* What the peer has sent before our goodbye reached it. */
static void last_words(struct peer_session *session, const struct peer_msg *msg)
{
	if (msg->type == PEER_OFFER)
		peer_offer_received(session, &msg->u.offer);
	else if (msg->type == PEER_WITHDRAW)
		peer_offer_withdrawn(session, msg->u.withdraw.id);
	else if (msg->type == PEER_REFUSE)
		peer_offer_refused(session, &msg->u.refuse);
}

void peer_dispatch(struct peer_session *session, const struct peer_msg *msg)
{
	const struct peer_msg pong = {.type = PEER_PONG, .u.ping = msg->u.ping};

	if (session->phase == PEER_HELLOING && msg->type == PEER_HELLO) {
		first_hello(session, &msg->u.hello);
		return;
	}
	if (msg->type == PEER_BYE) {
		on_bye(session, msg->u.bye.why);
		return;
	}
	if (session->phase == PEER_LEAVING) {
		last_words(session, msg);
		return;
	}
	if (session->phase != PEER_UP) {
		peer_session_cut(session, PEER_COMPLAINT_PROTOCOL, PEER_BYE_PROTOCOL,
				 "it begins with %s in place of a hello",
				 peer_type_name(msg->type));
		return;
	}
	switch (msg->type) {
	case PEER_HELLO: /* its addresses have changed */
		another_hello(session, &msg->u.hello);
		break;
	case PEER_OFFER:
		peer_offer_received(session, &msg->u.offer);
		break;
	case PEER_WITHDRAW:
		peer_offer_withdrawn(session, msg->u.withdraw.id);
		break;
	case PEER_REFUSE:
		if (!peer_offer_refused(session, &msg->u.refuse))
			for_the_user(session, msg);
		break;
	case PEER_PING:
		peer_session_send(session, &pong);
		break;
	case PEER_PONG:
		break;
	default:
		for_the_user(session, msg);
		break;
	}
}

/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/util.h"
#include "devices_impl.h"
#include "events.h"
#include "links_impl.h"
#include "manager.h"
#include "os/clock.h"
#include "os/log.h"
#include "peers_impl.h"
#include "remote_lane.h"
#include "server.h"

/* How often is looked while a link is wanted. Chosen: as the shortest pause. */
#define LOOK_MS LINKS_RETRY_MIN_MS
/* Longest wait for a nonce, and how long one is good. Chosen: a busy daemon answers within a
 * second; a dial may take LINK_MAKE_NS. */
#define ASK_NS 5000000000ull
#define NONCE_NS LINK_MAKE_NS
/* Nonces of one peer at a time. Chosen: one dial at a time, and its repeats. */
#define NONCES_MAX 8u
/* Lines about links that come or go. Chosen: all peers of a cluster of 64 once a minute. */
#define NEWS_MAX 64u
#define NEWS_NS 60000000000ull

void links_wake(struct links *links)
{
	if (!links->timer.is_set)
		loop_set_timer(&links->server->loop, &links->timer, LOOK_MS);
}

/* --- dialling --------------------------------------------------------------------------------- */

static void retry_later(struct link_peer *peer)
{
	uint64_t pause_ms = LINKS_RETRY_MIN_MS;

	for (uint32_t i = 0; i < peer->failures && pause_ms < LINKS_RETRY_MAX_MS; i++)
		pause_ms *= 2;
	peer->failures++;
	peer->retry_at_ns = clock_now_ns() + u64_min(pause_ms, LINKS_RETRY_MAX_MS) * 1000000u;
	links_wake(peer->links);
}

void links_failed(struct host_link *link, const char *why)
{
	struct link_peer *peer = link->peer;

	if (link->is_up) {
		links_note_lost(link, why);
		event_log_within(&peer->links->downs, clock_now_ns(), LINK_DOWN,
				 LOG_FACTS(LOG_TEXT("SHUNT_PEER", peer->name),
					   LOG_TEXT("SHUNT_DEVICE", link->dev->name),
					   LOG_TEXT("SHUNT_REASON", why)),
				 "peer %s: the link over %s is lost: %s", peer->name,
				 link->dev->name, why);
	} else {
		peer->links->failed++;
		links_note_failed(peer, link->cm.lacks_qp ? REASON_NO_QUEUE_PAIR : REASON_NO_LINK,
				  why);
		log_at(peer->failures ? LOG_LEVEL_DEBUG : LOG_LEVEL_NOTICE,
		       "peer %s: no link over %s: %s; tried again", peer->name, link->dev->name,
		       why);
	}
	if (!link_group_result(&peer->group, link->path, link->attempt, LINK_PLACE_EV_FAILED,
			       clock_now_ns()))
		return;
	if (peer->up == link)
		peer->up = NULL;
	retry_later(peer);
	if (link->is_up && !link_peer_we_are_lower(peer))
		peer->retry_at_ns += LINKS_YIELD_NS;
}

/* The dial under way comes to nothing before it has a link. */
static void ask_failed(struct link_peer *peer, const char *why)
{
	log_at(peer->failures ? LOG_LEVEL_DEBUG : LOG_LEVEL_NOTICE,
	       "peer %s: no link: %s; tried again", peer->name, why);
	links_note_failed(peer, REASON_NO_LINK, why);
	link_group_result(&peer->group, peer->ask.path, peer->ask.attempt, LINK_PLACE_EV_FAILED,
			  clock_now_ns());
	peer->ask.id = 0;
	retry_later(peer);
}

/* Ask for the nonce of a dial. */
static void begin_dial(struct link_peer *peer, uint64_t now_ns)
{
	struct link_ask ask = {.until_ns = now_ns + ASK_NS};
	struct peer_msg msg = {.type = PEER_NONCE_ASK};

	if (!link_choose_path(peer, &ask)) {
		log_debug("peer %s: no address of its devices can be reached from ours",
			  peer->name);
		links_note_failed(peer, REASON_NO_LINK,
				  "no address of its devices can be reached from ours");
		retry_later(peer);
		return;
	}
	if (link_group_dial(&peer->group, ask.path, now_ns, &ask.attempt) != LINK_PLACE_START)
		return;
	ask.id = ++peer->links->asks;
	peer->ask = ask;
	msg.u.nonce_ask = (struct peer_nonce_ask){.id = ask.id, .from = ask.from, .to = ask.to};
	peer_session_send(peer->session, &msg);
}

static union gid_address to_address(const struct peer_address *from)
{
	union gid_address address;

	memset(&address, 0, sizeof(address));
	if (from->family == 4) {
		address.in.sin_family = AF_INET;
		address.in.sin_port = htons(from->port);
		memcpy(&address.in.sin_addr, from->addr, 4);
	} else {
		address.in6.sin6_family = AF_INET6;
		address.in6.sin6_port = htons(from->port);
		memcpy(&address.in6.sin6_addr, from->addr, 16);
	}
	return address;
}

/* The nonce has come: dial. */
static void on_nonce(struct link_peer *peer, const struct peer_nonce *nonce)
{
	const struct peers *peers = peer->links->server->peers;
	const struct peer_hello *hello = peer_session_hello(peer->session);
	const struct link_ask ask = peer->ask;
	struct host_device *dev = NULL;
	union gid_address target;
	struct host_link *link;
	struct host_port *port;

	if (!ask.id || nonce->id != ask.id)
		return;
	port = ask.from < peers->n_rdma && ask.to < hello->n_rdma
		       ? link_port(peer->links, &peers->rdma[ask.from], &dev)
		       : NULL;
	if (nonce->reason != REASON_NONE || !port) {
		ask_failed(peer, port ? "the other daemon makes none now" : "our port is gone");
		return;
	}
	link = host_link_new(peer, dev, &port->pool, ask.path, ask.attempt);
	if (!link) {
		ask_failed(peer, "no memory");
		return;
	}
	peer->ask.id = 0;
	link_set_hello(&link->cm, nonce->nonce, link->credits, ++peer->links->serial);
	target = to_address(&hello->rdma[ask.to].address);
	if (link_dial(&link->cm, &port->facts.gid.address, &target) < 0)
		host_link_end(link, "the device has too much under way");
}

/* --- being dialled ---------------------------------------------------------------------------- */

static uint32_t count_nonces(const struct link_peer *peer)
{
	struct list *node;
	uint32_t n = 0;

	list_for_each (node, &peer->links->nonces)
		n += list_entry(node, struct link_nonce, link)->peer == peer;
	return n;
}

static void on_nonce_ask(struct link_peer *peer, const struct peer_nonce_ask *ask)
{
	const struct peers *peers = peer->links->server->peers;
	struct peer_msg msg = {.type = PEER_NONCE,
			       .u.nonce = {.id = ask->id, .reason = REASON_NO_LINK}};
	struct link_nonce *nonce = NULL;
	struct host_port *port = NULL;
	struct host_device *dev = NULL;

	if (ask->to < peers->n_rdma && ask->from < peer_session_hello(peer->session)->n_rdma)
		port = link_port(peer->links, &peers->rdma[ask->to], &dev);
	if (port && count_nonces(peer) < NONCES_MAX)
		nonce = calloc(1, sizeof(*nonce));
	if (nonce && getrandom(nonce->nonce, sizeof(nonce->nonce), GRND_NONBLOCK) ==
			     (ssize_t)sizeof(nonce->nonce)) {
		nonce->peer = peer;
		nonce->dev = dev;
		nonce->pool = &port->pool;
		nonce->from = peer_session_hello(peer->session)->rdma[ask->from].address;
		nonce->path = link_path_name(peer, ask->to, ask->from);
		nonce->until_ns = clock_now_ns() + NONCE_NS;
		list_push_back(&peer->links->nonces, &nonce->link);
		msg.u.nonce.reason = REASON_NONE;
		memcpy(msg.u.nonce.nonce, nonce->nonce, sizeof(nonce->nonce));
	} else {
		free(nonce);
	}
	peer_session_send(peer->session, &msg);
}

/* The nonce that @bytes is, taken out of the list: it is good once. */
static struct link_nonce *use_nonce(struct links *links, const struct host_device *dev,
				    const uint8_t bytes[LINK_NONCE_BYTES])
{
	struct list *node;

	list_for_each (node, &links->nonces) {
		struct link_nonce *nonce = list_entry(node, struct link_nonce, link);

		if (nonce->dev == dev && memcmp(nonce->nonce, bytes, LINK_NONCE_BYTES) == 0) {
			list_unlink(&nonce->link);
			return nonce;
		}
	}
	return NULL;
}

void links_end_attempts(struct link_peer *peer, const char *why)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &peer->links->all) {
		struct host_link *link = list_entry(node, struct host_link, link);

		if (link->peer == peer && !link->is_up)
			host_link_end(link, why);
	}
	peer->ask.id = 0;
}

/* Whether @from is @address, whatever its port. */
static bool is_from(const struct peer_address *address, const struct sockaddr *from)
{
	struct sockaddr_storage addr;
	struct tcp_end end;
	struct peer_address dialler;

	memset(&addr, 0, sizeof(addr));
	memcpy(&addr, from,
	       from->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					  : sizeof(struct sockaddr_in6));
	if (tcp_end_from(&addr, &end) < 0)
		return false;
	dialler = peer_address_of(&end);
	return peer_address_same(&dialler, address);
}

static int admit(void *ctx, const struct link_hello *hello, const struct sockaddr *from,
		 struct link **ret_link)
{
	struct host_device *dev = ctx;
	struct links *links = dev->owner->links;
	enum link_place_action action;
	struct link_nonce *nonce;
	struct host_link *link;
	struct link_nonce used;
	uint32_t attempt;

	links_drop_nonces(links, NULL, clock_now_ns());
	nonce = use_nonce(links, dev, hello->nonce);
	if (!nonce)
		return LINK_REJECT_NONCE;
	used = *nonce;
	free(nonce);
	if (!is_from(&used.from, from)) {
		peers_complain(links->server->peers, PEER_COMPLAINT_CLAIM, &used.peer->address,
			       "a password for a link was used from another address: refused");
		return LINK_REJECT_NONCE;
	}
	if (dev->stage != HOST_READY)
		return LINK_REJECT_GOING;
	action = link_group_request(&used.peer->group, used.path, clock_now_ns(), &attempt);
	if (action != LINK_PLACE_ACCEPT && action != LINK_PLACE_REPLACE)
		return action == LINK_PLACE_REJECT ? LINK_REJECT_CROSSED : LINK_REJECT_BUSY;
	links_end_attempts(used.peer, "the other daemon's dial goes first");
	link = host_link_new(used.peer, dev, used.pool, used.path, attempt);
	if (!link) {
		link_group_result(&used.peer->group, used.path, attempt, LINK_PLACE_EV_FAILED,
				  clock_now_ns());
		return LINK_REJECT_BUSY;
	}
	link_set_hello(&link->cm, used.nonce, link->credits, ++links->serial);
	*ret_link = &link->cm;
	return 0;
}

/* --- time and life ---------------------------------------------------------------------------- */

static void look_for_link(struct link_peer *peer, uint64_t now_ns)
{
	links_wake(peer->links);
	/* Who can't be sent anything loses its session, and may be freed. */
	if (peer->ask.id && now_ns >= peer->ask.until_ns)
		ask_failed(peer, "the other daemon does not answer");
	else if (!peer->ask.id && now_ns >= peer->retry_at_ns)
		begin_dial(peer, now_ns);
}

static void look_at_peer(struct link_peer *peer, uint64_t now_ns)
{
	link_group_tick(&peer->group, now_ns);
	if (!peer->session)
		link_peer_look(peer, now_ns); /* it may be freed */
	else if (!peer->up)
		look_for_link(peer, now_ns);
}

static void on_timer(struct timer *timer)
{
	struct links *links = container_of(timer, struct links, timer);
	struct list *node, *next;

	list_for_each_safe (node, next, &links->all)
		host_link_tick(list_entry(node, struct host_link, link));
	list_for_each_safe (node, next, &links->peers)
		look_at_peer(list_entry(node, struct link_peer, link), clock_now_ns());
}

static void on_message(void *ctx, struct peer_session *session, const struct peer_msg *msg)
{
	struct link_peer *peer = links_peer_of(ctx, session);

	if (!peer || peer->session != session)
		return;
	if (msg->type == PEER_NONCE_ASK)
		on_nonce_ask(peer, &msg->u.nonce_ask);
	else if (msg->type == PEER_NONCE)
		on_nonce(peer, &msg->u.nonce);
	else
		remote_message(peer, msg);
}

struct links *links_start(struct server *server)
{
	struct peers_user user = {
		.match = remote_match,
		.message = on_message,
		.up = links_session_up,
		.changed = links_session_changed,
		.down = links_session_down,
		.revoked = links_session_revoked,
	};
	struct links *links;

	if (server->conf.remote_lanes == CONF_REMOTE_OFF || !server->devices || !server->peers)
		return NULL;
	links = calloc(1, sizeof(*links));
	if (!links)
		return NULL;
	links->server = server;
	links->ups = links->downs = (struct log_limit){.burst = NEWS_MAX, .interval_ns = NEWS_NS};
	list_init(&links->peers);
	list_init(&links->all);
	list_init(&links->nonces);
	timer_init(&links->timer, on_timer);
	devices_set_links(server->devices, links, admit);
	remote_start(links);
	user.ctx = links;
	peers_set_user(server->peers, &user);
	return links;
}

void links_restore(struct links *links, struct manager_fds *passed)
{
	if (links)
		remote_restore(links->server, passed);
	else
		manager_give_up(passed);
}

bool links_retire(struct links *links)
{
	if (!links)
		return false;
	links->is_retiring = true;
	remote_retire();
	return links_have_lanes(links);
}

bool links_have_lanes(const struct links *links)
{
	return links && remote_are_any_left(links->server);
}

struct links *links_stop(struct links *links)
{
	struct list *node, *next;

	if (!links)
		return NULL;
	remote_stop();
	list_for_each_safe (node, next, &links->all)
		host_link_end(list_entry(node, struct host_link, link), "the daemon ends");
	while (!list_is_empty(&links->all)) {
		list_for_each_safe (node, next, &links->all)
			host_link_tick(list_entry(node, struct host_link, link));
		devices_turn(links->server->devices);
	}
	remote_lanes_deinit();
	list_for_each_safe (node, next, &links->peers) {
		struct link_peer *peer = list_entry(node, struct link_peer, link);

		peer->session = NULL;
		link_peer_try_free(peer);
	}
	timer_clear(&links->server->loop.timers, &links->timer);
	devices_set_links(links->server->devices, NULL, NULL);
	free(links);
	return NULL;
}

/* SPDX-License-Identifier: MIT */
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "os/clock.h"
#include "peers_impl.h"
#include "server.h"

/* How long an address is taken to be, or not to be, our own. Chosen: addresses seldom move. */
#define OURS_NS 60000000000ull
/* Longest pause before a call that a lane between hosts waits for. Chosen: a daemon is started anew
 * in about that time. */
#define WANTED_NS 1000000000ull

/* Lines about the coming and going of one host. Chosen: what people read of a host that is started
 * again and again. */
#define NEWS_MAX 16u
#define NEWS_NS 60000000000ull

struct peer_address peer_address_of(const struct tcp_end *end)
{
	struct peer_address address;

	memset(&address, 0, sizeof(address));
	address.family = end->family == AF_INET ? 4 : 6;
	memcpy(address.addr, end->addr, sizeof(address.addr));
	address.port = end->port;
	return address;
}

struct tcp_end peer_address_to_end(const struct peer_address *address)
{
	struct tcp_end end;

	memset(&end, 0, sizeof(end));
	end.family = address->family == 4 ? AF_INET : AF_INET6;
	memcpy(end.addr, address->addr, sizeof(end.addr));
	end.port = address->port;
	return end;
}

/*
 * Whether @address is one of this host's, so that the other end is here. (Whether a socket can be
 * bound to it says nothing where net.ipv4.ip_nonlocal_bind is set.)
 */
static bool is_ours(const struct peer_address *address)
{
	struct ifaddrs *all;
	bool found = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *at = all; at && !found; at = at->ifa_next) {
		const struct sockaddr_in6 *in6 = (const void *)at->ifa_addr;
		const struct sockaddr_in *in = (const void *)at->ifa_addr;

		if (in && in->sin_family == AF_INET && address->family == 4)
			found = memcmp(&in->sin_addr, address->addr, 4) == 0;
		else if (in6 && in6->sin6_family == AF_INET6 && address->family == 6)
			found = memcmp(&in6->sin6_addr, address->addr, 16) == 0;
	}
	freeifaddrs(all);
	return found;
}

void peer_host_free(struct peer_host *host)
{
	struct peers *peers = host->peers;

	timer_clear(&peers->server->loop.timers, &host->retry);
	map_del_bytes(&peers->by_key, &host->key, sizeof(host->key));
	list_unlink(&host->link);
	peer_counts_move(&peers->gone, &host->carried);
	free(host);
}

/* Whether nothing refers to @host, so that it may be forgotten. */
static bool is_idle(const struct peer_host *host)
{
	return !host->session && !host->dial && !host->n_leaving && list_is_empty(&host->offers) &&
	       list_is_empty(&host->claims);
}

/* Forget the idle host that was used least recently. False if none is idle. */
static bool forget_one(struct peers *peers)
{
	struct list *node;

	list_for_each (node, &peers->hosts) {
		struct peer_host *host = list_entry(node, struct peer_host, link);

		if (is_idle(host)) {
			peer_host_free(host);
			return true;
		}
	}
	return false;
}

static void on_retry(struct timer *timer)
{
	struct peer_host *host = container_of(timer, struct peer_host, retry);

	if (!list_is_empty(&host->offers))
		peer_host_want(host);
}

static struct peer_host *add_host(struct peers *peers, const struct host_key *key)
{
	struct peer_host *host;

	if (map_count(&peers->by_key) >= peers->server->conf.peer_hosts_max && !forget_one(peers))
		return NULL;
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	host->peers = peers;
	host->key = *key;
	host->serial = ++peers->serial;
	list_init(&host->link);
	list_init(&host->offers);
	list_init(&host->claims);
	timer_init(&host->retry, on_retry);
	host->news = (struct log_limit){.burst = NEWS_MAX, .interval_ns = NEWS_NS};
	if (map_put_bytes(&peers->by_key, &host->key, sizeof(host->key), host) < 0) {
		free(host);
		return NULL;
	}
	list_push_back(&peers->hosts, &host->link);
	return host;
}

struct peer_host *peer_host_get(struct peers *peers, const struct peer_address *local,
				const struct peer_address *remote)
{
	const struct peer_rule *rule = peer_conf_find(&peers->server->conf.peers, remote);
	struct host_key key = {.family = remote->family};
	struct peer_host *host;

	memcpy(key.local, local->addr, sizeof(key.local));
	memcpy(key.remote, rule ? rule->addresses[0].addr : remote->addr, sizeof(key.remote));
	key.family = rule ? rule->addresses[0].family : remote->family;
	host = map_get_bytes(&peers->by_key, &key, sizeof(key));
	if (!host) {
		host = add_host(peers, &key);
		if (!host)
			return NULL;
		host->rule = rule;
		host->local = *local;
		host->remote = *remote;
		host->local.port = host->remote.port = 0;
	}
	list_unlink(&host->link);
	list_push_back(&peers->hosts, &host->link);
	return host;
}

/* Cheap reasons to leave a connection to this host's own pairing, looked at before anything else.
 */
static bool stays_here(const struct tcp_name *name)
{
	if (memcmp(name->local.addr, name->peer.addr, sizeof(name->local.addr)) == 0)
		return true;
	if (name->peer.family == AF_INET)
		return name->peer.addr[0] == 127;
	return false; /* ::1 talks to ::1 only */
}

struct peer_host *peer_host_for(struct peers *peers, const struct tcp_name *name)
{
	const struct peer_address remote = peer_address_of(&name->peer);
	const struct peer_address local = peer_address_of(&name->local);
	const struct peer_rule *rule = peer_conf_find(&peers->server->conf.peers, &remote);
	const struct tls_key *key;
	struct peer_host *host;
	uint64_t now = clock_now_ns();
	enum tls_way way;

	if (name->local.scope_id || name->peer.scope_id || !peers_way(peers, rule, &way, &key) ||
	    (!rule && stays_here(name)))
		return NULL;
	host = peer_host_get(peers, &local, &remote);
	if (!host || rule)
		return host;
	if (host->known_ns == 0 || now - host->known_ns > OURS_NS) {
		host->is_ours = is_ours(&remote);
		host->known_ns = now;
	}
	return host->is_ours ? NULL : host;
}

void peer_host_failed(struct peer_host *host, const char *why)
{
	const struct conf *conf = &host->peers->server->conf;
	uint64_t pause_ms = conf->peer_retry_min_ms;
	char text[PEER_ADDRESS_TEXT];

	if (host->session || host->dial)
		return;
	for (uint32_t i = 0; i < host->failures && pause_ms < conf->peer_retry_max_ms; i++)
		pause_ms *= 2;
	pause_ms = u64_min(pause_ms, conf->peer_retry_max_ms);
	/* Each host once: most hosts of this world have no daemon. */
	if (host->failures++ == 0)
		log_at(host->rule && host->news.passed < NEWS_MAX ? LOG_LEVEL_NOTICE
								  : LOG_LEVEL_DEBUG,
		       "peer %s: can't be talked to: %s; its connections stay on TCP",
		       peer_address_text(&host->remote, text), why);
	snprintf(host->why, sizeof(host->why), "%s", why);
	host->retry_at_ns = clock_now_ns() + pause_ms * 1000000u;
	if (!list_is_empty(&host->offers))
		loop_set_timer(&host->peers->server->loop, &host->retry, pause_ms);
}

void peer_host_want(struct peer_host *host)
{
	struct peers *peers = host->peers;
	const struct conf *conf = &peers->server->conf;
	uint64_t now = clock_now_ns();
	int rc;

	if (host->session || host->dial)
		return;
	if (now < host->retry_at_ns) {
		loop_set_timer(&peers->server->loop, &host->retry,
			       (host->retry_at_ns - now) / 1000000u + 1);
		return;
	}
	if (peers->n_dials >= conf->peer_dials_max ||
	    peers->n_sessions >= conf->peer_sessions_max) {
		loop_set_timer(&peers->server->loop, &host->retry, conf->peer_retry_min_ms);
		return;
	}
	rc = peer_session_dial(host);
	if (rc < 0)
		peer_host_failed(host, strerror(-rc));
}

void peers_want(struct peers *peers, const struct tcp_name *name)
{
	struct peer_host *host = peers ? peer_host_for(peers, name) : NULL;

	if (!host)
		return;
	/* A lane that stands still can't wait for the long pauses. */
	host->retry_at_ns = u64_min(host->retry_at_ns, clock_now_ns() + WANTED_NS);
	peer_host_want(host);
}

void peer_host_reached(struct peer_host *host, struct peer_session *session)
{
	timer_clear(&host->peers->server->loop.timers, &host->retry);
	host->session = session;
	peer_counts_move(&session->counts, &host->carried);
	if (host->dial == session)
		host->dial = NULL;
	host->failures = 0;
	host->retry_at_ns = 0;
	host->why[0] = '\0';
	peer_offers_send(host);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/util.h"
#include "devices.h"
#include "events.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/syswait.h"
#include "peers_impl.h"
#include "server.h"

/* Calls taken before others get their turn. Chosen. */
#define ACCEPT_BUDGET 16
/* Calls that wait in the kernel. Chosen: a cluster that starts. */
#define BACKLOG 128
/* How long to wait when no descriptor is left, and when the port is taken. Chosen. */
#define ACCEPT_PAUSE_MS 100
#define LISTEN_PAUSE_MS 5000

void peers_complain(struct peers *peers, enum peer_complaint kind, const struct peer_address *who,
		    const char *format, ...)
{
	char text[256], address[PEER_ADDRESS_TEXT];
	unsigned int withheld;
	va_list args;

	peers->complained[kind]++;
	if (!log_limit_pass(&peers->complaints[kind], clock_now_ns(), &withheld))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	peer_address_text(who, address);
	event_log(PEER_REFUSED,
		  LOG_FACTS(LOG_TEXT("SHUNT_PEER", address), LOG_TEXT("SHUNT_REASON", text),
			    LOG_NUMBER("SHUNT_WITHHELD", withheld)),
		  "peer %s: %s (%u more such lines were withheld)", address, text, withheld);
}

void peers_look_at_rdma(struct peers *peers)
{
	struct peer_rdma now[PEER_RDMA_MAX];
	uint16_t n;

	memset(now, 0, sizeof(now));
	n = (uint16_t)devices_rdma(peers->server->devices, now, PEER_RDMA_MAX);
	if (n == peers->n_rdma && memcmp(now, peers->rdma, sizeof(now)) == 0)
		return;
	memcpy(peers->rdma, now, sizeof(now));
	peers->n_rdma = n;
	peers->rdma_version++;
}

void peers_tell_rdma(struct peers *peers)
{
	struct list *node, *next;

	peers_look_at_rdma(peers);
	list_for_each_safe (node, next, &peers->sessions) {
		struct peer_session *session = list_entry(node, struct peer_session, link);

		if (session->phase == PEER_UP && session->rdma_told != peers->rdma_version)
			peer_session_send_hello(session);
	}
}

void peers_set_user(struct peers *peers, const struct peers_user *user)
{
	peers->user = user ? *user : (struct peers_user){0};
}

static void on_listener(struct source *source, uint32_t events)
{
	struct peers *peers = container_of(source, struct peers, listener);

	(void)events;
	for (int i = 0; i < ACCEPT_BUDGET; i++) {
		struct sockaddr_storage from, to;
		socklen_t from_len = sizeof(from), to_len = sizeof(to);
		struct tcp_end remote, local;
		struct peer_address remote_address, local_address;
		int fd = sys_accept4(source->fd, (struct sockaddr *)&from, &from_len,
				     SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
			loop_change(source, 0);
			loop_set_timer(source->loop, &peers->relisten, ACCEPT_PAUSE_MS);
			return;
		}
		if (fd == -EAGAIN)
			return;
		if (fd < 0)
			continue;
		if (tcp_end_from(&from, &remote) < 0 ||
		    sys_getsockname(fd, (struct sockaddr *)&to, &to_len) < 0 ||
		    tcp_end_from(&to, &local) < 0) {
			fd_close(fd);
			continue;
		}
		remote_address = peer_address_of(&remote);
		local_address = peer_address_of(&local);
		peer_session_accept(peers, fd, &local_address, &remote_address);
	}
}

/* A listening socket for @family, on the address of the settings or all. Or -errno. */
static int open_listener(const struct peers *peers, sa_family_t family)
{
	AUTO_FD int fd = sys_socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	in_port_t port = htons((uint16_t)peers->server->conf.peer_port);
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = port};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};
	int yes = 1, no = 0, rc;

	if (fd < 0)
		return fd;
	sys_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (family == AF_INET6) {
		sys_setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, peers->listen.family ? &yes : &no,
			       sizeof(int));
		memcpy(&in6.sin6_addr, peers->listen.addr, sizeof(in6.sin6_addr));
		rc = sys_bind(fd, (struct sockaddr *)&in6, sizeof(in6));
	} else {
		memcpy(&in.sin_addr, peers->listen.addr, sizeof(in.sin_addr));
		rc = sys_bind(fd, (struct sockaddr *)&in, sizeof(in));
	}
	if (rc == 0)
		rc = sys_listen(fd, BACKLOG);
	return rc < 0 ? rc : TAKE(fd, -1);
}

/* Listen; if that is not possible now, again later. */
static void start_listening(struct peers *peers)
{
	struct loop *loop = &peers->server->loop;
	int fd = open_listener(peers, peers->listen.family == 4 ? AF_INET : AF_INET6), rc;

	if (!peers->listen.family && (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL))
		fd = open_listener(peers, AF_INET);
	rc = fd < 0 ? fd : loop_add(loop, &peers->listener, fd, EPOLLIN, on_listener);
	if (rc == 0)
		return;
	fd_close(fd);
	peers->listener.fd = -1;
	if (!peers->listen_told)
		log_error("peers: can't listen on port %u: %s; other hosts can't reach this daemon "
			  "until it can. See peer_port and peer_listen in shunt.conf",
			  (unsigned int)peers->server->conf.peer_port, strerror(-rc));
	peers->listen_told = true;
	loop_set_timer(loop, &peers->relisten, LISTEN_PAUSE_MS);
}

static void on_relisten(struct timer *timer)
{
	struct peers *peers = container_of(timer, struct peers, relisten);

	if (peers->listener.fd < 0)
		start_listening(peers);
	else
		loop_change(&peers->listener, EPOLLIN);
}

/* Whether the settings want sessions with other hosts; if not, that is in the log if asked for. */
static bool wanted(const struct server *server)
{
	const struct conf *conf = &server->conf;
	bool has_means = conf->peers.n > 0 || conf->peer_key[0] || conf->peer_ca[0] ||
			 peers_have_credential();

	if (conf->peer_sessions == CONF_PEERS_OFF)
		return false;
	if (conf->peer_sessions == CONF_PEERS_AUTO)
		return has_means && server->serve_all;
	if (!has_means)
		log_error(
			"peers: there is neither a key (peer_key, peer_ca) nor a list of peers in "
			"the settings, so nobody can be talked to");
	return has_means;
}

/* One of this run, so that a daemon that was restarted is told from the one before. */
static bool make_uuid(uint8_t uuid[PEER_UUID_BYTES])
{
	if (getrandom(uuid, PEER_UUID_BYTES, 0) != PEER_UUID_BYTES)
		return false;
	uuid[6] = (uint8_t)(0x40 | (uuid[6] & 0x0f)); /* random, RFC 9562 */
	uuid[8] = (uint8_t)(0x80 | (uuid[8] & 0x3f));
	return true;
}

struct peers *peers_start(struct server *server)
{
	struct peers *peers;
	uint64_t seed, first_id;

	if (!wanted(server))
		return NULL;
	peers = calloc(1, sizeof(*peers));
	if (!peers || !make_uuid(peers->uuid) ||
	    getrandom(&seed, sizeof(seed), 0) != sizeof(seed) ||
	    getrandom(&first_id, sizeof(first_id), 0) != sizeof(first_id)) {
		log_error("peers: no memory or random numbers");
		free(peers);
		return NULL;
	}
	peers->server = server;
	peers->started_ns = clock_now_ns();
	/* Lanes are called by their offers, beyond the life of a daemon: its successor has others.
	 */
	peers->offer_id = first_id >> 1;
	peers->listener.fd = -1;
	peer_address_parse(server->conf.peer_listen, &peers->listen);
	list_init(&peers->sessions);
	list_init(&peers->hosts);
	map_init(&peers->by_key, seed);
	map_init(&peers->by_name, seed);
	map_init(&peers->by_id, seed);
	timer_init(&peers->relisten, on_relisten);
	for (int i = 0; i < PEER_COMPLAINTS; i++)
		peers->complaints[i] = (struct log_limit){.burst = 3, .interval_ns = 60000000000u};
	if (!peers_keys_load(peers))
		return peers_stop(peers);
	peers_look_at_rdma(peers);
	start_listening(peers);
	if (peers->listener.fd >= 0)
		log_info("peers: listening on port %u, %s", (unsigned int)server->conf.peer_port,
			 peers->key.len	    ? "by key"
			 : peers->has_certs ? "by certificate"
					    : "to listed hosts only");
	return peers;
}

struct peers *peers_stop(struct peers *peers)
{
	struct list *node;

	if (!peers)
		return NULL;
	while ((node = list_first(&peers->sessions)) != NULL) {
		struct peer_session *session = list_entry(node, struct peer_session, link);

		peer_session_bye(session, PEER_BYE_SHUTDOWN);
		peer_session_free(session);
	}
	while ((node = list_first(&peers->hosts)) != NULL) {
		struct peer_host *host = list_entry(node, struct peer_host, link);

		peer_offers_forget(host);
		peer_host_free(host);
	}
	loop_remove(&peers->listener);
	fd_close(peers->listener.fd);
	timer_clear(&peers->server->loop.timers, &peers->relisten);
	map_deinit(&peers->by_id);
	map_deinit(&peers->by_name);
	map_deinit(&peers->by_key);
	tls_store_free(peers->tls);
	tls_key_forget(&peers->key);
	for (uint32_t i = 0; i < PEER_RULES_MAX; i++)
		tls_key_forget(&peers->rule_keys[i]);
	free(peers);
	return NULL;
}

uint32_t peers_count(const struct peers *peers)
{
	return peers ? peers->n_sessions - peers->n_pending - peers->n_dials : 0;
}

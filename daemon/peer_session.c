/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "events.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sys.h"
#include "peers_impl.h"
#include "server.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

/* Calls from one address that have not proved themselves. Chosen: two daemons that share one. */
#define PENDING_PER_ADDRESS 8u

static struct loop *loop_of(const struct peer_session *session)
{
	return &session->peers->server->loop;
}

const struct peer_hello *peer_session_hello(const struct peer_session *session)
{
	return &session->hello;
}

const struct peer_rule *peer_session_rule(const struct peer_session *session)
{
	return session->rule;
}

void peer_session_proven(struct peer_session *session)
{
	if (session->pending && session->dialled)
		session->peers->n_dials--;
	else if (session->pending)
		session->peers->n_pending--;
	session->pending = false;
}

/* What the host has of it. */
static void leave_host(struct peer_session *session)
{
	struct peer_host *host = session->host;

	if (!host)
		return;
	if (host->dial == session)
		host->dial = NULL;
	if (host->session == session) {
		host->session = NULL;
		peer_offers_drop_claims(host);
	}
}

void peer_counts_move(struct peer_counts *to, struct peer_counts *counts)
{
	to->offers_sent += counts->offers_sent;
	to->offers_received += counts->offers_received;
	to->matches += counts->matches;
	to->refusals_sent += counts->refusals_sent;
	to->refusals_received += counts->refusals_received;
	to->messages_sent += counts->messages_sent;
	to->messages_received += counts->messages_received;
	to->strays += counts->strays;
	*counts = (struct peer_counts){0};
}

/* What went over a session that crossed is shown with the one that stays. */
static void hand_on_counts(struct peer_session *session)
{
	struct peer_host *host = session->host;

	host->n_leaving--;
	if (!host->session)
		return;
	peer_counts_move(&host->session->counts, &session->counts);
}

/* The user has nothing to do with it any more. */
static void tell_down(struct peer_session *session)
{
	struct peers *peers = session->peers;

	if (session->announced && peers->user.down)
		peers->user.down(peers->user.ctx, session);
	session->announced = false;
}

void peer_session_doom(struct peer_session *session)
{
	if (session->phase == PEER_DOOMED)
		return;
	if (session->phase == PEER_LEAVING)
		hand_on_counts(session);
	session->phase = PEER_DOOMED;
	loop_remove(&session->source);
	peer_session_proven(session);
	leave_host(session);
	tell_down(session);
	loop_defer(loop_of(session), &session->doom);
}

void peer_session_free(struct peer_session *session)
{
	struct peers *peers = session->peers;

	peer_session_doom(session);
	timer_clear(&peers->server->loop.timers, &session->timer);
	timer_clear(&peers->server->loop.timers, &session->resume);
	list_unlink(&session->doom.link);
	list_unlink(&session->link);
	peers->n_sessions--;
	peer_counts_move(&peers->gone, &session->counts);
	tls_free(session->tls);
	fd_close(session->source.fd);
	free(session->out);
	free(session);
}

static void on_doom(struct task *task)
{
	peer_session_free(container_of(task, struct peer_session, doom));
}

void peer_session_bye(struct peer_session *session, enum peer_bye why)
{
	const struct peer_msg msg = {.type = PEER_BYE, .u.bye = {.why = (uint16_t)why}};

	if (why && (session->phase == PEER_HELLOING || session->phase == PEER_UP))
		peer_session_send(session, &msg);
	peer_session_doom(session);
}

void peer_session_leave(struct peer_session *session, enum peer_bye why)
{
	const struct peer_msg msg = {.type = PEER_BYE, .u.bye = {.why = (uint16_t)why}};

	peer_session_send(session, &msg);
	if (session->phase != PEER_UP)
		return;
	session->phase = PEER_LEAVING;
	session->host->n_leaving++;
	tell_down(session);
	loop_set_timer(loop_of(session), &session->timer,
		       session->peers->server->conf.peer_handshake_ms);
}

void peer_session_cut(struct peer_session *session, enum peer_complaint kind, enum peer_bye why,
		      const char *format, ...)
{
	struct peer_host *host = session->host;
	char text[192];
	va_list args;

	if (session->phase == PEER_DOOMED)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	peers_complain(session->peers, kind, &session->remote, "cut off: %s", text);
	if (host && (host->session == session || host->dial == session)) {
		peer_session_bye(session, why);
		peer_host_failed(host, text);
	} else {
		peer_session_bye(session, why);
	}
}

void peer_session_lost(struct peer_session *session, const char *why)
{
	struct peer_host *host = session->host;
	bool was_its = host && (host->session == session || host->dial == session);
	char text[PEER_ADDRESS_TEXT];

	peer_address_text(&session->remote, text);
	if (session->phase == PEER_UP && was_its)
		event_log_within(
			&host->news, clock_now_ns(), PEER_DOWN,
			LOG_FACTS(LOG_TEXT("SHUNT_PEER", text), LOG_TEXT("SHUNT_REASON", why)),
			"peer %s: the session is lost: %s", text, why);
	peer_session_doom(session);
	if (was_its && !host->session)
		peer_host_failed(host, why);
}

void peer_session_send_hello(struct peer_session *session)
{
	struct peers *peers = session->peers;
	struct peer_msg msg = {
		.type = PEER_HELLO,
		.u.hello = {.magic = PEER_MAGIC,
			    .version = PEER_VERSION,
			    .software = "shuntd " SHUNT_VERSION,
			    .n_rdma = peers->n_rdma},
	};

	memcpy(msg.u.hello.uuid, peers->uuid, PEER_UUID_BYTES);
	memcpy(msg.u.hello.rdma, peers->rdma, sizeof(msg.u.hello.rdma));
	session->rdma_told = peers->rdma_version;
	peer_session_send(session, &msg);
}

static void go_on_with_handshake(struct peer_session *session)
{
	int rc = tls_handshake(session->tls);

	session->wants_write = rc == TLS_WANT_WRITE;
	if (rc > 0) {
		peer_io_watch(session);
		return;
	}
	if (rc == 0) {
		session->phase = PEER_HELLOING;
		peers_look_at_rdma(session->peers);
		peer_session_send_hello(session);
		peer_io_watch(session);
		if (session->phase != PEER_DOOMED)
			peer_io_read(session); /* TLS may have read ahead */
		return;
	}
	if (rc == -ECONNRESET && session->dialled) {
		peer_session_lost(session,
				  "it hung up before TLS was done: is it a shuntd, and may this "
				  "host talk to it?");
		return;
	}
	peer_session_cut(session, PEER_COMPLAINT_HANDSHAKE, PEER_BYE_PROTOCOL, "TLS failed: %s%s",
			 tls_why(session->tls),
			 rc == -EACCES ? " Have both hosts the same key or authority?" : "");
}

static void on_connected(struct peer_session *session)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (sys_getsockopt(session->source.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error) {
		peer_session_lost(session, error == ECONNREFUSED ? "no shuntd listens there"
								 : strerror(error));
		return;
	}
	session->phase = PEER_HANDSHAKE;
	loop_set_timer(loop_of(session), &session->timer,
		       session->peers->server->conf.peer_handshake_ms);
	go_on_with_handshake(session);
}

static void on_source(struct source *source, uint32_t events)
{
	struct peer_session *session = container_of(source, struct peer_session, source);

	switch (session->phase) {
	case PEER_DIALLING:
		on_connected(session);
		return;
	case PEER_HANDSHAKE:
		go_on_with_handshake(session);
		return;
	default:
		break;
	}
	if (events & EPOLLOUT)
		peer_io_flush(session);
	if (session->phase != PEER_DOOMED && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) &&
	    !session->paused)
		peer_io_read(session);
	/* While it is paused, only its end may wake us. */
	if (session->phase != PEER_DOOMED && session->paused && (events & (EPOLLHUP | EPOLLERR)))
		peer_session_lost(session, "it hung up");
}

/* UP: has it been silent for too long? */
static void look_at_silence(struct peer_session *session)
{
	const struct conf *conf = &session->peers->server->conf;
	uint64_t silent_ms = (clock_now_ns() - session->heard_ns) / 1000000u;
	const struct peer_msg ping = {.type = PEER_PING, .u.ping = {.serial = silent_ms}};

	/* What it said lies unread while we make it wait. */
	if (silent_ms >= conf->peer_dead_ms && !session->paused) {
		peers_complain(session->peers, PEER_COMPLAINT_SLOW, &session->remote,
			       "silent for %llu ms: given up", (unsigned long long)silent_ms);
		peer_session_lost(session, "it fell silent");
		return;
	}
	peers_look_at_rdma(session->peers);
	if (session->rdma_told != session->peers->rdma_version)
		peer_session_send_hello(session);
	if (silent_ms >= conf->peer_ping_ms)
		peer_session_send(session, &ping);
	if (session->phase != PEER_DOOMED)
		loop_set_timer(loop_of(session), &session->timer, conf->peer_ping_ms / 2 + 1);
}

static void on_timer(struct timer *timer)
{
	struct peer_session *session = container_of(timer, struct peer_session, timer);

	switch (session->phase) {
	case PEER_DIALLING:
		peer_session_lost(session, "it does not answer");
		break;
	case PEER_UP:
		look_at_silence(session);
		break;
	case PEER_LEAVING:
		peer_session_doom(session);
		break;
	default:
		if (session->dialled)
			peer_session_lost(session, "it takes the call, but says nothing");
		else
			peer_session_cut(
				session, PEER_COMPLAINT_HANDSHAKE, PEER_BYE_PROTOCOL,
				"no TLS and hello within %llu ms",
				(unsigned long long)session->peers->server->conf.peer_handshake_ms);
		break;
	}
}

/* A session over @fd (taken over), in the loop. NULL without memory: @fd is closed. */
static struct peer_session *session_new(struct peers *peers, int fd, bool dialled,
					const struct peer_rule *rule)
{
	struct peer_session *session = calloc(1, sizeof(*session));
	const struct tls_key *key;
	enum tls_way way;
	int yes = 1;

	if (!session || !peers_way(peers, rule, &way, &key)) {
		free(session);
		fd_close(fd);
		return NULL;
	}
	sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	session->peers = peers;
	session->dialled = dialled;
	session->rule = rule;
	session->phase = dialled ? PEER_DIALLING : PEER_HANDSHAKE;
	list_init(&session->link);
	task_init(&session->doom, on_doom);
	timer_init(&session->timer, on_timer);
	timer_init(&session->resume, on_peer_resume);
	session->tls = tls_new(peers->tls, fd, !dialled, way, key);
	if (!session->tls || loop_add(&peers->server->loop, &session->source, fd,
				      dialled ? EPOLLOUT : EPOLLIN, on_source) < 0) {
		tls_free(session->tls);
		free(session);
		fd_close(fd);
		return NULL;
	}
	session->serial = ++peers->serial;
	session->heard_ns = clock_now_ns();
	session->pending = true;
	list_push_back(&peers->sessions, &session->link);
	peers->n_sessions++;
	return session;
}

static unsigned int pending_from(const struct peers *peers, const struct peer_address *remote)
{
	unsigned int n = 0;
	struct list *node;

	list_for_each (node, &peers->sessions) {
		const struct peer_session *session = list_entry(node, struct peer_session, link);

		n += session->pending && !session->dialled &&
		     peer_address_same(&session->remote, remote);
	}
	return n;
}

void peer_session_accept(struct peers *peers, int fd, const struct peer_address *local,
			 const struct peer_address *remote)
{
	const struct conf *conf = &peers->server->conf;
	const struct peer_rule *rule = peer_conf_find(&conf->peers, remote);
	struct peer_session *session;
	const struct tls_key *key;
	enum tls_way way;

	if (!peers_way(peers, rule, &way, &key)) {
		peers_complain(peers, PEER_COMPLAINT_STRANGER, remote,
			       rule || peers->key_path || peers->wants_certs
				       ? "turned away: there is no key or certificate for it now"
				       : "turned away: it is not among the peers in shunt.conf");
		fd_close(fd);
		return;
	}
	if (fd >= peers->server->fd_limit || peers->n_sessions >= conf->peer_sessions_max ||
	    peers->n_pending >= conf->peer_pending_max ||
	    pending_from(peers, remote) >= PENDING_PER_ADDRESS) {
		peers_complain(peers, PEER_COMPLAINT_CROWD, remote,
			       "turned away: too many calls at a time (peer_pending_max, "
			       "peer_sessions_max)");
		fd_close(fd);
		return;
	}
	session = session_new(peers, fd, false, rule);
	if (!session)
		return;
	peers->accepted++;
	peers->n_pending++;
	session->local = *local;
	session->remote = *remote;
	loop_set_timer(&peers->server->loop, &session->timer, conf->peer_handshake_ms);
}

static socklen_t sockaddr_of(const struct peer_address *address, uint16_t port,
			     struct sockaddr_storage *ret_addr)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

	memset(ret_addr, 0, sizeof(*ret_addr));
	if (address->family == 4) {
		memcpy(&in.sin_addr, address->addr, sizeof(in.sin_addr));
		memcpy(ret_addr, &in, sizeof(in));
		return sizeof(in);
	}
	memcpy(&in6.sin6_addr, address->addr, sizeof(in6.sin6_addr));
	memcpy(ret_addr, &in6, sizeof(in6));
	return sizeof(in6);
}

int peer_session_dial(struct peer_host *host)
{
	struct peers *peers = host->peers;
	const struct conf *conf = &peers->server->conf;
	uint16_t port =
		host->rule && host->rule->port ? host->rule->port : (uint16_t)conf->peer_port;
	const struct peer_address *from =
		peers->listen.family == host->remote.family ? &peers->listen : &host->local;
	AUTO_FD int fd = sys_socket(host->remote.family == 4 ? AF_INET : AF_INET6,
				    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_storage addr;
	struct peer_session *session;
	socklen_t len;
	int yes = 1, rc;

	if (fd < 0)
		return fd;
	if (fd >= peers->server->fd_limit)
		return -EMFILE;
	/* The peer is to see the address that our end of the connection has. */
	sys_setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
	len = sockaddr_of(from, 0, &addr);
	rc = sys_bind(fd, (struct sockaddr *)&addr, len);
	if (rc < 0)
		return rc;
	len = sockaddr_of(&host->remote, port, &addr);
	rc = sys_connect(fd, (struct sockaddr *)&addr, len);
	if (rc < 0 && rc != -EINPROGRESS)
		return rc;
	session = session_new(peers, TAKE(fd, -1), true, host->rule);
	if (!session)
		return -ENOMEM;
	session->host = host;
	session->local = *from;
	session->remote = host->remote;
	session->remote.port = port;
	host->dial = session;
	peers->dials++;
	peers->n_dials++;
	loop_set_timer(&peers->server->loop, &session->timer, conf->peer_dial_ms);
	return 0;
}

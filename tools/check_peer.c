/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "check.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/syswait.h"

#ifdef HAVE_PEERS
#include "tls.h"
#endif

/* Longest wait for an answer to a call, and for what the other end says then. Chosen: as
 * peer_dial_ms, beyond one retransmission of the first segment. */
#define DIAL_MS 3000
#define TALK_MS 3000

/* Most peers that are called. Chosen: a minute and a half if none answers. */
#define PEERS_MAX 32u

static socklen_t to_sockaddr(const struct peer_address *address, struct sockaddr_storage *to)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
	struct sockaddr_in *in = (struct sockaddr_in *)to;

	memset(to, 0, sizeof(*to));
	if (address->family == 4) {
		in->sin_family = AF_INET;
		in->sin_port = htons(address->port);
		memcpy(&in->sin_addr, address->addr, 4);
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(address->port);
	memcpy(&in6->sin6_addr, address->addr, 16);
	return sizeof(*in6);
}

/* Connect as the daemon would. The descriptor, or -errno. */
static int call(const struct check_context *context, const struct peer_address *to)
{
	AUTO_FD int fd = -1;
	struct sockaddr_storage addr;
	struct peer_address own;
	socklen_t len = to_sockaddr(to, &addr), error_len = sizeof(int);
	int rc, error = 0;

	fd = sys_socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return TAKE(fd, -1);
	if (context->conf.peer_listen[0] && peer_address_parse(context->conf.peer_listen, &own) &&
	    own.family == to->family) {
		struct sockaddr_storage from;
		socklen_t from_len = to_sockaddr(&own, &from);

		rc = sys_bind(fd, (struct sockaddr *)&from, from_len);
		if (rc < 0)
			return rc;
	}
	rc = sys_connect(fd, (struct sockaddr *)&addr, len);
	if (rc == -EINPROGRESS) {
		struct pollfd wait = {.fd = fd, .events = POLLOUT};

		rc = sys_poll(&wait, 1, DIAL_MS);
		if (rc == 0)
			return -ETIMEDOUT;
		if (rc > 0)
			rc = sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len);
		if (rc == 0)
			rc = -error;
	}
	return rc < 0 ? rc : TAKE(fd, -1);
}

#ifdef HAVE_PEERS

/* Wait for @events. 0, or -ETIMEDOUT behind @until_ns. */
static int await(int fd, short events, uint64_t until_ns)
{
	struct pollfd wait = {.fd = fd, .events = events};
	uint64_t now_ns = clock_now_ns();
	int rc;

	if (now_ns >= until_ns)
		return -ETIMEDOUT;
	rc = sys_poll(&wait, 1, (int)((until_ns - now_ns) / 1000000u) + 1);
	return rc < 0 && rc != -EINTR ? rc : 0;
}

/* How this host shows @rule's daemon who it is. */
struct manner {
	enum tls_way way;
	struct tls_key key;
	struct tls_files files;
	bool has_files;
};

static bool find_manner(const struct check_context *context, const struct peer_rule *rule,
			struct manner *manner, struct peer_facts *facts)
{
	const struct conf *conf = &context->conf;
	const char *path = rule && rule->key[0] ? rule->key : conf->peer_key;
	struct tls_error error;

	*manner = (struct manner){.way = TLS_BY_TRUST};
	if (path[0]) {
		manner->way = TLS_BY_KEY;
		if (tls_key_load(path, &manner->key, &error) == 0)
			return true;
		snprintf(facts->detail, sizeof(facts->detail), "the key can't be tried: %.150s",
			 error.text);
		return false;
	}
	if (conf->peer_ca[0]) {
		manner->way = TLS_BY_CERT;
		manner->has_files = true;
		manner->files =
			(struct tls_files){conf->peer_ca, conf->peer_cert, conf->peer_cert_key};
	}
	return true;
}

/* The first message of a daemon: its hello. */
static void listen_to(struct tls *tls, int fd, struct peer_facts *facts)
{
	const uint64_t until_ns = clock_now_ns() + TALK_MS * UINT64_C(1000000);
	uint8_t bytes[PEER_FRAME_MAX];
	enum peer_verdict verdict = PEER_MORE;
	struct peer_msg msg;
	size_t len = 0, used;

	while (verdict == PEER_MORE && len < sizeof(bytes)) {
		ssize_t n = tls_read(tls, bytes + len, sizeof(bytes) - len);

		if (n == -EAGAIN && await(fd, POLLIN, until_ns) == 0)
			continue;
		if (n <= 0) {
			facts->outcome = n == -EAGAIN	? PEER_OUT_SILENT
					 : n == -EACCES ? PEER_OUT_REJECTED
							: PEER_OUT_HUNG_UP;
			snprintf(facts->detail, sizeof(facts->detail), "%s",
				 n < 0 ? tls_why(tls) : "");
			return;
		}
		len += (size_t)n;
		verdict = peer_decode(bytes, len, &msg, &used);
	}
	if (verdict == PEER_OK && msg.type == PEER_HELLO) {
		snprintf(facts->software, sizeof(facts->software), "%.31s", msg.u.hello.software);
		return;
	}
	facts->outcome = verdict == PEER_BAD_VERSION ? PEER_OUT_VERSION : PEER_OUT_NO_TLS;
	snprintf(facts->detail, sizeof(facts->detail), "%s",
		 verdict == PEER_BAD_VERSION ? "of the protocol between daemons"
					     : "its first words are no daemon's");
}

static void shake_hands(struct tls *tls, int fd, struct peer_facts *facts)
{
	const uint64_t until_ns = clock_now_ns() + TALK_MS * UINT64_C(1000000);
	int rc;

	while ((rc = tls_handshake(tls)) > 0) {
		if (await(fd, rc == TLS_WANT_READ ? POLLIN : POLLOUT, until_ns) < 0) {
			facts->outcome = PEER_OUT_SILENT;
			return;
		}
	}
	if (rc == 0) {
		listen_to(tls, fd, facts);
		return;
	}
	facts->outcome = rc == -ECONNRESET ? PEER_OUT_HUNG_UP
			 : rc == -EACCES   ? PEER_OUT_REJECTED
					   : PEER_OUT_NO_TLS;
	snprintf(facts->detail, sizeof(facts->detail), "%s", tls_why(tls));
}

static void talk(const struct check_context *context, const struct peer_rule *rule, int fd,
		 struct peer_facts *facts)
{
	struct tls_error error;
	struct tls_store *store;
	struct tls *tls = NULL;
	struct manner manner;

	facts->outcome = PEER_OUT_NOT_TRIED;
	if (!find_manner(context, rule, &manner, facts))
		return;
	store = tls_store_new(manner.has_files ? &manner.files : NULL, &error);
	if (store)
		tls = tls_new(store, fd, false, manner.way, &manner.key);
	else
		snprintf(facts->detail, sizeof(facts->detail), "%.190s", error.text);
	facts->by_certificate = manner.way == TLS_BY_CERT;
	if (tls) {
		facts->outcome = manner.way == TLS_BY_TRUST ? PEER_OUT_STRANGER : PEER_OUT_DAEMON;
		shake_hands(tls, fd, facts);
	}
	tls_free(tls);
	tls_store_free(store);
	tls_key_forget(&manner.key);
}

#else

static void talk(const struct check_context *context, const struct peer_rule *rule, int fd,
		 struct peer_facts *facts)
{
	(void)context, (void)rule, (void)fd;
	facts->outcome = PEER_OUT_NOT_TRIED;
	snprintf(facts->detail, sizeof(facts->detail), "this build has no GnuTLS to go on with");
}

#endif

static void check_address(const struct check_context *context, const struct peer_rule *rule,
			  const struct peer_address *address, struct check_report *report)
{
	struct peer_facts facts = {.own = SHUNT_VERSION};
	struct peer_address to = *address;
	char text[PEER_ADDRESS_TEXT];
	int fd;

	to.port = rule && rule->port ? rule->port : (uint16_t)context->conf.peer_port;
	snprintf(facts.address, sizeof(facts.address), "%s", peer_address_text(address, text));
	facts.port = to.port;
	fd = call(context, &to);
	if (fd < 0) {
		facts.outcome = PEER_OUT_NO_CONNECTION;
		facts.error = fd;
	} else {
		talk(context, rule, fd, &facts);
		fd_close(fd);
	}
	judge_peer(report, &facts);
}

void check_peers(struct check_context *context, struct check_report *report)
{
	const struct peer_conf *peers = &context->conf.peers;
	struct peer_address address;

	if (context->peer) {
		if (peer_address_parse(context->peer, &address))
			check_address(context, peer_conf_find(peers, &address), &address, report);
		return;
	}
	for (uint32_t i = 0; i < peers->n && i < PEERS_MAX; i++)
		check_address(context, &peers->rules[i], &peers->rules[i].addresses[0], report);
	if (peers->n == 0)
		check_say(report, CHECK_PASS, "",
			  "no peers in the settings to be called; --peer ADDRESS tries one");
}

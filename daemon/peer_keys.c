/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "os/log.h"
#include "peers_impl.h"
#include "server.h"

/*
 * Keys and certificates: read at the start, and again when the daemon is told to.
 *
 * What is read again holds at once and for every session, also those that are up: who could not
 * call now is not talked to any longer. A file that is gone, or can't be used any more, gives no
 * key: taking it away is how a key is revoked, and what others may have read or written is none.
 * Which files there are, and so in which of three ways a peer is known, stays as it was at the
 * start: whoever takes a key away does not want listed hosts to be taken on trust.
 */

/* The credential that is looked for without a setting. */
#define CREDENTIAL "shunt-peer-key"

bool peers_have_credential(void)
{
	return tls_credential_exists(CREDENTIAL);
}

bool peers_way(const struct peers *peers, const struct peer_rule *rule, enum tls_way *ret_way,
	       const struct tls_key **ret_key)
{
	const struct conf *conf = &peers->server->conf;

	*ret_key = &peers->key;
	*ret_way = TLS_BY_KEY;
	if (rule && rule->key[0]) {
		*ret_key = &peers->rule_keys[rule - conf->peers.rules];
		return (*ret_key)->len > 0;
	}
	if (peers->key_path)
		return peers->key.len > 0;
	*ret_way = peers->wants_certs ? TLS_BY_CERT : TLS_BY_TRUST;
	return peers->wants_certs ? peers->has_certs : rule != NULL;
}

static struct tls_files files_of(const struct conf *conf)
{
	return (struct tls_files){conf->peer_ca, conf->peer_cert, conf->peer_cert_key};
}

bool peers_keys_load(struct peers *peers)
{
	const struct conf *conf = &peers->server->conf;
	const struct tls_files files = files_of(conf);
	struct tls_error error;

	peers->wants_certs = peers->has_certs = conf->peer_ca[0];
	if (conf->peer_key[0])
		peers->key_path = conf->peer_key;
	else if (!peers->wants_certs && peers_have_credential())
		peers->key_path = CREDENTIAL;
	if (peers->key_path && tls_key_load(peers->key_path, &peers->key, &error) < 0) {
		log_error("peers: %s; connections to other hosts stay on TCP", error.text);
		return false;
	}
	for (uint32_t i = 0; i < conf->peers.n; i++) {
		const char *path = conf->peers.rules[i].key;

		if (*path && tls_key_load(path, &peers->rule_keys[i], &error) < 0)
			log_error("peers: %s; this peer is not talked to", error.text);
	}
	peers->tls = tls_store_new(peers->wants_certs ? &files : NULL, &error);
	if (!peers->tls)
		log_error("peers: %s; connections to other hosts stay on TCP", error.text);
	return peers->tls;
}

/* --- again ------------------------------------------------------------------------------------ */

/* Read the key @key again. Whether it is another one, or none, now. */
static bool reread(const char *path, struct tls_key *key)
{
	struct tls_error error;
	struct tls_key next = {0};
	bool differs;

	if (tls_key_load(path, &next, &error) < 0)
		log_error("peers: %s; whom it let in is not talked to any longer", error.text);
	/* What is behind its end is zero. */
	differs = memcmp(key, &next, sizeof(next)) != 0;
	if (differs)
		log_notice("peers: the key in %s is %s", path,
			   !next.len   ? "revoked"
			   : !key->len ? "back"
				       : "another one now");
	*key = next;
	tls_key_forget(&next);
	return differs;
}

static void reread_certificates(struct peers *peers)
{
	const struct tls_files files = files_of(&peers->server->conf);
	struct tls_error error;

	peers->has_certs = tls_store_reload(peers->tls, &files, &error) == 0;
	if (!peers->has_certs)
		log_error("peers: %s; whom it vouched for is not talked to any longer", error.text);
}

/* Whether the key of @rule's owner has changed; [PEER_RULES_MAX]: of all that have none of their
 * own. */
struct key_changes {
	bool has_changed[PEER_RULES_MAX + 1];
};

static bool has_changed(const struct peers *peers, const struct peer_rule *rule,
			const struct key_changes *changes)
{
	bool has_own = rule && rule->key[0];

	return changes
		->has_changed[has_own ? rule - peers->server->conf.peers.rules : PEER_RULES_MAX];
}

/* Whether @session could be made as it is now. */
static bool is_given(const struct peer_session *session, const struct key_changes *changes)
{
	const struct peers *peers = session->peers;
	const struct tls_key *key;
	enum tls_way way;

	if (!peers_way(peers, session->rule, &way, &key))
		return false;
	switch (way) {
	case TLS_BY_KEY:
		return !has_changed(peers, session->rule, changes);
	case TLS_BY_CERT:
		return tls_is_vouched_for(session->tls, peers->tls);
	case TLS_BY_TRUST:
		break;
	}
	return true;
}

static void end_session(struct peer_session *session)
{
	struct peer_host *host = session->host;
	bool was_up = session->phase == PEER_UP;
	char text[PEER_ADDRESS_TEXT];

	if (was_up) {
		peer_address_text(&session->remote, text);
		event_log(
			PEER_DOWN,
			LOG_FACTS(LOG_TEXT("SHUNT_PEER", text),
				  LOG_TEXT("SHUNT_REASON", "its key or certificate holds no more")),
			"peer %s: the keys of now do not give its session: it ends, and its "
			"connections go back to TCP",
			text);
		if (session->announced && session->peers->user.revoked)
			session->peers->user.revoked(session->peers->user.ctx, session);
	}
	peer_session_bye(session, PEER_BYE_NOT_ALLOWED);
	if (host && !host->session && !host->dial)
		peer_host_failed(host, "it has not our key, or certificate, of now");
}

/* Who has been let in again need not wait for the end of a long pause. */
static void call_again(struct peers *peers, const struct key_changes *changes)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &peers->hosts) {
		struct peer_host *host = list_entry(node, struct peer_host, link);

		if (!has_changed(peers, host->rule, changes))
			continue;
		host->retry_at_ns = 0;
		host->failures = 0;
		if (!list_is_empty(&host->offers))
			peer_host_want(host);
	}
}

void peers_keys_reread(struct peers *peers)
{
	struct key_changes changes = {{false}};
	struct list *node, *next;
	const struct conf *conf;

	if (!peers)
		return;
	conf = &peers->server->conf;
	if (peers->key_path)
		changes.has_changed[PEER_RULES_MAX] = reread(peers->key_path, &peers->key);
	for (uint32_t i = 0; i < conf->peers.n; i++) {
		if (conf->peers.rules[i].key[0])
			changes.has_changed[i] =
				reread(conf->peers.rules[i].key, &peers->rule_keys[i]);
	}
	if (peers->wants_certs) {
		reread_certificates(peers);
		changes.has_changed[PEER_RULES_MAX] = true;
	}
	list_for_each_safe (node, next, &peers->sessions) {
		struct peer_session *session = list_entry(node, struct peer_session, link);

		if (session->phase != PEER_DOOMED && !is_given(session, &changes))
			end_session(session);
	}
	call_again(peers, &changes);
}

/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "figures.h"
#include "os/clock.h"
#include "peers_impl.h"
#include "server.h"

static json_t *address_json(const struct peer_address *address)
{
	char text[PEER_ADDRESS_TEXT];

	return json_string(peer_address_text(address, text));
}

json_t *peers_uuid_json(const uint8_t uuid[PEER_UUID_BYTES])
{
	char text[40] = "";
	size_t at = 0;

	for (size_t i = 0; i < PEER_UUID_BYTES; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text[at++] = '-';
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%02x", uuid[i]);
	}
	return json_string(text);
}

static json_t *rdma_json(const struct peer_rdma *rdma)
{
	char gid[PEER_ADDRESS_TEXT];
	struct peer_address address = {.family = 6};

	memcpy(address.addr, rdma->gid, sizeof(address.addr));
	return json_pack("{s:s, s:s, s:i, s:s, s:o, s:i, s:i}", "device", rdma->device, "transport",
			 peer_transport_name(rdma->transport), "gid_version", (int)rdma->gid_type,
			 "gid", peer_address_text(&address, gid), "address",
			 address_json(&rdma->address), "prefix", (int)rdma->prefix, "port",
			 (int)rdma->address.port);
}

static json_t *list_rdma(const struct peer_rdma *rdma, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, rdma_json(&rdma[i]));
	return list;
}

static json_t *counts_json(const struct peer_counts *counts)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "offers_sent",
			 figure(counts->offers_sent), "offers_received",
			 figure(counts->offers_received), "matches", figure(counts->matches),
			 "refusals_sent", figure(counts->refusals_sent), "refusals_received",
			 figure(counts->refusals_received), "messages_sent",
			 figure(counts->messages_sent), "messages_received",
			 figure(counts->messages_received), "strays", figure(counts->strays));
}

static const char *way_name(const struct peers *peers, const struct peer_rule *rule)
{
	const struct tls_key *key;
	enum tls_way way;

	if (!peers_way(peers, rule, &way, &key))
		return "none";
	return way == TLS_BY_KEY ? "key" : way == TLS_BY_CERT ? "certificate" : "trust";
}

static json_t *session_json(const struct peer_session *session)
{
	static const char *const states[] = {
		[PEER_DIALLING] = "dialling", [PEER_HANDSHAKE] = "handshake",
		[PEER_HELLOING] = "hello",    [PEER_UP] = "up",
		[PEER_LEAVING] = "leaving",   [PEER_DOOMED] = "ending",
	};
	const struct peer_host *host = session->host;
	bool up = session->phase == PEER_UP;
	json_t *json = json_pack("{s:o, s:o, s:s, s:s, s:s, s:b, s:o}", "address",
				 address_json(&session->remote), "local",
				 address_json(&session->local), "state", states[session->phase],
				 "name", session->rule ? session->rule->name : "", "secured_by",
				 way_name(session->peers, session->rule), "dialled",
				 session->dialled, "counts", counts_json(&session->counts));
	uint64_t waiting = 0;
	struct list *node;

	if (!json || !up)
		return json;
	list_for_each (node, &host->offers)
		waiting++;
	json_object_set_new(json, "uuid", peers_uuid_json(session->hello.uuid));
	json_object_set_new(json, "software", json_string(session->hello.software));
	json_object_set_new(json, "up_ms", figure((clock_now_ns() - session->up_ns) / 1000000u));
	json_object_set_new(json, "silent_ms",
			    figure((clock_now_ns() - session->heard_ns) / 1000000u));
	json_object_set_new(json, "offers_waiting", figure(waiting));
	json_object_set_new(json, "claims_waiting", figure(host->n_claims));
	json_object_set_new(json, "unsent_bytes", figure(session->out_len - session->out_at));
	json_object_set_new(json, "rdma", list_rdma(session->hello.rdma, session->hello.n_rdma));
	return json;
}

/* A host that did not answer, until it is called again. */
static json_t *unreachable_json(const struct peer_host *host)
{
	uint64_t now = clock_now_ns();
	uint64_t left =
		host->retry_at_ns > now ? (host->retry_at_ns - now + 999999u) / 1000000u : 0;

	return json_pack("{s:o, s:o, s:s, s:s, s:o, s:o}", "address", address_json(&host->remote),
			 "local", address_json(&host->local), "name",
			 host->rule ? host->rule->name : "", "why", host->why, "failures",
			 figure(host->failures), "retry_in_ms", figure(left));
}

static json_t *refused_json(const struct peers *peers)
{
	static const char *const names[PEER_COMPLAINTS] = {
		[PEER_COMPLAINT_STRANGER] = "strangers", [PEER_COMPLAINT_CROWD] = "crowd",
		[PEER_COMPLAINT_HANDSHAKE] = "tls",	 [PEER_COMPLAINT_PROTOCOL] = "protocol",
		[PEER_COMPLAINT_CLAIM] = "claims",	 [PEER_COMPLAINT_SLOW] = "slow",
	};
	json_t *object = json_object();

	for (int i = 0; i < PEER_COMPLAINTS; i++)
		json_object_set_new(object, names[i], figure(peers->complained[i]));
	return object;
}

json_t *peers_json(const struct peers *peers, uint32_t *ret_count)
{
	json_t *sessions = json_array(), *unreachable = json_array();
	struct list *node;

	*ret_count = 0;
	if (!peers)
		return json_pack("{s:s, s:o, s:o}", "state", "off", "peers", sessions,
				 "unreachable", unreachable);
	list_for_each (node, &peers->sessions) {
		json_array_append_new(sessions,
				      session_json(list_entry(node, struct peer_session, link)));
		++*ret_count;
	}
	list_for_each (node, &peers->hosts) {
		const struct peer_host *host = list_entry(node, struct peer_host, link);

		if (host->failures > 0 && !host->session)
			json_array_append_new(unreachable, unreachable_json(host));
	}
	return json_pack(
		"{s:s, s:o, s:b, s:i, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "state",
		"on", "uuid", peers_uuid_json(peers->uuid), "listening", peers->listener.fd >= 0,
		"port", (int)peers->server->conf.peer_port, "listen", address_json(&peers->listen),
		"secured_by", way_name(peers, NULL), "peers", sessions, "unreachable", unreachable,
		"dials", figure(peers->dials), "accepted", figure(peers->accepted), "crossed",
		figure(peers->crossed), "refused", refused_json(peers), "ended_sessions",
		counts_json(&peers->gone), "rdma", list_rdma(peers->rdma, peers->n_rdma));
}

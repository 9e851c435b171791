/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "ask.h"
#include "table.h"
#include "tool.h"

static void print_name(const json_t *peer)
{
	printf("%s", answer_text(peer, "address"));
	if (answer_text(peer, "name")[0])
		printf(" (%s)", answer_text(peer, "name"));
	printf(" from %s: ", answer_text(peer, "local"));
}

static void print_rdma(const json_t *rdma)
{
	printf("  rdma         %s, %s", answer_text(rdma, "device"),
	       answer_text(rdma, "transport"));
	if (answer_count(rdma, "gid_version"))
		printf("v%" PRIu64, answer_count(rdma, "gid_version"));
	if (strcmp(answer_text(rdma, "address"), "none") != 0)
		printf(", %s/%" PRIu64 " port %" PRIu64, answer_text(rdma, "address"),
		       answer_count(rdma, "prefix"), answer_count(rdma, "port"));
	printf(", GID %s\n", answer_text(rdma, "gid"));
}

static void print_peer(const json_t *peer)
{
	const json_t *counts = json_object_get(peer, "counts"), *rdma;
	char up[SPAN_TEXT], silent[SPAN_TEXT];
	size_t i;

	print_name(peer);
	printf("%s, secured by %s, %s\n", answer_text(peer, "state"),
	       answer_text(peer, "secured_by"),
	       json_is_true(json_object_get(peer, "dialled")) ? "dialled from here"
							      : "called by it");
	if (strcmp(answer_text(peer, "state"), "up") != 0)
		return;
	printf("  daemon       %s, UUID %s\n", answer_text(peer, "software"),
	       answer_text(peer, "uuid"));
	printf("  since        %s, last heard of %s ago\n",
	       span_text(answer_count(peer, "up_ms"), up),
	       span_text(answer_count(peer, "silent_ms"), silent));
	printf("  offers       %" PRIu64 " sent, %" PRIu64 " received, %" PRIu64
	       " matched; %" PRIu64 " of ours and %" PRIu64 " of its wait\n",
	       answer_count(counts, "offers_sent"), answer_count(counts, "offers_received"),
	       answer_count(counts, "matches"), answer_count(peer, "offers_waiting"),
	       answer_count(peer, "claims_waiting"));
	printf("  refusals     %" PRIu64 " sent, %" PRIu64 " received\n",
	       answer_count(counts, "refusals_sent"), answer_count(counts, "refusals_received"));
	json_array_foreach(json_object_get(peer, "rdma"), i, rdma) print_rdma(rdma);
}

static void print_unreachable(const json_t *host)
{
	uint64_t left = answer_count(host, "retry_in_ms");
	char text[SPAN_TEXT];

	print_name(host);
	printf("no session\n  why          %s, %" PRIu64 " in a row\n", answer_text(host, "why"),
	       answer_count(host, "failures"));
	if (left)
		printf("  left alone   for another %s\n", span_text(left, text));
	else
		puts("  left alone   no longer: the next connection that waits has it called");
}

static void print_peers(const json_t *json)
{
	const json_t *entry, *refused = json_object_get(json, "refused"), *value;
	const char *state = answer_text(json, "state"), *key;
	size_t i;

	if (strcmp(state, "off") == 0) {
		puts("Sessions with other hosts are off: see peer_sessions in shunt.conf, or the "
		     "daemon's log");
		return;
	}
	if (strcmp(state, "not built") == 0) {
		puts("The daemon was built without RDMA or GnuTLS");
		return;
	}
	printf("this daemon: UUID %s, %s port %" PRIu64 ", secured by %s\n",
	       answer_text(json, "uuid"),
	       json_is_true(json_object_get(json, "listening")) ? "listening on"
								: "CAN'T LISTEN on",
	       answer_count(json, "port"),
	       strcmp(answer_text(json, "secured_by"), "none") == 0
		       ? "trust in the hosts that are listed"
		       : answer_text(json, "secured_by"));
	json_array_foreach(json_object_get(json, "rdma"), i, entry) print_rdma(entry);
	json_array_foreach(json_object_get(json, "peers"), i, entry) print_peer(entry);
	json_array_foreach(json_object_get(json, "unreachable"), i, entry) print_unreachable(entry);
	json_object_foreach((json_t *)(uintptr_t)refused, key, value)
	{
		if (json_integer_value(value))
			printf("refused or cut off: %" JSON_INTEGER_FORMAT " (%s)\n",
			       json_integer_value(value), key);
	}
}

int cmd_peers(int argc, char **argv)
{
	return ask_and_show(argc, argv, CTL_QUERY_PEERS, print_peers);
}

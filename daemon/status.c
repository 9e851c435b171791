/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"
#include "coupling.h"
#include "devices.h"
#include "figures.h"
#include "links.h"
#include "remote_ops.h"
#include "rules_json.h"
#include "ruling.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/proc.h"
#include "os/sys.h"
#include "server.h"
#include "session.h"
#include "status.h"

#define ADDRESS_BYTES (INET6_ADDRSTRLEN + sizeof("[%4294967295]:65535"))

static void free_text(char **text)
{
	free(*text);
}

static void format_end(const struct tcp_end *end, char text[ADDRESS_BYTES])
{
	char address[INET6_ADDRSTRLEN] = "?", scope[16] = "";

	inet_ntop(end->family, end->addr, address, sizeof(address));
	if (end->scope_id)
		snprintf(scope, sizeof(scope), "%%%u", end->scope_id);
	snprintf(text, ADDRESS_BYTES, end->family == AF_INET6 ? "[%s%s]:%u" : "%s%s:%u", address,
		 scope, end->port);
}

static json_t *both_ways(uint64_t tx, uint64_t rx)
{
	return json_pack("{s:o, s:o}", "tx", figure(tx), "rx", figure(rx));
}

/* Of the lane that it is on, as its client counts them; NULL where that is not known. */
static json_t *messages_json(const struct end *end)
{
	const struct half_ctl *page = NULL;

	if (end->remote)
		return end->session->server->remote->messages
			       ? end->session->server->remote->messages(end)
			       : NULL;
	if (end->coupling)
		page = end->coupling->sides[end->side].page;
	return page ? sizes_half_json(page) : NULL;
}

static json_t *connection_json(const struct end *end, const char *comm)
{
	const struct ctl_totals totals = end_totals(end);
	enum ctl_state state = end_state(end);
	bool on_ring = state == CTL_STATE_RING || state == CTL_STATE_LEAVING;
	char local[ADDRESS_BYTES], peer[ADDRESS_BYTES];

	format_end(&end->name.local, local);
	format_end(&end->name.peer, peer);
	return json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:o, s:o*}",
			 "pid", (int)end->session->pid, "comm", comm, "fd", (int)end->fd, "local",
			 local, "peer", peer, "lane",
			 !on_ring      ? "tcp"
			 : end->remote ? "rdma"
				       : "ring",
			 "epoch", (json_int_t)end->last_epoch, "state", ctl_state_name(state),
			 "reason", reason_name(end->reason), "tcp_bytes",
			 both_ways(totals.tcp_tx, totals.tcp_rx), "lane_bytes",
			 both_ways(totals.lane_tx, totals.lane_rx), "lane_changes",
			 json_pack("{s:o}", "rx", figure(totals.rx_changes)), "lane_messages",
			 on_ring ? messages_json(end) : NULL);
}

/* A process may call itself anything; JSON takes UTF-8 only. */
static void read_comm(pid_t pid, char comm[PROC_COMM_BYTES])
{
	json_t *probe;

	if (proc_comm(pid, comm) < 0)
		strcpy(comm, "?");
	probe = json_string(comm);
	if (probe) {
		json_decref(probe);
		return;
	}
	for (char *at = comm; *at; at++) {
		if (*at & 0x80)
			*at = '?';
	}
}

static json_t *event_json(const struct server *server, const struct history_event *event)
{
	const char *reason = event->reason ? reason_text(event->reason) : "";
	char text[640], link[LINKS_TEXT_BYTES];

	if (event->what == HISTORY_STATE)
		snprintf(text, sizeof(text), "%s: %s%s%s", history_text(event->what),
			 ctl_state_name(event->state), *reason ? ". " : "", reason);
	else if (event->link && links_lost_text(server->links, event->link, link))
		snprintf(text, sizeof(text), "%s: %s", history_text(event->what), link);
	else if (event->what == HISTORY_RULED)
		ruling_text(event->state, event->link, text);
	else
		snprintf(text, sizeof(text), "%s%s%s", history_text(event->what),
			 *reason ? ". " : "", reason);
	return json_pack("{s:o, s:I, s:s, s:s}", "time_ms", figure(event->at_ms), "epoch",
			 (json_int_t)event->epoch, "reason", reason_name(event->reason), "text",
			 text);
}

static json_t *events_json(const struct server *server, const struct history *history)
{
	uint32_t first = history->count > HISTORY_EVENTS ? history->count - HISTORY_EVENTS : 0;
	json_t *array = json_array();

	for (uint32_t i = first; i < history->count; i++)
		json_array_append_new(array,
				      event_json(server, &history->events[i % HISTORY_EVENTS]));
	return array;
}

static bool is_wanted(const struct session *session, const struct session *asker,
		      const struct ctl_query_msg *query)
{
	return session->phase == SESSION_CLIENT &&
	       (asker->uid == 0 || asker->uid == session->uid) &&
	       (query->pid < 0 || query->pid == session->pid);
}

/* ss, and why: the same with histories. */
static json_t *connections_json(struct server *server, const struct session *asker,
				const struct ctl_query_msg *query, uint32_t *ret_count)
{
	json_t *array = json_array(), *connection;
	char comm[PROC_COMM_BYTES];
	struct list *s, *e;

	list_for_each (s, &server->sessions) {
		struct session *session = list_entry(s, struct session, link);

		if (!is_wanted(session, asker, query) || list_is_empty(&session->ends))
			continue;
		read_comm(session->pid, comm);
		list_for_each (e, &session->ends) {
			struct end *end = list_entry(e, struct end, link);

			if (query->fd >= 0 && query->fd != end->fd)
				continue;
			connection = connection_json(end, comm);
			if (connection && ruling_holds(end))
				json_object_set_new(connection, "rule", json_integer(end->rule));
			if (connection && query->kind == CTL_QUERY_WHY)
				json_object_set_new(connection, "events",
						    events_json(server, &end->history));
			if (connection && end->remote && server->remote->show)
				json_object_set_new(connection, "remote",
						    server->remote->show(end));
			json_array_append_new(array, connection);
			++*ret_count;
		}
	}
	return json_pack("{s:o}", "connections", array);
}

static json_t *by_reason(const uint64_t counts[REASON_COUNT])
{
	json_t *object = json_object();

	for (unsigned int i = 0; i < REASON_COUNT; i++) {
		if (counts[i])
			json_object_set_new(object, reason_name(i), figure(counts[i]));
	}
	return object;
}

/* Totals are sums over all users and name nobody, so everybody may see them. */
static json_t *stats_json(const struct server *server, uint32_t *ret_count)
{
	const struct tally *tally = &server->tally;
	struct ctl_totals totals = tally->gone;
	struct list *s, *e;

	list_for_each (s, &server->sessions) {
		struct session *session = list_entry(s, struct session, link);

		list_for_each (e, &session->ends) {
			const struct end *end = list_entry(e, struct end, link);
			struct ctl_totals live = end_totals(end);

			/* Of several processes that hold it one is enough. */
			if (registry_by_cookie(&server->registry, end->cookie) != end)
				continue;
			tally_add(&totals, &live);
			++*ret_count;
		}
	}
	return json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o,"
			 " s:{s:o, s:o}, s:o*, s:o, s:o}",
			 "seen", figure(tally->seen), "open", (json_int_t)*ret_count, "promoted",
			 figure(tally->promoted), "lanes", figure(tally->lanes), "lane_changes",
			 figure(totals.rx_changes), "tcp_bytes",
			 both_ways(totals.tcp_tx, totals.tcp_rx), "lane_bytes",
			 both_ways(totals.lane_tx, totals.lane_rx), "demotions",
			 by_reason(tally->demotions), "refusals", by_reason(tally->refusals),
			 "resets", by_reason(tally->resets), "clients_cut_off",
			 figure(tally->cut_off), "stray_messages", figure(tally->strays),
			 "lanes_between_hosts", "made", figure(tally->remote), "lost",
			 figure(tally->remote_lost), "links", links_totals_json(server->links),
			 "by_lane", sizes_json(server), "size_limits", sizes_limits_json());
}

static json_t *status_json(const struct server *server)
{
	return json_pack("{s:i, s:s, s:o, s:I, s:o, s:b, s:o, s:b}", "pid", (int)getpid(),
			 "version", SHUNT_VERSION, "uptime_s",
			 figure((clock_now_ns() - server->started_ns) / 1000000000u), "sessions",
			 (json_int_t)server->session_count, "connections",
			 figure((uint64_t)map_count(&server->registry.by_cookie)), "all_users",
			 server->serve_all, "ring_bytes", figure(server->conf.ring_bytes),
			 "tcp_rule_holds", server->rule_holds);
}

static int memfd_with(const char *text, size_t len)
{
	AUTO_FD int fd = sys_memfd_create("shunt-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ssize_t rc;

	if (fd < 0)
		return fd;
	for (size_t done = 0; done < len; done += (size_t)rc) {
		const struct iovec part = {(void *)(text + done), len - done};

		rc = sys_pwritev2(fd, &part, 1, (off_t)done, 0);
		if (rc < 0)
			return (int)rc;
	}
	sys_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	return TAKE(fd, -1);
}

int status_make(struct server *server, const struct session *asker,
		const struct ctl_query_msg *query, uint32_t *ret_count)
{
	CLEANUP(free_text) char *text = NULL;
	uint32_t found = 0;
	json_t *json;
	int fd;

	switch (query->kind) {
	case CTL_QUERY_STATS:
		json = stats_json(server, &found);
		break;
	case CTL_QUERY_STATUS:
		json = status_json(server);
		break;
	case CTL_QUERY_DEVICES:
		json = devices_json(server->devices, &found);
		break;
	case CTL_QUERY_PEERS:
		json = peers_json(server->peers, &found);
		break;
	case CTL_QUERY_RULES:
		json = rules_json(&server->conf.rules, &found);
		break;
	case CTL_QUERY_LINKS:
		json = links_json(server, &found);
		break;
	default:
		json = connections_json(server, asker, query, &found);
		break;
	}
	text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	if (query->kind == CTL_QUERY_WHY && found == 0)
		return -ESRCH;
	if (!text)
		return -ENOMEM;
	fd = memfd_with(text, strlen(text));
	if (fd >= 0)
		*ret_count = found;
	return fd;
}

/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/util.h"
#include "devices_impl.h"
#include "figures.h"
#include "links.h"
#include "links_impl.h"
#include "os/clock.h"
#include "peers_impl.h"
#include "server.h"

static uint64_t ms_since(uint64_t ns)
{
	return (clock_now_ns() - ns) / 1000000u;
}

static uint64_t ms_until(uint64_t ns)
{
	uint64_t now = clock_now_ns();

	return ns > now ? (ns - now + 999999u) / 1000000u : 0;
}

/* --- links ------------------------------------------------------------------------------------ */

static const char *state_name(const struct host_link *link)
{
	if (link->is_up)
		return link->is_down ? "ending" : "up";
	return link_state_name(link->cm.state);
}

static json_t *credits_json(const struct host_link *link, const struct worker_link_counts *counts)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "given", figure(link->credits), "owed",
			 figure(counts->owed), "granted", figure(link->cm.peer.credits), "left",
			 figure(counts->credits));
}

/* What only a link that is, or was, up can tell. */
static void add_up(json_t *json, const struct host_link *link)
{
	const struct worker_link_counts counts = worker_link_counts(link->worker);

	json_object_set_new(json, "up_ms", figure(ms_since(link->up_ns)));
	json_object_set_new(json, "peer_link", figure(link->cm.peer.generation));
	json_object_set_new(json, "lanes", figure(counts.lanes));
	json_object_set_new(json, "credits", credits_json(link, &counts));
	json_object_set_new(json, "wrs_out", figure(counts.wrs_out));
	json_object_set_new(json, "tests",
			    json_pack("{s:o, s:o}", "answers", figure(counts.answers),
				      "round_trip_ns",
				      counts.answers ? figure(counts.round_trip_ns) : json_null()));
	json_object_update_missing_new(json, link_figures_json(&counts));
}

static json_t *link_json(const struct host_link *link)
{
	const struct host_port *port = container_of(link->pool, struct host_port, pool);
	enum reason reason = host_link_waits_for_qp(link) ? REASON_NO_QUEUE_PAIR : REASON_NONE;
	json_t *json = json_pack(
		"{s:o, s:s, s:o, s:s, s:o, s:s, s:o, s:s, s:s, s:b}", "link",
		figure(link->cm.own.generation), "peer", link->peer->name, "uuid",
		peers_uuid_json(link->peer->uuid), "device", link->dev->name, "port",
		figure(host_link_port(link)), "transport",
		fabric_transport_name(port->facts.port.transport), "inline_bytes",
		figure(link->qp ? link->qp->inline_max : link->pool->spec.inline_bytes), "state",
		state_name(link), "reason", reason_name(reason), "dialled", link->cm.is_dialer);

	/* What is being freed belongs to the control thread. */
	if (json && !link->is_freeing && link->is_up && link->worker)
		add_up(json, link);
	return json;
}

/* --- peers ------------------------------------------------------------------------------------ */

static json_t *lost_json(const struct link_lost *lost)
{
	return json_pack("{s:o, s:s, s:s, s:o, s:o, s:s}", "link", figure(lost->serial), "peer",
			 lost->peer, "device", lost->device, "time_ms", figure(lost->at_ms),
			 "was_up_ms", figure(lost->was_up_ms), "why", lost->why);
}

static const char *peer_state(const struct link_peer *peer)
{
	struct list *node;

	if (peer->up)
		return "up";
	list_for_each (node, &peer->links->all) {
		const struct host_link *link = list_entry(node, struct host_link, link);

		if (link->peer == peer && !link->is_down)
			return host_link_waits_for_qp(link) ? "waits for a queue pair"
							    : "being made";
	}
	if (!peer->session)
		return "no session";
	return peer->ask.id ? "asking" : "waiting";
}

static json_t *peer_json(const struct link_peer *peer)
{
	const struct link_lost *lost = links_last_lost(peer->links, peer);
	enum reason reason = peer->up ? REASON_NONE : links_reason(peer);

	return json_pack("{s:s, s:o, s:s, s:b, s:o, s:o, s:o, s:s, s:s, s:o}", "peer", peer->name,
			 "uuid", peers_uuid_json(peer->uuid), "state", peer_state(peer), "session",
			 peer->session != NULL, "link",
			 peer->up ? figure(peer->up->cm.own.generation) : json_null(), "failures",
			 figure(peer->failures), "retry_in_ms",
			 figure(peer->up ? 0 : ms_until(peer->retry_at_ns)), "why",
			 peer->up ? "" : peer->failed_why, "reason", reason_name(reason),
			 "last_lost", lost ? lost_json(lost) : json_null());
}

/* --- devices ---------------------------------------------------------------------------------- */

static json_t *worker_json(const struct worker_counts *counts)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
			 "turns", figure(counts->turns), "sleeps", figure(counts->sleeps),
			 "spins_paid", figure(counts->spins_paid), "completions_polled",
			 figure(counts->polled), "queues_armed", figure(counts->armed), "events",
			 figure(counts->events), "stale_completions", figure(counts->stale),
			 "lanes_parked", figure(counts->parked), "links_made",
			 figure(counts->links_made), "links_lost", figure(counts->links_lost),
			 "lanes_begun", figure(counts->lanes_begun), "lanes_over",
			 figure(counts->lanes_over), "receiver_not_ready", figure(counts->rnr));
}

/* @dev: NULL for all. */
static void add_links_of(const struct links *links, const struct host_device *dev,
			 struct worker_link_counts *sum)
{
	struct worker_link_counts counts;
	struct list *node;

	list_for_each (node, &links->all) {
		const struct host_link *link = list_entry(node, struct host_link, link);

		/* What the worker has forgotten is in the sum already. */
		if ((dev && link->dev != dev) || !link->is_up || link->is_gone)
			continue;
		counts = worker_link_counts(link->worker);
		link_figures_add(sum, &counts);
	}
}

static json_t *device_json(const struct links *links, const struct host_device *dev)
{
	const struct worker_counts counts = worker_counts(dev->worker);
	struct worker_link_counts sum = dev->gone;
	json_t *json;

	add_links_of(links, dev, &sum);
	json = link_figures_json(&sum);
	if (!json)
		return NULL;
	json_object_set_new(json, "device", json_string(dev->name));
	json_object_set_new(json, "worker", worker_json(&counts));
	return json;
}

json_t *links_totals_json(const struct links *links)
{
	struct worker_link_counts sum;

	if (!links)
		return NULL;
	sum = links->gone;
	add_links_of(links, NULL, &sum);
	return link_figures_json(&sum);
}

/* --- the whole -------------------------------------------------------------------------------- */

json_t *links_json(const struct server *server, uint32_t *ret_count)
{
	json_t *all = json_array(), *peers = json_array(), *devices = json_array();
	json_t *losses = json_array();
	const struct links *links = server->links;
	struct list *node;

	*ret_count = 0;
	if (!links)
		return json_pack("{s:s, s:o, s:o, s:o, s:o}", "state", "off", "links", all, "peers",
				 peers, "devices", devices, "losses", losses);
	list_for_each (node, &links->all) {
		json_array_append_new(all, link_json(list_entry(node, struct host_link, link)));
		++*ret_count;
	}
	list_for_each (node, &links->peers)
		json_array_append_new(peers, peer_json(list_entry(node, struct link_peer, link)));
	list_for_each (node, &server->devices->all) {
		const struct host_device *dev = list_entry(node, struct host_device, link);

		if (dev->worker)
			json_array_append_new(devices, device_json(links, dev));
	}
	for (uint64_t i = u64_min(links->lost, LINKS_LOST_KEPT); i > 0; i--)
		json_array_append_new(
			losses, lost_json(&links->losses[(links->lost - i) % LINKS_LOST_KEPT]));
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "state", "on", "made",
			 figure(links->made), "lost", figure(links->lost), "failed",
			 figure(links->failed), "links", all, "peers", peers, "devices", devices,
			 "losses", losses, "totals", links_totals_json(links));
}

/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "figures.h"
#include "remote_lane.h"
#include "server.h"

/* What an operator sees of a lane between hosts. */

void remote_note_lost(struct remote_lane *lane)
{
	lane->server->tally.remote_lost++;
	if (!lane->end)
		return;
	end_note(lane->end, HISTORY_LOST, REASON_NONE, lane->epoch);
	end_last_event(lane->end)->link = lane->link_serial;
}

void remote_add_live(const struct end *end, struct ctl_totals *totals)
{
	const struct remote_lane *lane = end->remote;
	const struct half_ctl *half = lane->r.half;

	/* Of a predecessor's lane it is not known what its client had moved before it. */
	if (!half || !lane->peer)
		return;
	/* A client's own claims: a sum that wraps shows as a small number, which u64_max drops. */
	totals->lane_tx = u64_max(totals->lane_tx, lane->base_tx + atomic_load(&half->prod));
	totals->lane_rx = u64_max(totals->lane_rx, lane->base_rx + atomic_load(&half->cons));
}

void remote_add_sizes(struct lane_sizes *sum)
{
	struct list *node;

	list_for_each (node, &remote_lanes) {
		const struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->r.half)
			sizes_add_half(sum, lane->r.half);
	}
}

json_t *remote_messages(const struct end *end)
{
	return end->remote->r.half ? sizes_half_json(end->remote->r.half) : NULL;
}

static const char *state_name(const struct remote_lane *lane)
{
	if (!lane->has_begun)
		return "being made";
	if (lane->r.lost)
		return "lost";
	return lane->has_ended ? "ended" : "running";
}

json_t *remote_json(const struct end *end)
{
	const struct remote_lane *lane = end->remote;
	const struct host_link *link = lane->host_link;
	const struct worker_lane_counts counts =
		lane->worker ? worker_lane_counts(lane->worker) : lane->counts;
	json_t *json = lane_figures_json(&counts);

	if (!json)
		return NULL;
	json_object_set_new(json, "state", json_string(state_name(lane)));
	json_object_set_new(json, "peer", json_string(lane->peer ? lane->peer->name : ""));
	json_object_set_new(json, "link",
			    lane->link_serial ? figure(lane->link_serial) : json_null());
	json_object_set_new(json, "device", json_string(link ? link->dev->name : ""));
	json_object_set_new(json, "port", figure(link ? host_link_port(link) : 0));
	return json;
}

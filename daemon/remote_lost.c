/* SPDX-License-Identifier: MIT */
#include "remote_lane.h"

void remote_on_lost(struct link_peer *peer, const struct peer_lane_at *at)
{
	uint64_t own_id = (uint64_t)at->token.index << 32 | at->token.generation;
	struct remote_lane *lane = remote_find(peer, own_id);
	const struct peer_msg noted = {.type = PEER_REPLAYED, .u.lane_at = *at};

	/* Also for a lane that we know no more: whoever is through with it waits for nothing. */
	peer_session_send(peer->session, &noted);
	if (lane && lane->epoch == at->epoch)
		remote_peer_lost(lane, at->offset);
}

void remote_on_noted(struct link_peer *peer, const struct peer_lane_at *at)
{
	uint64_t peer_id = (uint64_t)at->token.index << 32 | at->token.generation;
	struct list *node;

	list_for_each (node, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		if (lane->peer != peer || lane->peer_id != peer_id || lane->epoch != at->epoch ||
		    !lane->sent_lost)
			continue;
		lane->r.settled = true;
		remote_act(lane);
		return;
	}
}

/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "core/link_lane.h"

#define BIT(id) (1u << (id))

void link_lane_init(struct link_lane *lane, const struct link_lane_setup *setup, void *user)
{
	assert(ring_size_ok(setup->own_bytes) && ring_size_ok(setup->peer_bytes) &&
	       ring_size_ok(setup->source_bytes));
	*lane = (struct link_lane){
		.user = user, .own_bytes = setup->own_bytes, .peer_bytes = setup->peer_bytes};
	lane->pace_bytes = u64_min(setup->recv_bytes, setup->source_bytes);
	list_init(&lane->urgent);
	list_init(&lane->bulk);
	cdc_tx_init(&lane->tx, setup->peer, setup->epoch);
	cdc_rx_init(&lane->rx, setup->own, setup->epoch, setup->recv_bytes);
}

uint64_t link_lane_window(const struct link_lane *lane)
{
	return ring_space(lane->peer_bytes, lane->tx.prod, lane->rx.cons);
}

/* Bytes that are produced and not sent, whatever there is room for. */
static uint64_t waiting_bytes(const struct link_lane *lane)
{
	struct ring_off end = lane->prod;

	if (lane->is_stopped || !(lane->tx.flags & CDC_F_START) || lane->tx.flags & CDC_F_END)
		return 0;
	if (lane->due.set & BIT(LINK_WORD_TX_END) && ring_off_lt(lane->end, end))
		end = lane->end;
	return ring_off_dist(lane->tx.prod, end);
}

uint64_t link_lane_ready_bytes(const struct link_lane *lane)
{
	return u64_min(waiting_bytes(lane), link_lane_window(lane));
}

bool link_lane_is_blocked(const struct link_lane *lane)
{
	return waiting_bytes(lane) && !link_lane_window(lane);
}

/* Room for the peer's bytes with @cons told; none if it has sent more than it can have. */
static uint64_t room_bytes(const struct link_lane *lane, struct ring_off cons)
{
	uint64_t used = ring_off_dist(cons, lane->rx.prod);

	return used < lane->pace_bytes ? lane->pace_bytes - used : 0;
}

/* Room that makes an update worth a message. All of the ring is always more than that. */
static uint64_t update_bytes(const struct link_lane *lane)
{
	return u64_min(lane->pace_bytes / 4, LANE_UPDATE_MAX_BYTES);
}

static bool update_is_due(const struct link_lane *lane)
{
	uint64_t gain = ring_off_dist(lane->tx.cons, lane->cons);

	if (!gain)
		return false;
	if (lane->must_tell || lane->peer_wants_update)
		return true;
	if (lane->peer_is_blocked)
		return room_bytes(lane, lane->cons) >= update_bytes(lane);
	if (room_bytes(lane, lane->tx.cons) >= lane->pace_bytes / 2)
		return false;
	return gain >= update_bytes(lane);
}

bool link_lane_update_is_due(const struct link_lane *lane)
{
	if (lane->tx.flags & CDC_F_DONE)
		return false;
	return update_is_due(lane) || lane->wants_update ||
	       (link_lane_is_blocked(lane) && !(lane->flags & CDC_F_BLOCKED));
}

uint32_t link_lane_ready_words(const struct link_lane *lane)
{
	uint32_t words = lane->due.set;

	if (lane->tx.flags & CDC_F_DONE)
		return 0;
	if (words & BIT(LINK_WORD_TX_END) && !ring_off_eq(lane->end, lane->tx.prod))
		words &= ~BIT(LINK_WORD_TX_END);
	return words;
}

bool link_lane_done_is_due(const struct link_lane *lane)
{
	return lane->is_stopped && !(lane->tx.flags & CDC_F_DONE) && !link_lane_ready_words(lane);
}

/* What the peer will know once it has heard the message that is made now. */
static void remember(struct link_lane *lane, uint32_t words)
{
	uint64_t room = room_bytes(lane, lane->cons);
	bool moved = !ring_off_eq(lane->tx.cons, lane->cons);

	if (room >= update_bytes(lane))
		lane->peer_is_blocked = false;
	lane->peer_wants_update = lane->peer_wants_update && !moved;
	lane->must_tell = lane->must_tell && !moved;
	lane->wants_update = false;
	lane->due.set &= ~words;
	lane->told |= words;
}

void link_lane_make(struct link_lane *lane, enum link_msg_type type, uint32_t moved, uint32_t words,
		    struct cdc *ret_msg)
{
	uint16_t flags = lane->wants_update ? CDC_F_WANTED : 0;

	assert(moved <= link_lane_ready_bytes(lane) && !(words & ~link_lane_ready_words(lane)));
	remember(lane, words);
	if (words & BIT(LINK_WORD_TX_START))
		flags |= CDC_F_START;
	if (words & BIT(LINK_WORD_TX_END))
		flags |= CDC_F_END;
	if (type == LINK_MSG_LANE_DONE)
		flags |= CDC_F_DONE;
	/* Whether bytes wait behind those of this message. */
	lane->flags = 0;
	if (waiting_bytes(lane) > moved && link_lane_window(lane) == moved)
		lane->flags = CDC_F_BLOCKED;
	cdc_tx_next(&lane->tx, type, moved, lane->cons, flags | lane->flags, ret_msg);
}

bool link_lane_is_over(const struct link_lane *lane)
{
	return lane->tx.flags & CDC_F_DONE && lane->rx.flags & CDC_F_DONE &&
	       link_lane_is_quiet(lane);
}

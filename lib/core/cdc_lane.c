/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "core/cdc_lane.h"

void cdc_tx_init(struct cdc_tx *tx, struct cdc_token token, uint32_t epoch)
{
	*tx = (struct cdc_tx){.token = token, .epoch = (uint8_t)epoch};
}

void cdc_rx_init(struct cdc_rx *rx, struct cdc_token token, uint32_t epoch, uint64_t ring_bytes)
{
	assert(ring_size_ok(ring_bytes));
	*rx = (struct cdc_rx){.token = token, .epoch = (uint8_t)epoch, .ring_bytes = ring_bytes};
}

/* The next sequence; 0 is never one, so that a header of zeros is none of a lane. */
static uint32_t sequence_after(uint32_t sequence)
{
	return sequence == UINT32_MAX ? 1 : sequence + 1;
}

void cdc_tx_next(struct cdc_tx *tx, enum link_msg_type type, uint32_t moved, struct ring_off cons,
		 uint16_t flags, struct cdc *ret_msg)
{
	assert(cdc_is_of_lane(type) && !(tx->flags & CDC_F_DONE));
	assert(!ring_off_lt(cons, tx->cons));
	tx->flags |= flags & CDC_F_STICKY;
	tx->sequence = sequence_after(tx->sequence);
	tx->prod = ring_off_add(tx->prod, moved);
	tx->cons = cons;
	*ret_msg = (struct cdc){
		.type = type,
		.epoch = tx->epoch,
		.sequence = tx->sequence,
		.token = tx->token,
		.prod = (uint32_t)tx->prod.v,
		.cons = (uint32_t)tx->cons.v,
		.moved = moved,
		.flags = flags | tx->flags,
	};
}

/* The offset at or above @known whose low half is @low. */
static struct ring_off extended(struct ring_off known, uint32_t low)
{
	return ring_off_add(known, low - (uint32_t)known.v);
}

enum cdc_taken cdc_rx_take(struct cdc_rx *rx, const struct cdc *msg, const struct cdc_tx *tx)
{
	struct ring_off prod = extended(rx->prod, msg->prod);
	struct ring_off cons = extended(rx->cons, msg->cons);

	if (msg->token.index != rx->token.index || msg->token.generation != rx->token.generation)
		return CDC_STALE_TOKEN;
	if (msg->epoch != rx->epoch)
		return CDC_STALE_EPOCH;
	if (msg->sequence != sequence_after(rx->sequence))
		return CDC_WRONG_SEQUENCE;
	if (ring_off_dist(rx->prod, prod) != msg->moved)
		return CDC_WRONG_PROD;
	if (ring_off_dist(tx->cons, prod) > rx->ring_bytes)
		return CDC_WRONG_WINDOW;
	/* What is behind the known one extends to almost 4 GiB beyond it, and nobody sent that. */
	if (ring_off_lt(tx->prod, cons))
		return CDC_WRONG_CONS;
	if (rx->flags & CDC_F_STICKY & ~msg->flags || rx->flags & CDC_F_DONE)
		return CDC_WRONG_FLAGS;
	rx->sequence = msg->sequence;
	rx->prod = prod;
	rx->cons = cons;
	rx->flags = msg->flags;
	return CDC_TAKEN;
}

const char *cdc_taken_name(enum cdc_taken taken)
{
	static const char *const names[CDC_TAKEN_COUNT] = {
		[CDC_TAKEN] = "taken",
		[CDC_STALE_TOKEN] = "stale_token",
		[CDC_STALE_EPOCH] = "stale_epoch",
		[CDC_WRONG_SEQUENCE] = "wrong_sequence",
		[CDC_WRONG_PROD] = "wrong_producer_offset",
		[CDC_WRONG_WINDOW] = "beyond_the_window",
		[CDC_WRONG_CONS] = "wrong_consumer_offset",
		[CDC_WRONG_FLAGS] = "wrong_flags",
	};

	return taken < CDC_TAKEN_COUNT ? names[taken] : "invalid";
}

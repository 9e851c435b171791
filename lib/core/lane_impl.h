/* SPDX-License-Identifier: MIT */
#pragma once

#include "core/lane.h"

/* What the files of the lane switch share with each other and with nobody else. */

/* A state word changed: sleepers of both kinds and of both sides may care. */
static inline void wake_due_state(struct lane_wake *wake)
{
	wake->due_peer = WAKE_ALL;
	wake->due_self = WAKE_ALL;
}

/* Take the receive transitions that move no byte. Receive lock. 0 or -EBADMSG. */
int lane_rx_settle(struct lane *lane);

/* End the own direction where production stands. Transmit lock. */
void lane_tx_end(struct lane *lane);

/* The ring offset up to which the peer is to consume what was produced here so far. */
static inline struct ring_off lane_owed(const struct lane *lane)
{
	uint64_t stop_ack = atomic_load(&lane->own->stop_ack);

	if (stop_ack == OPT_NONE || atomic_load(&lane->peer->rx_resume) == RESUME_DONE)
		return ring_off(atomic_load(&lane->own->prod));
	return ring_off(opt_value(stop_ack));
}

/* Whether the daemon has vouched for all that was produced here. 1, 0 or -EBADMSG. */
int lane_tx_replayed(struct lane *lane);

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

/* Lost lane: whether the daemon has replayed all that was produced here. 1, 0 or -EBADMSG. */
int lane_tx_replayed(struct lane *lane);

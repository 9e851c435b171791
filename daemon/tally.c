/* SPDX-License-Identifier: MIT */
#include "tally.h"

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void tally_add(struct ctl_totals *sum, const struct ctl_totals *totals)
{
	sum->tcp_tx = add_saturating(sum->tcp_tx, totals->tcp_tx);
	sum->tcp_rx = add_saturating(sum->tcp_rx, totals->tcp_rx);
	sum->lane_tx = add_saturating(sum->lane_tx, totals->lane_tx);
	sum->lane_rx = add_saturating(sum->lane_rx, totals->lane_rx);
	sum->rx_changes = add_saturating(sum->rx_changes, totals->rx_changes);
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "core/ctl.h"
#include "core/reason.h"
#include "sizes.h"

/*
 * Totals since the daemon started, of ends that are gone; those of live ends are added when
 * somebody asks. Everything counts ends: a connection between two clients of this daemon has two.
 */
struct tally {
	uint64_t seen;		      /* ends that registered or were adopted */
	uint64_t promoted;	      /* ends that got at least one complete lane */
	uint64_t lanes;		      /* complete lanes, per end */
	uint64_t remote, remote_lost; /* of those: between hosts, and that were lost */
	struct ctl_totals gone;
	struct lane_sizes sizes[LANE_KINDS]; /* of lanes that are gone */
	uint64_t demotions[REASON_COUNT];
	uint64_t refusals[REASON_COUNT];
	uint64_t resets[REASON_COUNT];
	/* Clients that were cut off, and messages about lanes that were gone. */
	uint64_t cut_off, strays;
};

/* Add @totals to @sum, saturating: the figures are the clients' own. */
void tally_add(struct ctl_totals *sum, const struct ctl_totals *totals);

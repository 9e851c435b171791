/* SPDX-License-Identifier: MIT */
#include "fabric/worker_impl.h"

struct worker_counts worker_counts(struct worker *worker)
{
	struct worker_counts counts;

	counts_read(&counts, &worker->counts, sizeof(counts));
	return counts;
}

struct worker_link_counts worker_link_counts(struct worker_link *link)
{
	struct worker_link_counts counts;

	counts_read(&counts, &link->counts, sizeof(counts));
	counts_read(&counts.send, &link->send.counts, sizeof(counts.send));
	return counts;
}

struct worker_lane_counts worker_lane_counts(struct worker_lane *lane)
{
	struct worker_lane_counts counts;

	counts_read(&counts, &lane->counts, sizeof(counts));
	return counts;
}

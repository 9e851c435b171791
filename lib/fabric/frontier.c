/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/util.h"
#include "core/inline_probe.h"
#include "fabric/frontier.h"
#include "os/clock.h"
#include "os/log.h"

struct search {
	const struct device *device;
	struct trial_shape shape;
	struct ibv_cq *cq;
	struct frontier *frontier;
};

/* Whether a queue of @send_wr with @point's inline is accepted: 1, 0, or -errno of an error that is
 * not about depth. */
static int accepts(struct search *search, const struct frontier_point *point, uint32_t send_wr)
{
	struct trial trial;
	int rc;

	if (search->frontier->creations >= FRONTIER_BUDGET)
		return -E2BIG;
	search->frontier->creations++;
	search->shape.send_wr = send_wr;
	rc = trial_create(search->device, &search->shape, search->cq, point->inline_bytes, &trial);
	log_debug("%s: frontier: %u bytes inline at depth %u: %s", search->device->info.name,
		  point->inline_bytes, send_wr, rc ? "refused" : "accepted");
	if (rc == TRIAL_REFUSED || (rc < 0 && inline_is_refusal(-rc)))
		return 0;
	/* Too large for the memory, not for the device: still too deep. */
	if (rc == -ENOMEM)
		return 0;
	if (rc < 0)
		return rc;
	rc = trial.cap.max_inline_data >= point->inline_bytes && trial.cap.max_send_wr >= send_wr;
	trial_destroy(search->device, &trial);
	return rc;
}

/*
 * The deepest of @top and the powers of two below it that is accepted; @good is known to be. By
 * halving the exponents: 16 of them take four steps.
 */
static void find_depth(struct search *search, struct frontier_point *point, uint32_t good,
		       uint32_t top)
{
	uint32_t low = 0, high = 0;
	int rc = accepts(search, point, top);

	point->send_wr = rc > 0 ? top : good;
	while (rc == 0 && (uint64_t)good << (high + 1) < top)
		high++;
	/* good << low is accepted, good << (high + 1) is not, or is beyond the top. */
	while (rc >= 0 && low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		rc = accepts(search, point, good << middle);
		if (rc > 0)
			low = middle;
		else
			high = middle - 1;
		point->send_wr = good << low;
	}
	point->error = rc < 0 ? -rc : 0;
}

void frontier_find(const struct device *device, const struct trial_shape *shape,
		   uint32_t inline_bytes, struct frontier *ret_frontier)
{
	static const uint32_t sizes[FRONTIER_POINTS_MAX] = {0, 64, 128, UINT32_MAX};
	uint64_t start_ns = clock_now_ns();
	struct search search = {.device = device, .shape = *shape, .frontier = ret_frontier};
	uint32_t top = (uint32_t)u64_min(device->info.max_qp_wr, FRONTIER_WR_MAX);

	*ret_frontier = (struct frontier){0};
	top = (uint32_t)u64_max(top, shape->send_wr);
	if (trial_cq_create(device, shape, &search.cq) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct frontier_point *point = &ret_frontier->points[ret_frontier->n++];

		point->inline_bytes = (uint32_t)u64_min(sizes[i], inline_bytes);
		find_depth(&search, point, (uint32_t)u64_max(shape->send_wr, 1), top);
		if (point->error || point->inline_bytes == inline_bytes)
			break;
		/* More inline never allows a deeper queue. */
		top = point->send_wr;
	}
	trial_cq_destroy(device, search.cq);
	ret_frontier->us = (uint32_t)((clock_now_ns() - start_ns) / 1000);
}

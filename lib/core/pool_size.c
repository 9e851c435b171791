/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "base/util.h"
#include "core/pool_size.h"

#define ENTRY_HEAD_BYTES 64u
#define ENTRY_BLOCK_BYTES 64u
#define SGE_BYTES 16u
#define QUEUE_PAGE_BYTES 4096u

void pool_size_init(struct pool_size *size, uint32_t min, uint32_t max, uint64_t now_ns)
{
	assert(min >= 1 && min <= max);
	*size = (struct pool_size){
		.min = min, .max = max, .target = min, .low = min, .window_ns = now_ns};
}

void pool_size_asked(struct pool_size *size, uint32_t ready, bool found)
{
	if (ready < size->low)
		size->low = ready;
	if (found && ready >= size->target / 4 && ready > 0)
		return;
	size->target = size->target > size->max / 2 ? size->max : size->target * 2;
}

bool pool_size_tick(struct pool_size *size, uint32_t ready, uint64_t now_ns)
{
	uint32_t above = size->target - size->min, less;
	bool untouched;

	if (ready < size->low)
		size->low = ready;
	if (now_ns - size->window_ns < POOL_WINDOW_NS)
		return false;
	untouched = size->low > size->target / 2;
	size->window_ns = now_ns;
	size->low = ready;
	if (!untouched || above == 0)
		return false;
	less = above / 4;
	size->target -= less ? less : 1;
	return true;
}

uint32_t pool_size_wanted(const struct pool_size *size, uint32_t ready, uint32_t coming)
{
	uint64_t have = (uint64_t)ready + coming;

	return have < size->target ? (uint32_t)(size->target - have) : 0;
}

uint32_t pool_budget_max(const struct pool_budget *budget)
{
	uint64_t most = budget->config_max;

	if (budget->device_max)
		most = u64_min(most, budget->device_max - budget->device_max / POOL_SPARE_DIVISOR);
	if (budget->qp_bytes)
		most = u64_min(most, budget->memory_max / budget->qp_bytes);
	return (uint32_t)most;
}

uint32_t pool_budget_left(const struct pool_budget *budget)
{
	uint64_t have = (uint64_t)budget->in_use + budget->coming;
	uint32_t most = pool_budget_max(budget);

	return have < most ? (uint32_t)(most - have) : 0;
}

static uint64_t queue_bytes(uint32_t entries, uint64_t entry_bytes)
{
	return u64_align_up(entries * entry_bytes, QUEUE_PAGE_BYTES);
}

uint64_t pool_qp_bytes(uint32_t send_wr, uint32_t recv_wr, uint32_t sge, uint32_t inline_bytes)
{
	uint64_t gather = (uint64_t)sge * SGE_BYTES;
	uint64_t send =
		u64_align_up(ENTRY_HEAD_BYTES + u64_max(gather, inline_bytes), ENTRY_BLOCK_BYTES);

	return queue_bytes(send_wr, send) + queue_bytes(recv_wr, u64_max(gather, SGE_BYTES));
}

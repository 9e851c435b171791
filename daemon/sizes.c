/* SPDX-License-Identifier: MIT */
#include "base/count.h"
#include "base/list.h"
#include "coupling.h"
#include "figures.h"
#include "remote_ops.h"
#include "server.h"
#include "sizes.h"

static void add(uint64_t *sum, uint64_t value)
{
	*sum = *sum > UINT64_MAX - value ? UINT64_MAX : *sum + value;
}

void sizes_add_half(struct lane_sizes *sum, const struct half_ctl *half)
{
	add(&sum->tx_bytes, atomic_load_explicit(&half->prod, memory_order_relaxed));
	add(&sum->rx_bytes, atomic_load_explicit(&half->cons, memory_order_relaxed));
	for (unsigned int i = 0; i < SIZES_BUCKETS; i++) {
		add(&sum->tx[i], count_read(&half->sent[i]));
		add(&sum->rx[i], count_read(&half->taken[i]));
	}
}

uint64_t sizes_messages(const uint64_t counts[SIZES_BUCKETS])
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < SIZES_BUCKETS; i++)
		add(&sum, counts[i]);
	return sum;
}

static json_t *ways(uint64_t tx, uint64_t rx)
{
	return json_pack("{s:o, s:o}", "tx", figure(tx), "rx", figure(rx));
}

json_t *sizes_half_json(const struct half_ctl *half)
{
	struct lane_sizes sizes = {0};

	sizes_add_half(&sizes, half);
	return ways(sizes_messages(sizes.tx), sizes_messages(sizes.rx));
}

static json_t *counts_json(const uint64_t counts[SIZES_BUCKETS])
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < SIZES_BUCKETS; i++)
		json_array_append_new(array, figure(counts[i]));
	return array;
}

static json_t *kind_json(const struct lane_sizes *sizes)
{
	return json_pack("{s:o, s:o, s:{s:o, s:o}}", "bytes",
			 ways(sizes->tx_bytes, sizes->rx_bytes), "messages",
			 ways(sizes_messages(sizes->tx), sizes_messages(sizes->rx)), "sizes", "tx",
			 counts_json(sizes->tx), "rx", counts_json(sizes->rx));
}

json_t *sizes_json(const struct server *server)
{
	struct lane_sizes kinds[LANE_KINDS];
	struct list *node;

	for (int i = 0; i < LANE_KINDS; i++)
		kinds[i] = server->tally.sizes[i];
	list_for_each (node, &server->couplings) {
		const struct coupling *coupling = list_entry(node, struct coupling, link);

		for (int i = 0; i < 2; i++) {
			if (coupling->sides[i].page)
				sizes_add_half(&kinds[LANE_RING], coupling->sides[i].page);
		}
	}
	if (server->remote && server->remote->add_sizes)
		server->remote->add_sizes(&kinds[LANE_RDMA]);
	return json_pack("{s:o, s:o}", "ring", kind_json(&kinds[LANE_RING]), "rdma",
			 kind_json(&kinds[LANE_RDMA]));
}

json_t *sizes_limits_json(void)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i + 1 < SIZES_BUCKETS; i++)
		json_array_append_new(array, figure(sizes_limit(i)));
	return array;
}

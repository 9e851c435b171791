/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sim/link_world.h"

struct world world;

void world_fail(const char *fmt, ...)
{
	va_list args;

	if (world.fault[0])
		return;
	va_start(args, fmt);
	vsnprintf(world.fault, sizeof(world.fault), fmt, args);
	va_end(args);
}

/* --- the wire --------------------------------------------------------------------------------- */

static uint32_t place(const struct world_end *end, uint32_t number)
{
	return number & (link_slots(end->send.flow.limits.depth) - 1);
}

/* The bytes of @item as they are in memory now. */
static void capture(struct world_end *end, struct world_item *item)
{
	const struct link_wr *wr = &item->wr;
	const uint8_t *own = wr->own;
	struct world_client *client = wr->lane ? wr->lane->user : NULL;

	if (!wr->is_inline)
		own = end->slot[place(end, wr->number)];
	item->len = wr->own_bytes + wr->bytes;
	item->data = malloc(item->len ? item->len : 1);
	memcpy(item->data, own, wr->own_bytes);
	if (wr->bytes)
		ring_copy_out(client->ring, client->lane.own_bytes, wr->from,
			      item->data + wr->own_bytes, wr->bytes);
}

/* Whether the bytes of a WRITE lie in one piece in the ring here. */
static bool is_one_piece(const struct link_wr *wr)
{
	uint64_t size = wr->lane->own_bytes;

	return (wr->from.v & (size - 1)) + wr->bytes <= size;
}

static void post(unsigned int side, const struct link_wr *wr)
{
	struct world_end *end = &world.end[side];
	const struct link_limits *limits = &end->send.flow.limits;
	struct world_item *item = &end->item[place(end, wr->number)];

	WORLD_REQUIRE(wr->number == end->head, "work request %u posted as %u", end->head,
		      wr->number);
	WORLD_REQUIRE(end->head - end->retired < limits->depth, "the send queue runs over");
	WORLD_REQUIRE(!wr->is_inline || wr->own_bytes + wr->bytes <= limits->inline_bytes,
		      "%u bytes inline", wr->own_bytes + wr->bytes);
	WORLD_REQUIRE(wr->is_inline || wr->bytes <= limits->chunk_bytes, "a write of %u bytes",
		      wr->bytes);
	WORLD_REQUIRE(wr->op == LINK_WR_WRITE || !wr->bytes || wr->is_inline, "eager, not inline");
	WORLD_REQUIRE(wr->op == LINK_WR_SEND || is_one_piece(wr), "a write from beyond the ring");
	if (world.fault[0])
		return;
	end->head++;
	world.moved_tick = world.tick;
	*item = (struct world_item){.wr = *wr};
	if (wr->is_inline)
		capture(end, item);
	else
		memcpy(end->slot[place(end, wr->number)], wr->own, wr->own_bytes);
}

/* What comes next on the wire begins when it is free, and the NIC reads it at the end. */
static void transmit(unsigned int side)
{
	struct world_end *end = &world.end[side];
	while (end->sent != end->head) {
		struct world_item *item = &end->item[place(end, end->sent)];
		uint32_t bytes = item->wr.own_bytes + item->wr.bytes + 64;

		if (!item->sent) {
			end->busy_until =
				u64_max(end->busy_until, world.tick) + 1 + bytes / world.plan.rate;
			item->sent = end->busy_until;
		}
		if (item->sent > world.tick)
			return;
		if (!item->data)
			capture(end, item);
		item->delivered = item->sent + world.plan.latency;
		item->completed = item->delivered + world.plan.latency;
		end->sent++;
	}
}

/* RDMA WRITE: into bytes that nobody has a claim on. */
static void written(unsigned int to, const struct world_item *item)
{
	const struct world_client *from = item->wr.lane->user;
	struct world_client *at = &world.end[to].client[from - world.end[!to].client];
	uint64_t begin = item->wr.from.v, size = from->lane.peer_bytes;

	WORLD_REQUIRE(at->is_there && at->epoch == from->epoch, "a write into a ring that is gone");
	WORLD_REQUIRE(begin >= at->fed_prod, "a write behind prod");
	WORLD_REQUIRE(begin + item->len - at->cons <= size, "a write over unread bytes");
	WORLD_REQUIRE((begin & (size - 1)) + item->len <= size, "a write beyond the ring");
	if (!world.fault[0])
		memcpy(at->fed + (begin & (size - 1)), item->data, item->len);
}

static void deliver(unsigned int side)
{
	struct world_end *end = &world.end[side], *other = &world.end[!side];

	while (end->delivered != end->sent) {
		struct world_item *item = &end->item[place(end, end->delivered)];
		struct world_message *in = &other->in[other->in_head % ARRAY_SIZE(other->in)];

		if (item->delivered > world.tick)
			return;
		if (item->wr.op == LINK_WR_WRITE) {
			written(!side, item);
		} else {
			WORLD_REQUIRE(other->posted, "side %u is not ready to receive", !side);
			WORLD_REQUIRE(item->len <= sizeof(in->bytes), "a long message");
			if (world.fault[0])
				return;
			other->posted--;
			memcpy(in->bytes, item->data, item->len);
			in->len = item->len;
			in->tick = world.tick;
			other->in_head++;
		}
		free(item->data);
		item->data = NULL;
		end->delivered++;
		world.moved_tick = world.tick;
	}
}

/* --- a worker --------------------------------------------------------------------------------- */

static void poll_completions(struct world_end *end)
{
	for (uint32_t number = end->retired; number != end->delivered; number++) {
		struct world_item *item = &end->item[place(end, number)];

		if (item->completed > world.tick)
			return;
		if (!item->wr.is_signalled)
			continue;
		WORLD_REQUIRE(link_send_complete(&end->send, number) == LINK_FLOW_OK,
			      "completion %u is unknown", number);
		end->retired = number + 1;
	}
}

static void poll_messages(unsigned int side)
{
	struct world_end *end = &world.end[side];

	while (end->in_tail != end->in_head && !world.fault[0]) {
		const struct world_message *in = &end->in[end->in_tail++ % ARRAY_SIZE(end->in)];
		struct link_news news;
		enum link_taken taken =
			link_take(&end->send, &end->lanes, in->bytes, in->len, &news);

		WORLD_REQUIRE(taken == LINK_TAKEN, "side %u: verdict %d, %s", side, taken,
			      news.why ? news.why : "no reason");
		if (!world.fault[0])
			world_hear(side, &news);
		end->to_repost++;
	}
}

static void repost(struct world_end *end)
{
	uint32_t n = world.plan.repost_ticks ? (uint32_t)prng_below(&world.prng, end->to_repost + 1)
					     : end->to_repost;

	end->to_repost -= n;
	end->posted += n;
	link_flow_reposted(&end->send.flow, n);
}

/* Bytes by reference come back with what is signalled at or behind them. */
static void check_signals(const struct link_wr *wrs, size_t n)
{
	uint32_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		if (wrs[i].op == LINK_WR_WRITE && !wrs[i].is_inline)
			bytes += wrs[i].bytes;
		if (wrs[i].is_signalled)
			bytes = 0;
	}
	WORLD_REQUIRE(!bytes, "nobody is told of %u bytes by reference", bytes);
}

static void work(unsigned int side)
{
	struct world_end *end = &world.end[side];
	struct link_wr wrs[64];
	size_t n, max = LINK_CHUNK_WRS + prng_below(&world.prng, ARRAY_SIZE(wrs) - LINK_CHUNK_WRS);

	poll_completions(end);
	poll_messages(side);
	repost(end);
	for (unsigned int i = 0; i < world.plan.lanes; i++)
		world_tell(side, i);
	while (!world.fault[0] && (n = link_send_next(&end->send, wrs, max))) {
		check_signals(wrs, n);
		for (size_t i = 0; i < n; i++)
			post(side, &wrs[i]);
	}
	WORLD_REQUIRE(end->send.flow.bytes_out <= end->send.flow.limits.link_bytes +
							  end->send.flow.limits.chunk_bytes / 2,
		      "%lu bytes under way", end->send.flow.bytes_out);
}

/* --- the world -------------------------------------------------------------------------------- */

static void begin(const struct world_plan *plan)
{
	memset(&world, 0, sizeof(world));
	world.plan = *plan;
	prng_init(&world.prng, plan->seed);
	for (unsigned int side = 0; side < 2; side++) {
		struct world_end *end = &world.end[side];
		struct link_limits limits = plan->limits[side];

		limits.peer_credits = plan->limits[!side].own_credits;
		link_send_init(&end->send, &limits, end->notes);
		end->lanes = (struct link_lanes){end->table, plan->lanes};
		end->posted = limits.own_credits;
		/* Numbers that wrap in the middle of it. */
		end->head = end->sent = end->delivered = end->retired =
			0u - 64u * link_slots(limits.depth);
		end->send.flow.head = end->send.flow.tail = end->send.flow.marked = end->head;
	}
	for (unsigned int i = 0; i < plan->lanes; i++)
		world_open(i, 1);
}

/* When something happens next. */
static uint64_t next_tick(void)
{
	uint64_t next = UINT64_MAX;

	for (unsigned int side = 0; side < 2; side++) {
		struct world_end *end = &world.end[side];
		next = u64_min(next, u64_min(end->next_poll, end->next_app));
		if (end->sent != end->head && end->item[place(end, end->sent)].sent)
			next = u64_min(next, end->item[place(end, end->sent)].sent);
		if (end->delivered != end->sent)
			next = u64_min(next, end->item[place(end, end->delivered)].delivered);
	}
	return u64_max(next, world.tick + 1);
}

bool world_run(const struct world_plan *plan)
{
	begin(plan);
	while (!world.fault[0]) {
		if (world.tick >= plan->cut_tick) {
			world.is_cut = true;
			world_check_cut();
			break;
		}
		for (unsigned int side = 0; side < 2 && !world.fault[0]; side++) {
			struct world_end *end = &world.end[side];

			transmit(side);
			deliver(side);
			if (world.tick >= end->next_app) {
				world_clients_act(side);
				end->next_app =
					world.tick + 1 + prng_below(&world.prng, plan->app_ticks);
			}
			if (world.tick >= end->next_poll) {
				work(side);
				end->next_poll =
					world.tick + 1 + prng_below(&world.prng, plan->poll_ticks);
			}
			transmit(side);
		}
		if (world_is_done())
			break;
		WORLD_REQUIRE(world.tick - world.moved_tick <= plan->still_ticks,
			      "nothing moves since %lu", world.moved_tick);
		/* Messages that lead to nothing are no progress. */
		WORLD_REQUIRE(world.tick - world.client_tick <= 20 * plan->still_ticks,
			      "no client moves since %lu", world.client_tick);
		world.tick = next_tick();
	}
	world_free();
	return !world.fault[0];
}

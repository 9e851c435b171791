/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "core/half.h"
#include "sim/link_world.h"

#define BIT(id) (1u << (id))

uint8_t world_byte(unsigned int side, unsigned int i, uint32_t epoch, uint64_t offset)
{
	uint64_t x = offset * 0x9e3779b97f4a7c15ull + side * 101 + i * 37 + epoch * 59;

	return (uint8_t)(x >> 29 ^ x >> 7);
}

void world_open(unsigned int i, uint32_t epoch)
{
	for (unsigned int side = 0; side < 2; side++) {
		struct world_end *end = &world.end[side];
		struct world_client *client = &end->client[i];
		struct link_lane_setup setup = {
			.own = {i, epoch * 2 + side},
			.peer = {i, epoch * 2 + !side},
			.epoch = epoch,
			.own_bytes = world.plan.lane[i].ring_bytes[side],
			.peer_bytes = world.plan.lane[i].fed_bytes[side],
			.recv_bytes = world.plan.lane[i].fed_bytes[!side],
			.source_bytes = world.plan.lane[i].ring_bytes[!side],
		};

		free(client->ring);
		free(client->fed);
		*client = (struct world_client){.is_there = true, .epoch = epoch};
		client->ring = calloc(1, setup.own_bytes);
		client->fed = calloc(1, setup.recv_bytes);
		link_lane_init(&client->lane, &setup, client);
		end->table[i] = &client->lane;
	}
}

void world_free(void)
{
	for (unsigned int side = 0; side < 2; side++) {
		struct world_end *end = &world.end[side];

		for (unsigned int i = 0; i < world.plan.lanes; i++) {
			free(end->client[i].ring);
			free(end->client[i].fed);
		}
		for (unsigned int n = 0; n < WORLD_DEPTH_MAX; n++)
			free(end->item[n].data);
	}
}

/* --- the clients ------------------------------------------------------------------------------ */

/* Bytes that the client may write now. */
static uint64_t may_write(unsigned int side, unsigned int i)
{
	const struct world_client *client = &world.end[side].client[i];
	uint64_t size = world.plan.lane[i].size, total = world.plan.lane[i].total[side];
	uint64_t space = client->lane.own_bytes - (client->prod - client->fed_cons);
	uint64_t n = u64_min(space, total - client->prod);

	switch (world.plan.lane[i].use) {
	case WORLD_BULK:
		return n;
	case WORLD_PING_PONG:
		/* The whole message at once: it is smaller than the ring. */
		if (side == 0 ? client->cons != client->prod : client->cons != client->prod + size)
			return 0;
		return n < size ? 0 : size;
	case WORLD_RANDOM:
		break;
	}
	return prng_chance(&world.prng, 50) ? 0 : prng_below(&world.prng, u64_min(n, size) + 1);
}

static void client_write(unsigned int side, unsigned int i)
{
	struct world_client *client = &world.end[side].client[i];
	uint64_t n = may_write(side, i);

	for (uint64_t at = client->prod; at < client->prod + n; at++)
		client->ring[at & (client->lane.own_bytes - 1)] =
			world_byte(side, i, client->epoch, at);
	client->prod += n;
	if (n)
		client->last_wrote_tick = world.moved_tick = world.client_tick = world.tick;
}

/* Every byte is the one that the other side wrote there. */
static void check_bytes(unsigned int side, unsigned int i, uint64_t from, uint64_t to)
{
	const struct world_client *client = &world.end[side].client[i];
	uint64_t size = client->lane.rx.ring_bytes;

	for (uint64_t at = from; at < to && !world.fault[0]; at++)
		WORLD_REQUIRE(client->fed[at & (size - 1)] ==
				      world_byte(!side, i, client->epoch, at),
			      "side %u lane %u: wrong byte at %lu", side, i, at);
}

static void client_read(unsigned int side, unsigned int i)
{
	struct world_client *client = &world.end[side].client[i];
	uint64_t n = u64_min(client->fed_prod - client->cons, world.plan.lane[i].read_most);

	if (world.plan.lane[i].use == WORLD_RANDOM)
		n = prng_below(&world.prng, n + 1);
	check_bytes(side, i, client->cons, client->cons + n);
	client->cons += n;
	if (n)
		world.moved_tick = world.client_tick = world.tick;
}

void world_clients_act(unsigned int side)
{
	for (unsigned int i = 0; i < world.plan.lanes; i++) {
		struct world_client *client = &world.end[side].client[i];

		if (!client->is_there)
			continue;
		/* An answer is written a while after what it answers was read, so that the worker
		 * sees the one without the other. */
		if (!client->is_frozen)
			client_write(side, i);
		client_read(side, i);
	}
}

/* --- the daemon's part ------------------------------------------------------------------------ */

/* What the other end did not get is still here, from where it stopped, for a replay. */
static void check_rest(unsigned int side, unsigned int i, uint64_t reached)
{
	const struct world_client *client = &world.end[side].client[i];
	uint64_t size = client->lane.own_bytes;

	WORLD_REQUIRE(reached <= client->lane.tx.prod.v, "reached what was not sent");
	WORLD_REQUIRE(client->prod - reached <= size, "the rest is gone");
	for (uint64_t at = reached; at < client->prod && !world.fault[0]; at++)
		WORLD_REQUIRE(client->ring[at & (size - 1)] ==
				      world_byte(side, i, client->epoch, at),
			      "side %u lane %u: %lu can't be replayed", side, i, at);
}

static void check_end(unsigned int side, unsigned int i)
{
	const struct world_client *client = &world.end[side].client[i];
	const struct world_client *other = &world.end[!side].client[i];

	check_bytes(side, i, client->cons, client->fed_prod);
	check_rest(!side, i, client->fed_prod);
	if (client->is_frozen || other->is_frozen)
		return;
	WORLD_REQUIRE(client->fed_prod == world.plan.lane[i].total[!side],
		      "side %u lane %u: %lu bytes came", side, i, client->fed_prod);
}

/* At this end the lane is over; when it is at both, the next epoch begins. */
static void close_lane(unsigned int side, unsigned int i)
{
	struct world_client *client = &world.end[side].client[i];

	link_send_remove(&world.end[side].send, &client->lane);
	world.end[side].table[i] = NULL;
	client->is_there = false;
	world.client_tick = world.tick;
	check_end(side, i);
	if (world.end[!side].client[i].is_there)
		return;
	if (client->epoch < world.plan.lane[i].epochs)
		world_open(i, client->epoch + 1);
}

static void tell_word(struct world_end *end, struct link_lane *lane, enum link_word id,
		      uint64_t value)
{
	WORLD_REQUIRE(link_send_word(&end->send, lane, id, value), "word %s is refused",
		      link_word_name(id));
}

void world_tell(unsigned int side, unsigned int i)
{
	struct world_end *end = &world.end[side];
	struct world_client *client = &end->client[i];
	struct link_lane *lane = &client->lane;
	bool ended = client->prod == world.plan.lane[i].total[side];

	if (!client->is_there)
		return;
	if (link_lane_is_over(lane)) {
		close_lane(side, i);
		return;
	}
	if (lane->is_stopped)
		return;
	if (world.tick >= world.plan.lane[i].freeze_tick && client->epoch == 1) {
		client->is_frozen = true;
		WORLD_REQUIRE(link_lane_freeze(lane).v == client->fed_prod, "frozen elsewhere");
		link_send_stop(&end->send, lane);
		return;
	}
	tell_word(end, lane, LINK_WORD_EPOCH, client->epoch);
	tell_word(end, lane, LINK_WORD_RX_READY, 1);
	if (client->fed_words & BIT(LINK_WORD_RX_READY))
		tell_word(end, lane, LINK_WORD_TX_START, opt_some(7));
	if (client->fed_words & BIT(LINK_WORD_TX_START))
		tell_word(end, lane, LINK_WORD_RX_SEEN, 1);
	if (ended && lane->told & BIT(LINK_WORD_TX_START))
		tell_word(end, lane, LINK_WORD_TX_END, opt_some(client->prod));
	link_send_offsets(&end->send, lane, ring_off(client->prod), ring_off(client->cons));
	if (!(client->fed_words & BIT(LINK_WORD_TX_END)))
		return;
	tell_word(end, lane, LINK_WORD_REACHED, opt_some(client->fed_end));
	if (lane->told & BIT(LINK_WORD_TX_END) && lane->told & BIT(LINK_WORD_REACHED) &&
	    lane->heard & BIT(LINK_WORD_REACHED) && lane->reached.v == client->prod)
		link_send_stop(&end->send, lane);
}

void world_hear(unsigned int side, const struct link_news *news)
{
	struct world_client *client, *other;
	unsigned int i;

	if (!news->lane)
		return;
	client = news->lane->user;
	i = (unsigned int)(client - world.end[side].client);
	other = &world.end[!side].client[i];
	client->fed_words |= news->words.set;
	if (news->payload)
		ring_copy_in(client->fed, client->lane.rx.ring_bytes, news->from, news->payload,
			     news->moved);
	WORLD_REQUIRE(news->from.v == client->fed_prod || client->is_frozen, "a gap before %lu",
		      news->from.v);
	client->fed_prod = news->prod.v;
	client->fed_cons = news->cons.v;
	if (news->words.set & BIT(LINK_WORD_TX_END)) {
		client->fed_end = opt_value(news->words.value[LINK_WORD_TX_END]);
		WORLD_REQUIRE(client->is_frozen || client->fed_end == client->fed_prod,
			      "the end came before the bytes");
	}
	if (client->fed_prod == world.plan.lane[i].total[!side] && !client->all_tick)
		client->all_tick = world.tick;
	if (news->moved && world.plan.lane[i].use == WORLD_PING_PONG) {
		client->rounds++;
		client->slowest_ticks =
			u64_max(client->slowest_ticks, world.tick - other->last_wrote_tick);
	}
}

bool world_is_done(void)
{
	for (unsigned int side = 0; side < 2; side++)
		for (unsigned int i = 0; i < world.plan.lanes; i++)
			if (world.end[side].client[i].is_there)
				return false;
	return true;
}

/* The link is gone: what came is right, and what did not is there to be sent another way. */
void world_check_cut(void)
{
	for (unsigned int side = 0; side < 2; side++) {
		for (unsigned int i = 0; i < world.plan.lanes; i++) {
			struct world_client *client = &world.end[side].client[i];

			if (!client->is_there || !world.end[!side].client[i].is_there)
				continue;
			check_bytes(side, i, client->cons, client->fed_prod);
			check_rest(!side, i, client->fed_prod);
		}
	}
}

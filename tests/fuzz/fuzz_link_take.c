/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "core/link_take.h"

#include "fuzz/fuzz.h"

/*
 * One end of a link with two lanes under way, and a peer that says anything. The input is a list of
 * messages, each behind a byte with its length; an odd first bit of that byte has the header's
 * sequence, token and offsets set to what they should be, so that the rest is reached. After each:
 * what the lane knows is possible, and what goes out is well-formed and within what was told.
 */

#define RING_BYTES 4096u
#define CREDITS 8u

static struct link_note notes[16];
static struct link_send ours;
static struct link_lane lanes[2];
static struct link_lane *table[3];

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void begin(void)
{
	static const struct link_limits limits = {
		.depth = 16,
		.inline_bytes = 100,
		.chunk_bytes = 1000,
		.lane_bytes = 2000,
		.link_bytes = 3000,
		.own_credits = CREDITS,
		.peer_credits = CREDITS,
	};

	link_send_init(&ours, &limits, notes);
	for (uint32_t i = 0; i < 2; i++) {
		struct link_lane_setup setup = {
			.own = {i, 1},
			.peer = {i, 2},
			.epoch = 1,
			.own_bytes = RING_BYTES,
			.peer_bytes = RING_BYTES,
			.recv_bytes = RING_BYTES,
			.source_bytes = RING_BYTES,
		};

		link_lane_init(&lanes[i], &setup, NULL);
		table[i] = &lanes[i];
		link_send_word(&ours, &lanes[i], LINK_WORD_RX_READY, 1);
		link_send_word(&ours, &lanes[i], LINK_WORD_TX_START, 1);
		link_send_offsets(&ours, &lanes[i], ring_off(3000), ring_off(0));
	}
}

static void drain(void)
{
	struct link_wr wrs[LINK_CHUNK_WRS];
	size_t n;

	while ((n = link_send_next(&ours, wrs, LINK_CHUNK_WRS))) {
		require(n <= LINK_CHUNK_WRS);
		for (size_t i = 0; i < n; i++) {
			require(wrs[i].bytes <= 1000);
			require(!wrs[i].is_inline || wrs[i].own_bytes + wrs[i].bytes <= 100);
		}
		require(link_send_complete(&ours, wrs[n - 1].number) == LINK_FLOW_OK);
	}
}

static void check(const struct link_lane *lane)
{
	require(lane->rx.cons.v <= lane->tx.prod.v && lane->tx.prod.v <= lane->prod.v);
	require(lane->tx.cons.v <= lane->cons.v && lane->cons.v <= lane->rx.prod.v);
	require(lane->rx.prod.v - lane->tx.cons.v <= RING_BYTES);
	require(lane->tx.prod.v - lane->rx.cons.v <= RING_BYTES);
	require(lane->reached.v <= lane->tx.prod.v);
	require(!lane->is_frozen || lane->frozen.v <= lane->rx.prod.v);
}

/* The fields that are hard to guess, as lane @i expects them. */
static void make_fit(uint8_t *bytes, const struct link_lane *lane)
{
	uint32_t moved = (uint32_t)bytes[26] << 8 | bytes[27];
	const uint32_t fields[] = {lane->rx.sequence + 1, lane->rx.token.index,
				   lane->rx.token.generation, (uint32_t)lane->rx.prod.v + moved};

	bytes[1] = lane->rx.epoch;
	for (int i = 0; i < 4; i++)
		for (int b = 0; b < 4; b++)
			bytes[4 + 4 * i + b] = (uint8_t)(fields[i] >> (24 - 8 * b));
	bytes[24] = bytes[25] = 0;
}

/* What the client does with the news. */
static void obey(const struct link_news *news)
{
	struct link_lane *lane = news->lane;

	if (!lane)
		return;
	require(news->from.v + news->moved == news->prod.v || lane->is_frozen);
	require(!news->payload || news->moved <= LINK_MSG_MAX_BYTES - CDC_BYTES);
	/* It reads all but a little, and ends when the peer has. */
	link_send_offsets(&ours, lane, lane->prod,
			  ring_off(u64_max(lane->cons.v, news->prod.v - news->prod.v % 7)));
	if (news->words.set & 1u << LINK_WORD_LEAVE)
		link_lane_freeze(lane);
	if (news->words.set & 1u << LINK_WORD_TX_END)
		link_send_stop(&ours, lane);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct link_lanes all = {table, 3};

	begin();
	while (len > 0) {
		size_t n = data[0] >> 1, i = data[0] & 1;
		uint8_t bytes[128];
		struct link_news news;
		enum link_taken taken;

		data++;
		len--;
		n = n < len ? n : len;
		memcpy(bytes, data, n);
		if (i && n >= CDC_BYTES)
			make_fit(bytes, &lanes[bytes[11] & 1]);
		data += n;
		len -= n;
		taken = link_take(&ours, &all, bytes, n, &news);
		require((taken == LINK_TAKEN) == !news.why);
		if (taken == LINK_LINK_BREACH)
			return 0;
		if (taken == LINK_TAKEN)
			obey(&news);
		link_flow_reposted(&ours.flow, 1);
		drain();
		check(&lanes[0]);
		check(&lanes[1]);
	}
	return 0;
}

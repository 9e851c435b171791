/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/util.h"
#include "core/half.h"
#include "core/link_take.h"

#include "lib/tap.h"

/* One end of a link, with what the peer says written by hand. The simulator has two. */

#define RING_BYTES 65536u
#define CREDITS 64u

static struct link_note notes[64];
static struct link_send ours;
static struct link_lane lane, other;
static struct link_lane *table[4];
static const struct link_lanes lanes = {table, 4};
static struct link_wr wrs[64];
static struct cdc_tx peer; /* what the peer has told of `lane` */

static void init(uint32_t inline_bytes)
{
	struct link_limits limits = {
		.depth = 64,
		.inline_bytes = inline_bytes,
		.chunk_bytes = LINK_CHUNK_BYTES,
		.lane_bytes = 2 * LINK_CHUNK_BYTES,
		.link_bytes = 3 * LINK_CHUNK_BYTES,
		.own_credits = CREDITS,
		.peer_credits = CREDITS,
	};
	struct link_lane_setup setup = {
		.own = {1, 10},
		.peer = {2, 20},
		.epoch = 1,
		.own_bytes = RING_BYTES,
		.peer_bytes = RING_BYTES,
		.recv_bytes = RING_BYTES,
		.source_bytes = RING_BYTES,
	};

	link_send_init(&ours, &limits, notes);
	link_lane_init(&lane, &setup, NULL);
	cdc_tx_init(&peer, setup.own, setup.epoch);
	setup.own.index = setup.peer.index = 3;
	link_lane_init(&other, &setup, NULL);
	table[1] = &lane;
	table[2] = NULL;
	table[3] = &other;
}

static size_t next(void)
{
	return link_send_next(&ours, wrs, ARRAY_SIZE(wrs));
}

/* The header of work request @i. */
static struct cdc head(size_t i)
{
	struct cdc msg = {0};
	uint8_t bytes[LINK_MSG_MAX_BYTES] = {0};

	memcpy(bytes, wrs[i].own, wrs[i].own_bytes);
	CHECK_EQ(wrs[i].op, LINK_WR_SEND);
	CHECK_EQ(cdc_decode(bytes, wrs[i].own_bytes + wrs[i].bytes, &msg), CDC_OK);
	return msg;
}

/* Everything so far has completed. */
static void complete(void)
{
	CHECK_EQ(link_send_complete(&ours, ours.flow.head - 1), LINK_FLOW_OK);
}

/* A message of the peer, as it may say it after what it has said. */
static enum link_taken hear(const struct cdc *msg, const void *payload, struct link_news *ret_news)
{
	uint8_t bytes[LINK_MSG_MAX_BYTES] = {0};

	cdc_encode(msg, bytes);
	if (msg->payload)
		memcpy(bytes + CDC_BYTES, payload, msg->payload);
	return link_take(&ours, &lanes, bytes, CDC_BYTES + msg->payload, ret_news);
}

static enum link_taken hear_words(struct link_words words, uint16_t flags,
				  struct link_news *ret_news)
{
	uint8_t payload[LINK_WORDS_MAX_BYTES];
	struct cdc msg;

	cdc_tx_next(&peer, LINK_MSG_STATE, 0, peer.cons, flags, &msg);
	msg.payload = (uint16_t)link_words_encode(&words, payload);
	return hear(&msg, payload, ret_news);
}

static enum link_taken hear_word(enum link_word id, uint64_t value, uint16_t flags)
{
	struct link_words words = {.set = 1u << id};
	struct link_news news;

	words.value[id] = value;
	return hear_words(words, flags, &news);
}

/* @bytes written by the peer, and told. */
static enum link_taken hear_bytes(uint32_t moved, uint64_t cons, uint16_t flags)
{
	struct link_news news;
	struct cdc msg;

	cdc_tx_next(&peer, LINK_MSG_CDC, moved, ring_off(cons), flags, &msg);
	return hear(&msg, NULL, &news);
}

/* Both directions run. */
static void start(uint32_t inline_bytes)
{
	init(inline_bytes);
	CHECK(link_send_word(&ours, &lane, LINK_WORD_RX_READY, 1));
	CHECK(link_send_word(&ours, &lane, LINK_WORD_TX_START, 1));
	CHECK_EQ(next(), 1);
	CHECK_EQ(hear_word(LINK_WORD_TX_START, 1, CDC_F_START), LINK_TAKEN);
	complete();
}

TAP_CASE(no_byte_goes_before_the_start)
{
	init(236);
	link_send_offsets(&ours, &lane, ring_off(100), ring_off(0));
	CHECK_EQ(next(), 0);
	CHECK(link_send_word(&ours, &lane, LINK_WORD_TX_START, opt_some(7)));
	CHECK_EQ(next(), 2);
	CHECK_EQ(head(0).type, LINK_MSG_STATE);
	CHECK_EQ(head(0).flags, CDC_F_START);
	CHECK_EQ(head(1).moved, 100);
}

/* The form of @n bytes with @limit inline. */
static void form_is(uint32_t limit, uint32_t n)
{
	bool eager = n + CDC_BYTES <= limit && n + CDC_BYTES <= LINK_MSG_MAX_BYTES;
	size_t count = eager ? 1 : 2;

	start(limit);
	link_send_offsets(&ours, &lane, ring_off(n), ring_off(0));
	CHECK_EQ(next(), count);
	CHECK_EQ(head(count - 1).moved, n);
	CHECK_EQ(head(count - 1).payload, eager ? n : 0);
	CHECK_EQ(wrs[count - 1].is_inline, limit >= CDC_BYTES);
	if (!eager) {
		CHECK_EQ(wrs[0].op, LINK_WR_WRITE);
		CHECK_EQ(wrs[0].is_inline, n <= limit);
		CHECK_EQ(wrs[0].bytes, n);
		CHECK_EQ(wrs[0].from.v, 0);
	}
	CHECK_EQ(ours.counts.eager, eager);
	CHECK_EQ(ours.counts.write_inline, !eager && n <= limit);
	CHECK_EQ(ours.counts.by_reference, n > limit);
	CHECK_EQ(next(), 0);
}

TAP_CASE(each_size_has_its_form)
{
	static const uint32_t limits[] = {0,   31,  32,	 33,  48,   80,	 96,
					  101, 216, 236, 512, 1024, 2048};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		for (uint32_t n = 1; n <= 2200; n += n < 1100 ? 1 : 97)
			form_is(limits[i], n);
}

TAP_CASE(a_ring_that_wraps_cuts_a_write_in_two)
{
	start(0);
	link_send_offsets(&ours, &lane, ring_off(RING_BYTES - 100), ring_off(0));
	CHECK_EQ(next(), 2);
	complete();
	CHECK_EQ(hear_bytes(0, RING_BYTES - 100, CDC_F_START), LINK_TAKEN);
	link_send_offsets(&ours, &lane, ring_off(RING_BYTES + 200), ring_off(0));
	CHECK_EQ(next(), 3);
	CHECK_EQ(wrs[0].from.v, RING_BYTES - 100);
	CHECK_EQ(wrs[0].bytes, 100);
	CHECK_EQ(wrs[1].from.v, RING_BYTES);
	CHECK_EQ(wrs[1].bytes, 200);
	CHECK_EQ(head(2).moved, 300);
	/* Without inline the header comes from the slot of its number. */
	CHECK(!wrs[2].is_inline);
}

TAP_CASE(a_small_message_passes_a_stream)
{
	struct link_wr few[LINK_CHUNK_WRS];

	start(236);
	link_send_word(&ours, &other, LINK_WORD_TX_START, 1);
	CHECK_EQ(next(), 1);
	link_send_offsets(&ours, &other, ring_off(RING_BYTES), ring_off(0));
	link_send_offsets(&ours, &lane, ring_off(64), ring_off(0));
	CHECK_EQ(link_send_next(&ours, few, ARRAY_SIZE(few)), 3);
	CHECK(few[0].lane == &lane && few[1].lane == &other);
}

TAP_CASE(small_messages_do_not_starve_a_stream)
{
	uint32_t sent = 0;

	start(236);
	link_send_word(&ours, &other, LINK_WORD_TX_START, 1);
	CHECK_EQ(next(), 1);
	complete();
	/* The queue is full but for what a stream may not have. */
	while (link_flow_may(&ours.flow, LINK_USE_BULK, 2))
		link_flow_post(&ours.flow, NULL, 0);
	link_send_offsets(&ours, &other, ring_off(10000), ring_off(0));
	for (int i = 0; i < 200; i++) {
		ours.flow.credits = CREDITS;
		link_send_offsets(&ours, &lane, ring_off(lane.prod.v + 1), ring_off(0));
		sent += (uint32_t)next();
		if (lane.tx.prod.v != lane.prod.v)
			break;
		/* One completes for each that goes: the queue stays as full as it is. */
		CHECK_EQ(link_send_complete(&ours, ours.flow.tail), LINK_FLOW_OK);
		CHECK_EQ(hear_bytes(0, lane.tx.prod.v, CDC_F_START), LINK_TAKEN);
		link_flow_reposted(&ours.flow, 1);
	}
	CHECK(sent > 4 && sent < 64);
	complete();
	ours.flow.credits = CREDITS;
	CHECK(next() >= 3);
	CHECK_EQ(other.tx.prod.v, 10000);
	CHECK_EQ(lane.tx.prod.v, lane.prod.v);
}

TAP_CASE(short_messages_by_reference_do_not_starve_a_stream)
{
	const uint32_t bytes = LINK_CHUNK_BYTES / LINK_SHORT_DIVISOR;
	uint32_t sent = 0;

	start(0);
	link_send_word(&ours, &other, LINK_WORD_TX_START, 1);
	CHECK_EQ(next(), 1);
	complete();
	/* So much is under way that a chunk has to wait, but more than a chunk may go at once. */
	link_flow_post(&ours.flow, NULL, 2 * LINK_CHUNK_BYTES + LINK_CHUNK_BYTES / 4);
	link_send_offsets(&ours, &other, ring_off(RING_BYTES), ring_off(0));
	for (; sent < 30; sent++) {
		ours.flow.credits = CREDITS;
		lane.bytes_out = 0;
		link_send_offsets(&ours, &lane, ring_off(lane.prod.v + bytes), ring_off(0));
		if (!next())
			break;
		CHECK_EQ(hear_bytes(0, lane.tx.prod.v, CDC_F_START), LINK_TAKEN);
		link_flow_reposted(&ours.flow, 1);
	}
	CHECK_EQ(sent, LINK_SHORT_DIVISOR);
	lane.bytes_out = sent * bytes;
	complete();
	ours.flow.credits = CREDITS;
	CHECK_EQ(next(), 4);
	CHECK(wrs[0].lane == &other && wrs[2].lane == &lane);
}

TAP_CASE(updates_ride_and_go_alone_only_when_they_must)
{
	start(236);
	/* Half is free: nothing goes for what was read. */
	CHECK_EQ(hear_bytes(RING_BYTES / 2, 0, CDC_F_START), LINK_TAKEN);
	link_send_offsets(&ours, &lane, ring_off(0), ring_off(RING_BYTES / 2));
	CHECK_EQ(next(), 0);
	link_send_offsets(&ours, &lane, ring_off(5), ring_off(RING_BYTES / 2));
	CHECK_EQ(next(), 1);
	CHECK_EQ(head(0).cons, RING_BYTES / 2);
	/* Less than half, and a quarter was read. */
	CHECK_EQ(hear_bytes(RING_BYTES / 2 + 1, 0, CDC_F_START), LINK_TAKEN);
	link_send_offsets(&ours, &lane, ring_off(5), ring_off(RING_BYTES / 2 + 16383));
	CHECK_EQ(next(), 0);
	link_send_offsets(&ours, &lane, ring_off(5), ring_off(RING_BYTES / 2 + 16384));
	CHECK_EQ(next(), 1);
	CHECK_EQ(head(0).moved, 0);
	CHECK_EQ(ours.counts.updates, 1);
}

TAP_CASE(a_blocked_peer_is_told_of_enough_room)
{
	start(236);
	CHECK_EQ(hear_bytes(RING_BYTES, 0, CDC_F_START | CDC_F_BLOCKED), LINK_TAKEN);
	CHECK_EQ(next(), 0);
	link_send_offsets(&ours, &lane, ring_off(0), ring_off(16383));
	CHECK_EQ(next(), 0);
	link_send_offsets(&ours, &lane, ring_off(0), ring_off(16384));
	CHECK_EQ(next(), 1);
	CHECK_EQ(head(0).cons, 16384);
	/* Once. */
	link_send_offsets(&ours, &lane, ring_off(0), ring_off(16390));
	CHECK_EQ(next(), 0);
}

TAP_CASE(a_wish_for_an_update_is_met_at_once)
{
	start(236);
	CHECK_EQ(hear_bytes(10, 0, CDC_F_START | CDC_F_WANTED), LINK_TAKEN);
	CHECK_EQ(next(), 0);
	link_send_offsets(&ours, &lane, ring_off(0), ring_off(1));
	CHECK_EQ(next(), 1);
	link_send_offsets(&ours, &lane, ring_off(0), ring_off(2));
	CHECK_EQ(next(), 0);
	link_send_tell(&ours, &lane);
	CHECK_EQ(next(), 1);
	CHECK_EQ(head(0).cons, 2);
	link_send_want(&ours, &lane);
	CHECK_EQ(next(), 1);
	CHECK(head(0).flags & CDC_F_WANTED);
	CHECK_EQ(next(), 0);
}

TAP_CASE(a_blocked_sender_says_so_once)
{
	start(236);
	lane.peer_bytes = 4096; /* a smaller ring there */
	link_send_offsets(&ours, &lane, ring_off(4096), ring_off(0));
	CHECK_EQ(next(), 2);
	CHECK(!(head(1).flags & CDC_F_BLOCKED));
	CHECK_EQ(next(), 0);
	link_send_offsets(&ours, &lane, ring_off(4097), ring_off(0));
	CHECK_EQ(next(), 1);
	CHECK(head(0).flags & CDC_F_BLOCKED);
	CHECK_EQ(head(0).moved, 0);
	CHECK_EQ(next(), 0);
	CHECK_EQ(hear_bytes(0, 4096, CDC_F_START), LINK_TAKEN);
	CHECK_EQ(next(), 1);
	CHECK_EQ(head(0).moved, 1);
}

TAP_CASE(the_end_is_behind_the_last_byte_and_lane_done_behind_all)
{
	start(236);
	link_send_offsets(&ours, &lane, ring_off(300), ring_off(0));
	CHECK(link_send_word(&ours, &lane, LINK_WORD_TX_END, opt_some(300)));
	CHECK(!link_send_word(&ours, &lane, LINK_WORD_TX_END, opt_some(301)));
	CHECK_EQ(next(), 3); /* a write, its CDC, the end */
	CHECK_EQ(head(2).type, LINK_MSG_STATE);
	CHECK_EQ(head(2).flags, CDC_F_START | CDC_F_END);
	link_send_stop(&ours, &lane);
	CHECK_EQ(next(), 1);
	CHECK_EQ(head(0).type, LINK_MSG_LANE_DONE);
	CHECK_EQ(next(), 0);
	CHECK(!link_send_word(&ours, &lane, LINK_WORD_SHUT, 1));
	CHECK(!link_lane_is_over(&lane));
	complete();
	CHECK(!link_lane_is_over(&lane));
}

TAP_CASE(words_that_can_not_be_are_refused)
{
	start(236);
	CHECK(!link_send_word(&ours, &lane, LINK_WORD_READY, 0));
	CHECK(!link_send_word(&ours, &lane, LINK_WORD_READY, 2));
	CHECK(!link_send_word(&ours, &lane, LINK_WORD_TX_START, 2)); /* it was 1 */
	CHECK(link_send_word(&ours, &lane, LINK_WORD_TX_START, 1));
	CHECK_EQ(next(), 0);
	link_send_offsets(&ours, &lane, ring_off(9), ring_off(0));
	CHECK_EQ(next(), 1);
	CHECK(!link_send_word(&ours, &lane, LINK_WORD_TX_END, opt_some(8)));
	CHECK(link_send_word(&ours, &lane, LINK_WORD_REACHED, opt_some(3)));
	CHECK(link_send_word(&ours, &lane, LINK_WORD_REACHED, opt_some(4)));
	CHECK(!link_send_word(&ours, &lane, LINK_WORD_REACHED, opt_some(3)));
}

TAP_CASE(the_link_s_own_messages_go_and_bye_is_the_last)
{
	start(236);
	link_send_ask(&ours, 5);
	link_send_answer(&ours, 6);
	CHECK_EQ(next(), 2);
	CHECK_EQ(head(0).type, LINK_MSG_TEST_ANSWER);
	CHECK_EQ(head(0).sequence, 6);
	CHECK_EQ(head(1).type, LINK_MSG_TEST_ASK);
	CHECK_EQ(head(1).sequence, 5);
	link_send_leave(&ours);
	CHECK_EQ(next(), 1);
	CHECK_EQ(head(0).type, LINK_MSG_BYE);
	link_send_ask(&ours, 7);
	CHECK_EQ(next(), 0);
}

/* --- what the peer says ----------------------------------------------------------------------- */

TAP_CASE(the_news_say_what_there_is_to_do)
{
	struct link_news news;
	struct cdc msg;

	start(236);
	cdc_tx_next(&peer, LINK_MSG_CDC, 5, ring_off(0), CDC_F_START, &msg);
	msg.payload = 5;
	CHECK_EQ(hear(&msg, "hello", &news), LINK_TAKEN);
	CHECK(news.lane == &lane);
	CHECK_EQ(news.from.v, 0);
	CHECK_EQ(news.moved, 5);
	REQUIRE(news.payload != NULL);
	CHECK(memcmp(news.payload, "hello", 5) == 0);
	CHECK_EQ(news.prod.v, 5);
	CHECK_EQ(link_lane_freeze(&lane).v, 5);
	CHECK_EQ(hear_bytes(7, 0, CDC_F_START), LINK_TAKEN);
	CHECK_EQ(link_lane_freeze(&lane).v, 5);
	CHECK_EQ(ours.counts.discarded_bytes, 7);
	cdc_tx_next(&peer, LINK_MSG_CDC, 1, ring_off(0), CDC_F_START, &msg);
	msg.payload = 1;
	CHECK_EQ(hear(&msg, "x", &news), LINK_TAKEN);
	CHECK_EQ(news.moved, 0);
	CHECK(!news.payload);
	CHECK_EQ(news.prod.v, 5);
	CHECK_EQ(hear(&(struct cdc){.type = LINK_MSG_TEST_ASK, .sequence = 8}, NULL, &news),
		 LINK_TAKEN);
	CHECK(!news.lane);
	CHECK_EQ(next(), 1);
	CHECK_EQ(head(0).sequence, 8);
}

TAP_CASE(what_is_over_is_counted_and_dropped)
{
	struct link_news news;
	struct cdc msg;

	start(236);
	cdc_tx_next(&peer, LINK_MSG_CDC, 0, ring_off(0), CDC_F_START, &msg);
	for (uint32_t index = 0; index < 6; index++) {
		msg.token.index = index == 1 ? UINT32_MAX : index;
		CHECK_EQ(hear(&msg, NULL, &news), index == 3 ? LINK_LANE_BREACH : LINK_STALE);
		CHECK(news.why != NULL);
	}
	msg.token = lane.rx.token;
	msg.epoch = 2;
	CHECK_EQ(hear(&msg, NULL, &news), LINK_STALE);
	CHECK_EQ(ours.counts.stale, 6);
	CHECK(!news.lane);
}

TAP_CASE(a_breach_of_a_lane_leaves_it_as_it_was)
{
	struct link_lane before;

	start(236);
	before = lane;
#define BREACH(expr)                                                                               \
	do {                                                                                       \
		struct cdc_tx said = peer;                                                         \
		CHECK_EQ(expr, LINK_LANE_BREACH);                                                  \
		CHECK(memcmp(&before, &lane, sizeof(lane)) == 0);                                  \
		peer = said;                                                                       \
	} while (0)
	BREACH(hear_bytes(RING_BYTES + 1, 0, CDC_F_START));
	BREACH(hear_bytes(0, 1, CDC_F_START));
	BREACH(hear_word(LINK_WORD_TX_START, 1, CDC_F_START)); /* again */
	BREACH(hear_word(LINK_WORD_READY, 1, CDC_F_START | CDC_F_END));
	BREACH(hear_word(LINK_WORD_EPOCH, 2, CDC_F_START));
	BREACH(hear_word(LINK_WORD_REACHED, opt_some(1), CDC_F_START));
	BREACH(hear_word(LINK_WORD_TX_END, opt_some(1), CDC_F_START | CDC_F_END));
	BREACH(hear_bytes(0, 0, CDC_F_START | CDC_F_END));
#undef BREACH
	CHECK_EQ(hear_word(LINK_WORD_RX_SEEN, 1, CDC_F_START), LINK_TAKEN);
	CHECK_EQ(hear_word(LINK_WORD_TX_END, opt_some(0), CDC_F_START | CDC_F_END), LINK_TAKEN);
}

TAP_CASE(nobody_starts_unallowed_or_sees_what_was_not_told)
{
	init(236);
	CHECK_EQ(hear_word(LINK_WORD_TX_START, 1, CDC_F_START), LINK_LANE_BREACH);
	init(236);
	CHECK_EQ(hear_word(LINK_WORD_RX_SEEN, 1, 0), LINK_LANE_BREACH);
	init(236);
	CHECK_EQ(hear_bytes(1, 0, CDC_F_START), LINK_LANE_BREACH);
	CHECK_EQ(lane.rx.prod.v, 0);
	init(236);
	CHECK_EQ(hear_word(LINK_WORD_TX_END, opt_some(0), CDC_F_END), LINK_TAKEN);
}

TAP_CASE(a_breach_of_the_link_is_one)
{
	uint8_t bytes[CDC_BYTES] = {LINK_MSG_TYPE_END};
	struct link_news news;

	start(236);
	CHECK_EQ(link_take(&ours, &lanes, bytes, sizeof(bytes), &news), LINK_LINK_BREACH);
	CHECK_STR(news.why, "bad_type");
	CHECK_EQ(hear(&(struct cdc){.type = LINK_MSG_CREDIT, .credits = CREDITS}, NULL, &news),
		 LINK_LINK_BREACH);
	CHECK_STR(news.why, "forged_credits");
	for (uint32_t i = ours.flow.lent; i; i--)
		CHECK_EQ(hear(&(struct cdc){.type = LINK_MSG_TEST_ANSWER}, NULL, &news),
			 LINK_TAKEN);
	CHECK_EQ(hear(&(struct cdc){.type = LINK_MSG_TEST_ANSWER}, NULL, &news), LINK_LINK_BREACH);
	CHECK_STR(news.why, "no_credit");
}

/* SPDX-License-Identifier: MIT */
#include "core/half.h"
#include "core/link_take.h"

#define BIT(id) (1u << (id))

struct ring_off link_lane_freeze(struct link_lane *lane)
{
	if (!lane->is_frozen)
		lane->frozen = lane->rx.prod;
	lane->is_frozen = true;
	return lane->frozen;
}

/*
 * Whether the words can follow what has been said both ways; @msg is taken, but for its words. The
 * reasons are those of core/peer.c: nobody starts before it was allowed, or has seen a start that
 * was not told, or ends elsewhere than where its bytes end.
 */
static const char *words_fault(const struct link_lane *lane, const struct cdc *msg,
			       const struct link_words *words)
{
	uint32_t all = lane->heard | words->set;

	if (words->set & lane->heard & ~BIT(LINK_WORD_REACHED))
		return "a word again";
	if (!(all & BIT(LINK_WORD_TX_START)) != !(msg->flags & CDC_F_START) ||
	    !(all & BIT(LINK_WORD_TX_END)) != !(msg->flags & CDC_F_END))
		return "flags without their words";
	if (words->set & BIT(LINK_WORD_EPOCH) &&
	    (uint8_t)words->value[LINK_WORD_EPOCH] != lane->rx.epoch)
		return "another epoch";
	if (words->set & BIT(LINK_WORD_TX_START) && !(lane->told & BIT(LINK_WORD_RX_READY)))
		return "a start that was not allowed";
	if (words->set & BIT(LINK_WORD_RX_SEEN) && !(lane->told & BIT(LINK_WORD_TX_START)))
		return "has seen a start that was not told";
	if (words->set & BIT(LINK_WORD_TX_END) &&
	    opt_value(words->value[LINK_WORD_TX_END]) != lane->rx.prod.v)
		return "an end where the bytes don't end";
	if (words->set & BIT(LINK_WORD_REACHED) &&
	    (opt_value(words->value[LINK_WORD_REACHED]) > lane->tx.prod.v ||
	     opt_value(words->value[LINK_WORD_REACHED]) < lane->reached.v))
		return "has reached what was not sent";
	return NULL;
}

/* What the lane remembers of a message that was taken. */
static void lane_hears(struct link_send *send, struct link_lane *lane, const struct cdc *msg,
		       const struct link_words *words)
{
	lane->heard |= words->set;
	if (words->set & BIT(LINK_WORD_REACHED))
		lane->reached = ring_off(opt_value(words->value[LINK_WORD_REACHED]));
	/* The latest message counts: blocked or no longer; a wish stays until it is met. */
	lane->peer_is_blocked = msg->flags & CDC_F_BLOCKED;
	lane->peer_wants_update |= !!(msg->flags & CDC_F_WANTED);
	count_add(&send->counts.heard_bytes, msg->moved);
	if (lane->is_frozen)
		count_add(&send->counts.discarded_bytes, msg->moved);
	link_send_touch(send, lane);
}

static enum link_taken breach(enum link_taken kind, const char *why, struct link_news *ret_news)
{
	ret_news->why = why;
	return kind;
}

/* A message of a lane; @payload is behind its header. */
static enum link_taken take_lane(struct link_send *send, const struct link_lanes *lanes,
				 const struct cdc *msg, const uint8_t *payload,
				 struct link_news *ret_news)
{
	uint32_t index = msg->token.index;
	struct link_lane *lane = index < lanes->count ? lanes->lane[index] : NULL;
	struct cdc_rx before;
	enum cdc_taken taken;
	const char *fault;

	if (!lane) {
		count_add(&send->counts.stale, 1);
		return breach(LINK_STALE, cdc_taken_name(CDC_STALE_TOKEN), ret_news);
	}
	before = lane->rx;
	taken = cdc_rx_take(&lane->rx, msg, &lane->tx);
	if (taken == CDC_STALE_TOKEN || taken == CDC_STALE_EPOCH) {
		count_add(&send->counts.stale, 1);
		return breach(LINK_STALE, cdc_taken_name(taken), ret_news);
	}
	ret_news->lane = lane;
	if (taken != CDC_TAKEN)
		return breach(LINK_LANE_BREACH, cdc_taken_name(taken), ret_news);
	if (msg->type == LINK_MSG_STATE) {
		enum link_words_verdict verdict =
			link_words_decode(payload, msg->payload, &ret_news->words);

		if (verdict != LINK_WORDS_OK) {
			lane->rx = before;
			return breach(LINK_LANE_BREACH, link_words_verdict_name(verdict), ret_news);
		}
	}
	fault = words_fault(lane, msg, &ret_news->words);
	if (fault) {
		ret_news->words = (struct link_words){0};
		lane->rx = before;
		return breach(LINK_LANE_BREACH, fault, ret_news);
	}
	lane_hears(send, lane, msg, &ret_news->words);
	ret_news->cons = lane->rx.cons;
	ret_news->prod = lane->is_frozen ? lane->frozen : lane->rx.prod;
	ret_news->from = ring_off(lane->rx.prod.v - msg->moved);
	if (lane->is_frozen)
		return LINK_TAKEN;
	ret_news->moved = msg->moved;
	ret_news->payload = msg->type == LINK_MSG_CDC && msg->payload ? payload : NULL;
	return LINK_TAKEN;
}

enum link_taken link_take(struct link_send *send, const struct link_lanes *lanes, const void *bytes,
			  size_t len, struct link_news *ret_news)
{
	enum cdc_decoded decoded;
	enum link_flow_verdict flow;
	struct cdc msg;

	*ret_news = (struct link_news){0};
	decoded = cdc_decode(bytes, len, &msg);
	if (decoded != CDC_OK)
		return breach(LINK_LINK_BREACH, cdc_decoded_name(decoded), ret_news);
	ret_news->type = msg.type;
	flow = link_flow_heard(&send->flow, msg.credits);
	if (flow != LINK_FLOW_OK)
		return breach(LINK_LINK_BREACH, link_flow_verdict_name(flow), ret_news);
	count_add(&send->counts.heard, 1);
	if (cdc_is_of_lane(msg.type))
		return take_lane(send, lanes, &msg, (const uint8_t *)bytes + CDC_BYTES, ret_news);
	ret_news->number = msg.sequence;
	if (msg.type == LINK_MSG_TEST_ASK)
		link_send_answer(send, msg.sequence);
	return LINK_TAKEN;
}

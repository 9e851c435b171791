/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "core/peer.h"
#include "fabric/worker_impl.h"
#include "os/bell.h"

/*
 * Both halves of a lane. The client's is another's memory: each word is loaded once, checked, and
 * only the copy is used; the worst that it can do with it is to lose its connection.
 */

#define BIT(id) (1u << (id))

/* Where a word of the link is in a half. */
#define WORDS(half)                                                                                \
	{                                                                                          \
		[LINK_WORD_EPOCH] = &(half)->epoch, [LINK_WORD_READY] = &(half)->ready,            \
		[LINK_WORD_RX_READY] = &(half)->rx_ready,                                          \
		[LINK_WORD_TX_START] = &(half)->tx_start, [LINK_WORD_RX_SEEN] = &(half)->rx_seen,  \
		[LINK_WORD_LEAVE] = &(half)->leave, [LINK_WORD_CLOSING] = &(half)->closing,        \
		[LINK_WORD_SHUT] = &(half)->shut, [LINK_WORD_TX_END] = &(half)->tx_end,            \
	}

/* --- the client's half ------------------------------------------------------------------------ */

/* Whether word @id may have this value now; the reasons are those of core/peer.c. @all: words that
 * are set in this half. NULL, or what is wrong. */
static const char *word_fault(const struct worker_lane *lane, enum link_word id, uint64_t value,
			      uint32_t all)
{
	if (!link_word_is_ok(id, value))
		return "a word out of its range";
	switch (id) {
	case LINK_WORD_EPOCH:
		return value == lane->setup.epoch ? NULL : "another epoch";
	case LINK_WORD_READY:
		return all & BIT(LINK_WORD_EPOCH) ? NULL : "ready without an epoch";
	case LINK_WORD_TX_START:
		return lane->core.heard & BIT(LINK_WORD_RX_READY) ? NULL
								  : "a start that was not allowed";
	case LINK_WORD_RX_SEEN:
		return lane->core.heard & BIT(LINK_WORD_TX_START)
			       ? NULL
			       : "has seen a start that nobody told";
	case LINK_WORD_TX_END:
		return all & BIT(LINK_WORD_TX_START) || opt_value(value) == 0
			       ? NULL
			       : "an end without a start";
	default:
		return NULL;
	}
}

/* Take the state words over. NULL, or what is wrong. */
static const char *words_look(struct worker_lane *lane)
{
	const _Atomic uint64_t *const at[LINK_WORD_ID_END] = WORDS(lane->setup.client);
	struct link_lane *core = &lane->core;
	uint64_t value[LINK_WORD_ID_END] = {0};
	uint32_t all = 0, known = core->told | core->due.set;
	const char *why;

	/* What was stored last is loaded first, so that nothing that came before it is missed. */
	for (uint32_t id = LINK_WORD_ID_END; id-- > 1;) {
		if (!at[id])
			continue;
		value[id] = atomic_load(at[id]);
		if (value[id])
			all |= BIT(id);
	}
	if (known & ~all & ~BIT(LINK_WORD_REACHED))
		return "a word was taken back";
	for (uint32_t id = 1; id < LINK_WORD_ID_END; id++) {
		if (!(all & BIT(id)) || (known & BIT(id) && core->due.value[id] == value[id]))
			continue;
		why = word_fault(lane, id, value[id], all);
		if (why)
			return why;
		if (!link_send_word(&lane->link->send, core, id, value[id]))
			return "a word was changed";
	}
	return NULL;
}

/* Whether the end of our client's bytes is known; *@ret_end then. */
static bool end_known(const struct link_lane *core)
{
	return (core->told | core->due.set) & BIT(LINK_WORD_TX_END);
}

/* The offsets of the client, checked. NULL, or what is wrong. */
static const char *offsets_look(struct worker_lane *lane, bool *ret_moved)
{
	struct link_lane *core = &lane->core;
	/* The end, if there is one, was loaded before. */
	uint64_t prod = atomic_load(&lane->setup.client->prod);
	uint64_t cons = atomic_load(&lane->setup.client->cons);

	if (prod < core->prod.v || prod - core->rx.cons.v > core->own_bytes)
		return "a producer offset that can't be";
	if (cons < core->cons.v || cons > core->rx.prod.v)
		return "a consumer offset that can't be";
	if (end_known(core) && prod != core->end.v)
		return "bytes behind the end";
	*ret_moved = prod != core->prod.v || cons != core->cons.v;
	if (*ret_moved)
		link_send_offsets(&lane->link->send, core, ring_off(prod), ring_off(cons));
	/* The peer's end is not over before its client knows that all was consumed. */
	if (core->heard & BIT(LINK_WORD_TX_END) && cons == core->rx.prod.v &&
	    cons != core->tx.cons.v)
		link_send_tell(&lane->link->send, core);
	return NULL;
}

int half_look(struct worker_lane *lane, const char **ret_why)
{
	/* Before the words that it tells of. */
	uint64_t seq = atomic_load(&lane->setup.client->state_seq);
	bool moved = false, changed = !lane->has_looked || seq != lane->seq;

	*ret_why = changed ? words_look(lane) : NULL;
	if (!*ret_why)
		*ret_why = offsets_look(lane, &moved);
	if (*ret_why)
		return -EBADMSG;
	lane->seq = seq;
	lane->has_looked = true;
	if (changed)
		mail_tell_lane(lane, TELL_WORDS, WORKER_ASKED, "");
	return changed || moved;
}

/* --- our half --------------------------------------------------------------------------------- */

/* Ring the client's bell if it sleeps for any of @kinds, which were stored just before. */
static void wake_client(struct worker_lane *lane, unsigned int kinds)
{
	struct wake_arms seen;

	/* Partner: wake_arm() of the client, whose arm is in its own half. */
	if (!kinds || !wake_ring_needed(lane->setup.client, kinds, &lane->rung, &seen))
		return;
	count_add(&lane->counts.rung, 1);
	bell_ring(lane->setup.client_bell);
	lane->link->worker->has_rung = true;
	wake_remember(&lane->rung, &seen);
}

void half_feed(struct worker_lane *lane, const struct link_news *news)
{
	struct half_ctl *fed = lane->setup.fed;
	_Atomic uint64_t *const at[LINK_WORD_ID_END] = WORDS(fed);
	const struct link_words *words = &news->words;
	unsigned int kinds = words->set & ~BIT(LINK_WORD_REACHED) ? WAKE_ALL : 0;

	for (uint32_t id = 1; id < LINK_WORD_TX_END; id++) {
		if (words->set & BIT(id) && at[id])
			own_announce(fed, at[id], words->value[id]);
	}
	if (news->payload)
		ring_copy_in(half_ring(fed), lane->setup.fed_bytes, news->from, news->payload,
			     news->moved);
	if (news->moved) {
		count_add(&lane->counts.bytes_received, news->moved);
		/* Behind the bytes, be they from here or from the device. Partner: the client's
		 * load of prod. */
		atomic_store(&fed->prod, news->prod.v);
		kinds |= WAKE_DATA;
	}
	if (atomic_load_explicit(&fed->cons, memory_order_relaxed) != news->cons.v) {
		atomic_store(&fed->cons, news->cons.v);
		kinds |= WAKE_SPACE;
	}
	if (words->set & BIT(LINK_WORD_TX_END)) {
		own_announce(fed, at[LINK_WORD_TX_END], words->value[LINK_WORD_TX_END]);
		link_send_word(&lane->link->send, &lane->core, LINK_WORD_REACHED,
			       opt_some(news->prod.v));
	}
	wake_client(lane, kinds);
}

/* Whether bytes that the client consumes are to be noticed at once, since an update may be due. */
static bool wants_cons(const struct link_lane *core)
{
	if (ring_off_eq(core->cons, core->rx.prod))
		return false; /* it can't consume more */
	return core->peer_is_blocked || core->peer_wants_update || core->must_tell ||
	       core->heard & BIT(LINK_WORD_TX_END) ||
	       ring_space(core->pace_bytes, core->rx.prod, core->tx.cons) < core->pace_bytes / 2;
}

void half_arm(struct worker_lane *lane)
{
	unsigned int kinds = WAKE_DATA | (wants_cons(&lane->core) ? WAKE_SPACE : 0u);

	kinds &= ~lane->armed;
	wake_arm(lane->setup.fed, kinds);
	lane->armed |= kinds;
}

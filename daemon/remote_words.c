/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "core/peer.h"
#include "remote_words.h"

static _Atomic uint64_t *state_word(struct half_ctl *half, enum remote_state state)
{
	switch (state) {
	case REMOTE_EPOCH:
		return &half->epoch;
	case REMOTE_READY:
		return &half->ready;
	case REMOTE_RX_READY:
		return &half->rx_ready;
	case REMOTE_TX_START:
		return &half->tx_start;
	case REMOTE_RX_SEEN:
		return &half->rx_seen;
	case REMOTE_LEAVE:
		return &half->leave;
	case REMOTE_CLOSING:
		return &half->closing;
	case REMOTE_SHUT:
		return &half->shut;
	default:
		return &half->tx_end;
	}
}

void remote_words_read(const struct half_ctl *half, struct remote_words *ret_words)
{
	/* Only for the address; nothing is written. */
	struct half_ctl *words = (struct half_ctl *)(uintptr_t)half;

	for (unsigned int i = REMOTE_STATES; i--;)
		ret_words->states[i] = atomic_load(state_word(words, i));
	ret_words->prod = atomic_load(&half->prod);
	ret_words->cons = atomic_load(&half->cons);
}

static bool is_flag(enum remote_state state)
{
	return state != REMOTE_EPOCH && state != REMOTE_TX_START && state != REMOTE_TX_END;
}

int remote_words_check(const struct remote_words *known, const struct remote_words *now,
		       uint64_t ring_bytes, uint64_t consumed)
{
	uint64_t end = now->states[REMOTE_TX_END];

	for (unsigned int i = 0; i < REMOTE_STATES; i++) {
		if (known->states[i] && now->states[i] != known->states[i])
			return -EBADMSG;
		if (is_flag(i) && now->states[i] > 1)
			return -EBADMSG;
	}
	if (now->prod < known->prod || now->cons < known->cons || now->prod < consumed ||
	    now->prod - consumed > ring_bytes)
		return -EBADMSG;
	return end != OPT_NONE && opt_value(end) != now->prod ? -EBADMSG : 0;
}

static void set_state(struct half_ctl *fed, enum remote_state state, uint64_t value)
{
	_Atomic uint64_t *word = state_word(fed, state);

	if (value && atomic_load_explicit(word, memory_order_relaxed) != value)
		own_announce(fed, word, value);
}

void remote_words_apply(struct half_ctl *fed, const struct remote_words *now)
{
	if (atomic_load_explicit(&fed->lost, memory_order_relaxed))
		return;
	for (unsigned int i = 0; i < REMOTE_TX_END; i++)
		set_state(fed, i, now->states[i]);
	if (atomic_load_explicit(&fed->prod, memory_order_relaxed) < now->prod)
		atomic_store(&fed->prod, now->prod);
	set_state(fed, REMOTE_TX_END, now->states[REMOTE_TX_END]);
	if (atomic_load_explicit(&fed->cons, memory_order_relaxed) < now->cons)
		atomic_store(&fed->cons, now->cons);
}

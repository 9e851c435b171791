/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "core/peer.h"

/* A small word only ever grows. */
static int small_load(const _Atomic uint64_t *word, uint8_t most, uint8_t *known)
{
	uint64_t v = atomic_load(word);

	if (v > most || v < *known)
		return -EBADMSG;
	*known = (uint8_t)v;
	return 0;
}

/* A flag goes from 0 to 1. */
static int flag_load(const _Atomic uint64_t *word, uint8_t *known)
{
	return small_load(word, 1, known);
}

/* An optional word is set once and then stays. */
static int opt_load(const _Atomic uint64_t *word, uint64_t *known)
{
	uint64_t v = atomic_load(word);

	if (*known != OPT_NONE && v != *known)
		return -EBADMSG;
	*known = v;
	return 0;
}

int peer_refresh_tx(struct lane *lane)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	const struct half_ctl *peer = lane->peer;
	uint64_t seq = atomic_load(&peer->state_seq);

	if (seq == tx->peer_seq)
		return 0;
	if (flag_load(&peer->ready, &tx->peer_ready) ||
	    flag_load(&peer->rx_ready, &tx->peer_rx_ready) ||
	    flag_load(&peer->rx_seen, &tx->peer_rx_seen) ||
	    flag_load(&peer->leave, &tx->peer_leave) ||
	    flag_load(&peer->closing, &tx->peer_closing) ||
	    flag_load(&peer->shut, &tx->peer_shut) || flag_load(&peer->lost, &tx->lost) ||
	    /* In this order: it is taken back after it was asked. */
	    small_load(&peer->rx_resume, RESUME_VOID, &tx->peer_resume) ||
	    opt_load(&peer->rx_stop, &tx->peer_rx_stop))
		return -EBADMSG;
	if (tx->peer_ready && atomic_load(&peer->epoch) != lane->st->epoch)
		return -EBADMSG;
	/* A peer cannot know of a start that we have not announced. */
	if (tx->peer_rx_seen && atomic_load(&lane->own->tx_start) == OPT_NONE)
		return -EBADMSG;
	/* Nor take back what it has not asked. */
	if (tx->peer_resume != RESUME_NONE && tx->peer_rx_stop == OPT_NONE)
		return -EBADMSG;
	/* Nor stop behind what we have produced. */
	if (tx->peer_rx_stop != OPT_NONE && opt_value(tx->peer_rx_stop) > tx->prod.v)
		return -EBADMSG;
	tx->peer_seq = seq;
	return 0;
}

int peer_refresh_rx(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;
	const struct half_ctl *peer = lane->peer;
	uint64_t seq = atomic_load(&peer->state_seq);

	if (seq == rx->peer_seq)
		return 0;
	/* What was stored last is loaded first, so that nothing that came before it is missed. */
	if (opt_load(&peer->stop_ack, &rx->peer_stop_ack) ||
	    opt_load(&peer->tx_end, &rx->peer_tx_end) || flag_load(&peer->lost, &rx->peer_lost) ||
	    opt_load(&peer->tx_start, &rx->peer_tx_start))
		return -EBADMSG;
	/* No start before this side allowed it. */
	if (rx->peer_tx_start != OPT_NONE && !rx->rx_ready)
		return -EBADMSG;
	/* An end without a start means "will not start" and leaves the ring empty. */
	if (rx->peer_tx_end != OPT_NONE && rx->peer_tx_start == OPT_NONE &&
	    opt_value(rx->peer_tx_end) != 0)
		return -EBADMSG;
	/* TCP goes on at the end, or where it was asked to; and nowhere without an end. */
	if (rx->peer_stop_ack != OPT_NONE &&
	    (rx->peer_tx_end == OPT_NONE ||
	     (rx->peer_stop_ack != rx->peer_tx_end &&
	      rx->peer_stop_ack != atomic_load(&lane->own->rx_stop))))
		return -EBADMSG;
	/* Nobody ends before what we have consumed. */
	if (rx->peer_tx_end != OPT_NONE && opt_value(rx->peer_tx_end) < rx->cons.v)
		return -EBADMSG;
	rx->peer_seq = seq;
	return 0;
}

int peer_refresh_cons(struct lane *lane)
{
	typeof(lane->st->tx) *tx = &lane->st->tx;
	uint64_t cons = atomic_load(&lane->peer->cons);

	if (cons < tx->peer_cons.v || cons > tx->prod.v || tx->prod.v - cons > lane->own_bytes)
		return -EBADMSG;
	/* A reader that asked for TCP from an offset on consumes nothing behind it, unless it was
	 * answered that TCP goes on at the end of the ring instead, or has taken that back. */
	if (tx->peer_rx_stop != OPT_NONE && cons > opt_value(tx->peer_rx_stop) &&
	    atomic_load(&lane->own->stop_ack) == tx->peer_rx_stop &&
	    atomic_load(&lane->peer->rx_resume) != RESUME_DONE)
		return -EBADMSG;
	tx->peer_cons = ring_off(cons);
	return 0;
}

int peer_refresh_prod(struct lane *lane)
{
	typeof(lane->st->rx) *rx = &lane->st->rx;
	uint64_t prod = atomic_load(&lane->peer->prod);

	if (prod < rx->peer_prod.v || prod < rx->cons.v || prod - rx->cons.v > lane->peer_bytes)
		return -EBADMSG;
	if (rx->peer_tx_end != OPT_NONE) {
		/* An end is where production stopped. A lost lane was cut before or behind it. */
		if (opt_value(rx->peer_tx_end) != prod && !rx->peer_lost)
			return -EBADMSG;
	}
	rx->peer_prod = ring_off(prod);
	return 0;
}

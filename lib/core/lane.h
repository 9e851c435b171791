/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "core/half.h"
#include "core/ring.h"
#include "core/wake.h"

/*
 * The lane switch: where the next byte of a stream goes to, and where it comes from.
 *
 * Each direction of a connection is TCP up to a count (tx_start), ring from offset 0 to an offset
 * (tx_end), and TCP again from tx_start on:
 *
 *      sender      TX_TCP ──start──> TX_RING ──end──> TX_ENDED
 *                     └────────"will not start"───────────^
 *      receiver    RX_TCP ──> RX_TAIL ──> RX_RING ──> RX_ENDED
 *                     └────────"will not start"───────────^
 *
 * The two directions switch independently, and nobody waits for anybody: a sender asks
 * lane_tx_route() before each operation, a receiver lane_rx_route(), and both do as they are told.
 * What keeps the order of bytes:
 *  - a sender starts only at a moment when it has no TCP send in flight, at the exact count;
 *  - a receiver reads TCP to exactly that count, then the ring;
 *  - a sender goes back to TCP only when the receiver has said (rx_seen) that it knows the count:
 *    from then on no read can run past it by accident;
 *  - the receiver drains the ring to the announced end, then reads TCP again.
 *
 * A hand-over is for a reader that does not know the ring: it freezes its cons and asks (rx_stop)
 * for the rest on TCP; the sender answers (stop_ack) where TCP goes on, and sends what stands in
 * its ring behind that point (the backlog) over TCP before anything newer.
 *
 * Pure: no I/O, no clock, no allocation. Transmit functions run under the side's transmit lock,
 * receive functions under its receive lock; functions that need both say so. All return 0 or a
 * route, or -EBADMSG when the peer (or the shared state) broke the protocol: the lane is dead then
 * and the connection must be reset.
 */

enum tx_phase {
	TX_TCP,
	TX_RING,
	TX_ENDED,
};

enum rx_phase {
	RX_TCP,
	RX_TAIL,
	RX_RING,
	RX_ENDED,
};

/* What a sender is to do next. */
enum tx_route {
	TX_VIA_TCP,	/* send on TCP */
	TX_VIA_START,	/* a start is possible: gather the facts, call lane_tx_start(), ask again */
	TX_VIA_RING,	/* copy into the spans, then lane_tx_commit() */
	TX_VIA_BACKLOG, /* send the spans of the own ring on TCP, then lane_tx_backlog_sent() */
	TX_VIA_WAIT,	/* no room, or a replay is under way: wait for WAKE_SPACE */
};

/* What a receiver is to do next. */
enum rx_route {
	RX_VIA_TCP,   /* receive from TCP, without blocking, at most `limit` bytes */
	RX_VIA_COUNT, /* read the consumed TCP count, call lane_rx_tail(), ask again */
	RX_VIA_RING,  /* copy out of the spans, then lane_rx_consume() */
	RX_VIA_WAIT,  /* nothing there: wait for WAKE_DATA */
};

#define RX_NO_LIMIT UINT64_MAX

/* What one direction still has to wake, and for which arms it woke last. */
struct lane_wake {
	uint32_t due_peer; /* wake_kinds that changed for the peer and were not rung yet */
	uint32_t due_self; /* … for the other sleepers of this side */
	struct wake_arms rung_peer, rung_self;
};

/* The bells to ring now. */
struct lane_bells {
	bool peer, self;
	struct wake_arms peer_seen, self_seen;
};

struct lane_plan {
	struct ring_spans spans; /* for TX_VIA_RING, TX_VIA_BACKLOG, RX_VIA_RING */
	uint64_t limit;		 /* bytes: sum of the spans, or the limit of a TCP read */
};

/*
 * One side's own view of an epoch. It lies in memory that all processes of the side share, so it
 * holds no pointer, and its numbers are checked like the peer's before memory is touched by them.
 */
struct lane_state {
	struct {
		uint32_t phase;
		uint8_t leaving;   /* end as soon as it is allowed */
		uint8_t closed;	   /* no byte follows: shutdown or close */
		uint8_t no_start;  /* a FIN or a pin forbids a start */
		uint8_t tcp_after; /* a byte may have gone to TCP behind the ring */
		uint8_t lost;
		/* The peer's words as last validated. */
		uint8_t peer_ready, peer_rx_ready, peer_rx_seen, peer_leave, peer_closing;
		uint64_t peer_seq;
		uint64_t peer_rx_stop;
		struct ring_off peer_cons;
		/* Own words. */
		struct ring_off prod;
		struct ring_off end;
		struct ring_off backlog; /* next byte of the own ring to send on TCP… */
		struct ring_off backlog_end;
		struct tcp_count start;
		struct lane_wake wake;
	} tx;
	struct {
		uint32_t phase;
		uint8_t frozen; /* a hand-over is asked for and not answered */
		uint8_t rx_ready;
		uint8_t peer_lost;
		uint64_t peer_seq;
		uint64_t peer_tx_start, peer_tx_end, peer_stop_ack;
		struct ring_off peer_prod;
		struct ring_off cons;
		struct tcp_count start;
		struct lane_wake wake;
	} rx;
	uint32_t epoch;
};

/* A lane as one process sees it: where the halves are mapped here. Ring sizes come from the daemon
 * and were checked with ring_size_ok(). */
struct lane {
	struct lane_state *st;
	struct half_ctl *own;
	const struct half_ctl *peer;
	uint64_t own_bytes;
	uint64_t peer_bytes;
};

/* --- both locks ------------------------------------------------------------------------------ */

/* Begin @epoch: reset the state and announce that both halves are mapped here. */
void lane_begin(struct lane *lane, uint32_t epoch);

/* Ask both directions to end. Own bytes keep going to the ring until the peer allows the end. */
void lane_leave(struct lane *lane);

/*
 * The last holder closes: announce it and end the own direction at once.
 * Returns 1 if bytes of the peer stay unread (TCP would send RST), 0 if not, or -EBADMSG.
 */
int lane_close(struct lane *lane);

/* Whether both directions have ended and are drained, so that the epoch is over. Also 0 while the
 * peer has not consumed to our end. 1, 0 or -EBADMSG. */
int lane_is_done(struct lane *lane);

/*
 * Whether bells have to be rung for what was done to @wake's direction (&st->tx.wake or
 * &st->rx.wake, under its lock). On true ring them, then call lane_rung(). On false nothing is due.
 */
bool lane_bells_due(const struct lane *lane, struct lane_wake *wake, struct lane_bells *ret_bells);
void lane_rung(struct lane_wake *wake, const struct lane_bells *bells);

/* --- transmit lock --------------------------------------------------------------------------- */

/* Where the next @want bytes go (0: only what state demands). A route, or -EBADMSG. */
int lane_tx_route(struct lane *lane, uint64_t want, struct lane_plan *ret_plan);

/*
 * Start the ring segment behind @written TCP bytes. @sends_in_flight is the number of kernel sends
 * of this side under way: any but 0 puts the start off. Returns 1 if started, 0 if put off.
 */
int lane_tx_start(struct lane *lane, struct tcp_count written, unsigned int sends_in_flight);

/* Publish @len bytes that were copied into the spans of the last TX_VIA_RING plan. */
void lane_tx_commit(struct lane *lane, uint64_t len);

/* @len bytes of the last TX_VIA_BACKLOG plan are in the kernel's send queue. */
void lane_tx_backlog_sent(struct lane *lane, uint64_t len);

/* No byte follows in this direction (shutdown, close): end at once, or never start. */
void lane_tx_close(struct lane *lane);

/* End as soon as the peer allows; 1 if TCP is next, 0 if not yet, or -EBADMSG. */
int lane_tx_leave(struct lane *lane);

/* Never start in this epoch: a FIN was seen, or the connection was pinned. */
void lane_tx_forbid_start(struct lane *lane);

/* --- receive lock ---------------------------------------------------------------------------- */

/* Publish rx_ready once @uncovered, the number of readers in waits that cannot see the bell, is 0.
 */
void lane_rx_ready(struct lane *lane, unsigned int uncovered);

/* Where the next bytes (at most @want) come from. A route, or -EBADMSG. */
int lane_rx_route(struct lane *lane, uint64_t want, struct lane_plan *ret_plan);

/* After RX_VIA_COUNT: @consumed TCP bytes were read so far. The route as lane_rx_route(). */
int lane_rx_tail(struct lane *lane, struct tcp_count consumed, uint64_t want,
		 struct lane_plan *ret_plan);

/* @len bytes of the last RX_VIA_RING plan were copied out. */
void lane_rx_consume(struct lane *lane, uint64_t len);

/*
 * TCP showed a FIN or an error: is it the end of the stream? Returns LANE_EOF_TCP (it is the
 * kernel's to report), LANE_EOF_NOT_YET (ring bytes or TCP bytes come first: ask the route again),
 * LANE_EOF_KILLED (the peer died inside its segment and the ring is drained: report EOF) or
 * LANE_EOF_RESET (the same, with bytes of ours unread: report ECONNRESET), or -EBADMSG.
 */
enum lane_eof {
	LANE_EOF_TCP,
	LANE_EOF_NOT_YET,
	LANE_EOF_KILLED,
	LANE_EOF_RESET,
};
int lane_rx_eof(struct lane *lane);

/* Ask the peer for the rest on TCP: freeze cons and announce it. 1 if that holds already, 0 if an
 * answer has to be waited for. */
int lane_rx_stop(struct lane *lane);

/* The state of a stop: 1 TCP is next, 0 no answer yet, -EAGAIN the peer cannot (the ring goes on
 * here), -EBADMSG. */
int lane_rx_stop_poll(struct lane *lane);

/* The peer is gone and can answer no more: let the ring be read to its end. */
void lane_rx_unfreeze(struct lane *lane);

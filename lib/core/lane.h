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
 *  - a receiver reads TCP to exactly that count, then the ring (a segment that ended empty has no
 *    place in the order and is skipped);
 *  - a sender goes back to TCP only when the receiver has said (rx_seen) that it knows the count:
 *    from then on no read can run past it by accident;
 *  - the receiver drains the ring to the announced end, then reads TCP again.
 *
 * After a FIN of the peer a sender never waits for rx_seen: a side that shuts its direction first
 * says so (shut), then looks for a start of the peer and acknowledges it, and only then sends the
 * FIN; and a sender that starts looks for shut afterwards. So a start is either seen by a side that
 * shuts, or ends empty.
 *
 * A hand-over is for a reader that does not know the ring: it freezes its cons and asks (rx_stop)
 * for the rest on TCP; the sender answers (stop_ack) where TCP goes on, and sends what stands in
 * its ring behind that point (the backlog) over TCP before anything newer. A sender that goes on
 * in TCP without having been asked answers in advance, with its end: what stands in the ring then
 * can only be read there, and a reader that asks later need not wait for a peer that may be gone.
 *
 * A process may die between any two of these stores while others of its side live on. The words of
 * the own half are what counts; whoever takes a lock from a dead holder calls lane_tx_recover() or
 * lane_rx_recover(), which put the shared state back in line with them. For the same reason the
 * progress on TCP of backlog bytes is never stored but read off the kernel's counter.
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
	TX_VIA_TCP,   /* send on TCP */
	TX_VIA_START, /* a start is possible: gather the facts, call lane_tx_start(), ask again */
	TX_VIA_RING,  /* copy into the spans, then lane_tx_commit() */
	TX_VIA_STOP,  /* the peer wants TCP: set SO_LINGER {1,0}, call lane_tx_stop(), ask again */
	TX_VIA_BACKLOG, /* read the written TCP count, call lane_tx_backlog() */
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
		uint8_t no_start; /* a pin forbids a start */
		/* The peer's words as last validated. */
		uint8_t peer_ready, peer_rx_ready, peer_rx_seen, peer_resume;
		/* Whatever may end the segment, so that one look finds that nothing does. */
		union {
			struct {
				uint8_t leaving; /* end as soon as it is allowed */
				uint8_t closed;	 /* no byte follows: shutdown or close */
				uint8_t fin;	 /* TCP has shown the peer's FIN, or an error */
				uint8_t lost;
				uint8_t peer_leave, peer_closing, peer_shut;
			};
			uint64_t ending;
		};
		uint64_t peer_seq;
		uint64_t peer_rx_stop;
		struct ring_off peer_cons;
		/* Own words. */
		struct ring_off prod;
		struct ring_off end;
		struct ring_off backlog; /* from here to the end the own ring goes over TCP */
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
	/* The ring reaches the peer through daemons: bytes may be on their way when it has ended,
	 * so that TCP is used again only when the daemon has vouched (replayed) for all of them. */
	bool remote;
};

/* --- both locks ------------------------------------------------------------------------------ */

/* Begin @epoch: reset the state and announce that both halves are mapped here. May be repeated if
 * its caller died in the middle. The bells it makes due include the own one in any case, since
 * sleepers of this side may still be armed in the halves of the epoch before. */
void lane_begin(struct lane *lane, uint32_t epoch);

/* Ask both directions to end. Own bytes keep going to the ring until the peer allows the end. */
void lane_leave(struct lane *lane);

/*
 * The last holder closes: announce it and end the own direction at once.
 * Returns 1 if bytes of the peer stay unread (TCP would send RST), 0 if not, or -EBADMSG. Then
 * follow lane_tx_route() until it says TX_VIA_TCP, and close.
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

/* After TX_VIA_STOP, when the death of this side can only be a reset: answer the peer. 0, -EBADMSG.
 */
int lane_tx_stop(struct lane *lane);

/*
 * After TX_VIA_BACKLOG, @written TCP bytes being written so far: TX_VIA_BACKLOG with the spans of
 * the own ring that go over TCP next, to be sent without blocking under the lock, or TX_VIA_TCP if
 * all are through (SO_LINGER is the program's again), or -EBADMSG.
 */
int lane_tx_backlog(struct lane *lane, struct tcp_count written, struct lane_plan *ret_plan);

/*
 * No byte follows in this direction (shutdown, close): end at once, or never start. Then follow
 * lane_tx_route() until it says TX_VIA_TCP, and shut. Before a FIN that the reader of this side
 * outlives, a receive route must be asked for and followed, so that a start that the peer made
 * before it could see this is acknowledged.
 */
void lane_tx_close(struct lane *lane);

/* End as soon as the peer allows; 1 if TCP is next, and may be used without asking for a route any
 * more; 0 if not yet, or -EBADMSG. */
int lane_tx_leave(struct lane *lane);

/* Never start in this epoch: the connection was pinned. */
void lane_tx_forbid_start(struct lane *lane);

/* TCP showed the peer's FIN, or an error: do not start, and end at the next route, so that writes
 * to a reader that is gone meet the kernel's own answer. */
void lane_tx_fin(struct lane *lane);

/* The lock was taken from a holder that died: bring the state in line with the own half. Bells are
 * due afterwards. */
void lane_tx_recover(struct lane *lane);

/* --- receive lock ---------------------------------------------------------------------------- */

/* Publish rx_ready once @uncovered, the number of readers in waits that cannot see the bell, is 0.
 */
void lane_rx_ready(struct lane *lane, unsigned int uncovered);

/* Where the next bytes (at most @want) come from. A route, or -EBADMSG. */
int lane_rx_route(struct lane *lane, uint64_t want, struct lane_plan *ret_plan);

/*
 * After RX_VIA_COUNT: @consumed TCP bytes were read so far. The route as lane_rx_route(). Until
 * rx_seen, which this publishes, only bytes before the ring can be on TCP: that helps who can't ask
 * the kernel any more. (After a reset some of them may be missing.) A reader
 * that has read up to the limit of such a plan calls this again before it unlocks: a sibling may
 * sleep on TCP for bytes that are on the ring.
 */
int lane_rx_tail(struct lane *lane, struct tcp_count consumed, uint64_t want,
		 struct lane_plan *ret_plan);

/* @len bytes of the last RX_VIA_RING plan were copied out. */
void lane_rx_consume(struct lane *lane, uint64_t len);

/*
 * TCP showed a FIN or an error: is it the end of the stream? Returns LANE_EOF_TCP (it is the
 * kernel's to report), LANE_EOF_NOT_YET (ring bytes or TCP bytes come first: ask the route again),
 * LANE_EOF_KILLED (the peer died inside its segment and the ring is drained: report EOF, or the
 * error), LANE_EOF_RESET (it died with bytes of ours unread: report ECONNRESET), LANE_EOF_WAIT
 * (between hosts: the daemon has yet to say where the ring ends; wait for WAKE_DATA, and not for
 * TCP but for an error, which ends it), or -EBADMSG.
 */
enum lane_eof {
	LANE_EOF_TCP,
	LANE_EOF_NOT_YET,
	LANE_EOF_KILLED,
	LANE_EOF_RESET,
	LANE_EOF_WAIT,
};
int lane_rx_eof(struct lane *lane);

/* Ask the peer for the rest on TCP: freeze cons and announce it. 1 if that holds already, 0 if an
 * answer has to be waited for. */
int lane_rx_stop(struct lane *lane);

/* The state of a stop: 1 TCP is next, 0 no answer yet, -EAGAIN the peer cannot (the ring goes on
 * here), -EBADMSG. */
int lane_rx_stop_poll(struct lane *lane);

/* Wait no longer for an answer: 1 if it has just come and TCP is next, 0 if the ring goes on here
 * (for the rest of the epoch), -EBADMSG. */
int lane_rx_resume(struct lane *lane);

/* The lock was taken from a holder that died: bring the state in line with the own half. Bells are
 * due afterwards. */
void lane_rx_recover(struct lane *lane);

/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "core/peer.h"
#include "core/replay.h"
#include "sim/oracle.h"
#include "sim/remote.h"
#include "sim/side.h"

/*
 * What a daemon does for one end of a lane between hosts. Nothing is kept but in the halves and in
 * the kernel, so that a successor sees the same as the one that died: host_next() looks, host_do()
 * acts, and a death may come at any step.
 *
 * In the names below @side is the end that the daemon serves, its client's bytes are half[side],
 * and what it feeds its client with is copy[!side].
 */

static uint64_t word(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

static struct half_ctl *client_half(unsigned int side)
{
	return remote_epoch()->half[side];
}

static struct half_ctl *fed_half(unsigned int side)
{
	return remote_epoch()->copy[!side];
}

/*
 * How far the daemon of the other end came with the bytes of @side, once that is certain: false
 * before. It was frozen; and its client takes nothing from the ring, or reads TCP no further than
 * to the start, or can't read any more.
 */
static bool reached(unsigned int side, uint64_t *ret_offset)
{
	struct half_ctl *reader = client_half(!side), *fed = fed_half(!side);
	bool alive = side_is_alive(&sides[!side]);
	uint64_t resume = word(&reader->rx_resume), at;

	if (!remote.host[!side].knows || !word(&fed->lost) || !word(&fed->stop_ack))
		return false;
	if (resume == RESUME_ASKED && alive)
		return false;
	at = resume == RESUME_DONE ? word(&fed->prod) : opt_value(word(&fed->stop_ack));
	if (at && !word(&reader->rx_seen) && alive)
		return false;
	*ret_offset = at;
	return true;
}

/* Where the bytes of @side end: where it said, or where it stood when it died. */
static uint64_t end_of(unsigned int side)
{
	uint64_t end = word(&client_half(side)->tx_end);

	return end ? opt_value(end) : word(&client_half(side)->prod);
}

/* Bytes of @side from here on are still to be replayed, if @ret_next is below its end. */
static bool replay_state(unsigned int side, uint64_t *ret_next)
{
	struct half_ctl *fed = fed_half(side);
	struct ring_off next;

	if (!word(&fed->lost) || !word(&client_half(side)->tx_start))
		return false;
	if (word(&fed->replay_from)) {
		if (replay_next(fed, kernel_written(side), ring_off(end_of(side)), &next))
			return false; /* it was through, and others have sent since */
		*ret_next = next.v;
		return true;
	}
	*ret_next = opt_value(word(&fed->wanted));
	return word(&fed->wanted) != OPT_NONE;
}

/* Whether all that @side has said or will ever say has come to the other daemon. */
static bool delivered(unsigned int side)
{
	struct half_ctl *half = client_half(side), *fed = fed_half(!side);

	return !remote.lost && remote.host[!side].alive && word(&fed->prod) == word(&half->prod) &&
	       word(&fed->tx_end) == word(&half->tx_end) && word(&fed->cons) == word(&half->cons) &&
	       word(&fed->shut) == word(&half->shut);
}

/* Whether nothing of @side is on its way any more, but over TCP. */
static bool through(unsigned int side)
{
	uint64_t next;

	if (!word(&client_half(side)->tx_start) || !end_of(side) || delivered(side))
		return true;
	return replay_state(side, &next) && next == end_of(side);
}

static bool vouched(unsigned int side)
{
	uint64_t end = word(&client_half(side)->tx_end);

	return end && word(&fed_half(side)->replayed) == end;
}

/* The client has ended its direction: can the daemon vouch for the bytes? */
static bool may_vouch(unsigned int side)
{
	if (!word(&client_half(side)->tx_end) || vouched(side))
		return false;
	if (word(&fed_half(side)->lost))
		return through(side);
	return delivered(side);
}

/* The client of @side is on TCP, and its daemon knows no more of the lane than that. */
static bool is_through(unsigned int side)
{
	return !remote.host[side].knows && side_is_alive(&sides[side]) &&
	       sides[side].drained == daemons.epochs;
}

/* What the daemon of the other end has yet to hear from that of @side, if it has the lane. */
static bool is_owed(unsigned int side)
{
	const struct host *other = &remote.host[!side];
	uint64_t at;

	if (!other->alive || !other->knows || !remote.lost || other->wanted != OPT_NONE)
		return false;
	return is_through(side) || reached(!side, &at);
}

/* Whether it has yet to hear that what it wants is recorded, or that nothing has to be. */
static bool is_owed_answer(unsigned int side)
{
	const struct host *other = &remote.host[!side];

	if (!other->alive || !other->knows || !remote.lost || other->settled)
		return false;
	if (remote.host[side].knows)
		return word(&fed_half(side)->wanted) != OPT_NONE || !remote.host[side].holds;
	return is_through(side);
}

/* Who has drained it has all bytes: to their end, or from an offset that was recorded before. */
static void tell(unsigned int side)
{
	uint64_t at = word(&fed_half(!side)->wanted);

	if (!is_through(side)) {
		if (!reached(!side, &at))
			return;
		at = opt_some(at);
	} else if (at == OPT_NONE) {
		at = opt_some(end_of(!side));
	}
	remote.host[!side].wanted = at;
}

/* What a daemon tells or notes of a lost lane; HOST_NOTHING: nothing. */
static enum host_task next_word(unsigned int side)
{
	const struct host *host = &remote.host[side];
	struct half_ctl *fed = fed_half(side);

	if (is_owed(side))
		return HOST_TELL;
	if (is_owed_answer(side))
		return HOST_TELL_NOTED;
	if (!host->knows || !remote.lost)
		return HOST_NOTHING;
	if (host->wanted != OPT_NONE && !word(&fed->wanted))
		return HOST_RECORD;
	return host->settled && !word(&fed->settled) ? HOST_SETTLE : HOST_NOTHING;
}

enum host_task host_next(unsigned int side)
{
	const struct host *host = &remote.host[side];
	struct half_ctl *half, *fed;
	enum host_task task;
	uint64_t next;
	bool gone;

	if (!remote_epoch() || !host->alive)
		return HOST_NOTHING;
	half = client_half(side);
	fed = fed_half(side);
	gone = !side_is_alive(&sides[side]);
	if (host->knows && remote.lost && (!word(&fed->lost) || !word(&fed->stop_ack)))
		return HOST_FREEZE;
	task = next_word(side);
	if (task != HOST_NOTHING)
		return task;
	if (!host->holds)
		return HOST_NOTHING;
	if (!remote.lost && word(&half->rx_stop) && !word(&half->rx_resume))
		return HOST_HAND_OVER;
	if (!vouched(side) && replay_state(side, &next) && next < end_of(side) &&
	    (kernel_events(side) & (KERNEL_OUT | KERNEL_ERR)) == KERNEL_OUT)
		return HOST_REPLAY;
	if (may_vouch(side))
		return HOST_VOUCH;
	if (word(&half->shut) && vouched(side) && !kernel.sock[side].shut)
		return HOST_SHUT;
	if (gone &&
	    (kernel.sock[side].err || vouched(side) || (!word(&half->tx_end) && through(side))))
		return HOST_CLOSE;
	return sides[side].drained == daemons.epochs && !gone ? HOST_RELEASE : HOST_NOTHING;
}

/* No byte is added any more. The end and where TCP goes on are final with it. */
static void freeze(unsigned int side)
{
	struct half_ctl *half = client_half(side), *fed = fed_half(side);
	uint64_t stop = word(&half->rx_stop);
	/* As long as the sender's end is not here, its daemon has not vouched for its bytes. */
	bool can_replay = !word(&fed->tx_end);

	own_announce(fed, &fed->lost, 1);
	sim_step();
	if (!word(&fed->tx_end))
		own_announce(fed, &fed->tx_end, opt_some(word(&fed->prod)));
	sim_step();
	if (!stop || word(&half->rx_resume) || !can_replay)
		stop = word(&fed->tx_end);
	own_announce(fed, &fed->stop_ack, stop);
	side_ring(&sides[side]);
}

static void replay(unsigned int side)
{
	struct half_ctl *half = client_half(side), *fed = fed_half(side);
	uint64_t from = word(&fed->wanted), size = remote_epoch()->ring_bytes[side];
	struct ring_off next;
	struct ring_spans spans;

	if (!word(&fed->replay_from)) {
		replay_begin(fed, ring_off(opt_value(from)), kernel_written(side));
		sim_trace("the daemon of side %u replays from %lu", side, opt_value(from));
		cover(COVER_REPLAY);
		return;
	}
	if (replay_next(fed, kernel_written(side), ring_off(end_of(side)), &next))
		return;
	spans = ring_range(size, next, end_of(side) - next.v);
	kernel_send(side, half_ring_const(half) + spans.pos[0], spans.len[0]);
	/* How far it came; the end is for HOST_VOUCH to tell. */
	if (next.v)
		replay_publish(fed, next);
}

/* The last holder of a socket whose program is gone. */
static void close_for(unsigned int side)
{
	struct half_ctl *half = client_half(side), *fed = fed_half(side);
	uint64_t owed = word(&fed->prod);

	if (word(&fed->stop_ack) && word(&half->rx_resume) != RESUME_DONE)
		owed = opt_value(word(&fed->stop_ack));
	kernel.sock[side].linger0 = word(&half->cons) != owed;
	remote.host[side].holds = false;
	kernel_close(side);
	remote_lose();
}

void host_do(unsigned int side, enum host_task what)
{
	struct half_ctl *fed = fed_half(side);

	switch (what) {
	case HOST_FREEZE:
		freeze(side);
		break;
	case HOST_TELL:
		tell(side);
		break;
	case HOST_TELL_NOTED:
		remote.host[!side].settled = true;
		break;
	case HOST_RECORD:
		atomic_store(&fed->wanted, remote.host[side].wanted);
		break;
	case HOST_SETTLE:
		sched.whole = true;
		own_announce(fed, &fed->settled, 1);
		sched.whole = false;
		side_ring(&sides[side]);
		break;
	case HOST_HAND_OVER:
		remote_lose();
		break;
	case HOST_REPLAY:
		replay(side);
		break;
	case HOST_VOUCH:
		sched.whole = true;
		replay_publish(fed, ring_off(end_of(side)));
		sched.whole = false;
		side_ring(&sides[side]);
		break;
	case HOST_SHUT:
		kernel.sock[side].linger0 = false;
		kernel_shutdown(side);
		break;
	case HOST_CLOSE:
		close_for(side);
		break;
	case HOST_RELEASE:
		remote.host[side].holds = false;
		kernel_close(side);
		break;
	case HOST_NOTHING:
		break;
	}
}

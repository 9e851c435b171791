/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/util.h"
#include "sim/daemon.h"
#include "sim/oracle.h"
#include "sim/oracle_words.h"

/* The words of a half as plain numbers. */
struct words {
	uint64_t prod, cons, ready, rx_ready, tx_start, rx_seen, tx_end, leave, rx_stop, stop_ack;
	uint64_t closing, shut, lost, resume, seq;
	/* The end and the answer as the other side reads them: a daemon may have spoken. */
	uint64_t told_end, told_ack;
};

static bool touched;
static unsigned int known_epochs;
static struct words known[2]; /* of the newest epoch */
static bool untold[2];	      /* a word of the sender has changed and the count has not */

void words_init(void)
{
	touched = false;
	known_epochs = 0;
	untold[0] = untold[1] = false;
}

void oracle_touched(void)
{
	touched = true;
}

static uint64_t word(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

static struct words words_read(const struct half_ctl *half)
{
	return (struct words){
		.prod = word(&half->prod),
		.cons = word(&half->cons),
		.ready = word(&half->ready),
		.rx_ready = word(&half->rx_ready),
		.tx_start = word(&half->tx_start),
		.rx_seen = word(&half->rx_seen),
		.tx_end = word(&half->tx_end),
		.leave = word(&half->leave),
		.rx_stop = word(&half->rx_stop),
		.stop_ack = word(&half->stop_ack),
		.closing = word(&half->closing),
		.shut = word(&half->shut),
		.lost = word(&half->lost),
		.resume = word(&half->rx_resume),
		.seq = word(&half->state_seq),
		.told_end = word(&half->tx_end),
		.told_ack = word(&half->stop_ack),
	};
}

/* What @side has said, whether or not it has arrived yet. */
static struct words words_of(const struct epoch *epoch, unsigned int side)
{
	struct words words = words_read(epoch->half[side]);

	if (plan.remote) {
		words.lost = word(&epoch->copy[side]->lost);
		words.told_end = word(&epoch->copy[side]->tx_end);
		words.told_ack = word(&epoch->copy[side]->stop_ack);
	}
	return words;
}

static bool gone(unsigned int side)
{
	return kernel_events(side) & KERNEL_GONE;
}

static bool any_sending(const struct side *side)
{
	unsigned int i;

	for (i = 0; i < SIDE_THREADS_MAX; i++)
		if (side->thread[i].alive && side->thread[i].sending)
			return true;
	return false;
}

static bool any_deaf(const struct side *side)
{
	unsigned int i;

	for (i = 0; i < SIDE_THREADS_MAX; i++)
		if (side->thread[i].alive && side->thread[i].deaf)
			return true;
	return false;
}

/* --- changes ---------------------------------------------------------------------------------- */

/* Whether bytes of @side may go to TCP behind its ring segment. */
static bool may_follow(unsigned int side, const struct words *own, const struct words *peer)
{
	/* A hand-over that stands: the reader reads TCP from there on in any case. */
	if (own->stop_ack && own->stop_ack == peer->rx_stop && peer->resume != RESUME_DONE)
		return true;
	/* Behind the FIN of a peer that lives rx_seen is there. */
	if (gone(side) && !plan.remote && !side_is_alive(&sides[!side]))
		return true;
	return peer->rx_seen || peer->closing || peer->lost || !own->prod;
}

static void check_start(unsigned int side, const struct words *own, const struct words *peer)
{
	uint64_t written = kernel_written(side).v;

	SIM_REQUIRE(opt_value(own->tx_start) == written, "side %u starts at %lu, but TCP is at %lu",
		    side, opt_value(own->tx_start), written);
	SIM_REQUIRE(!any_sending(&sides[side]), "side %u starts with a send in flight", side);
	SIM_REQUIRE(peer->rx_ready, "side %u starts before its peer can", side);
	SIM_REQUIRE(!kernel.pipe[side].fin_queued, "side %u starts behind a FIN", side);
}

static void check_end(unsigned int side, const struct words *own, const struct words *peer)
{
	SIM_REQUIRE(opt_value(own->tx_end) == own->prod, "side %u ends at %lu, but produced %lu",
		    side, opt_value(own->tx_end), own->prod);
	SIM_REQUIRE(own->shut || peer->rx_stop || may_follow(side, own, peer),
		    "side %u ends before rx_seen", side);
}

static void check_stop_ack(unsigned int side, const struct words *own, const struct words *peer)
{
	bool at_stop = own->stop_ack == peer->rx_stop;

	SIM_REQUIRE(own->tx_end, "side %u answers before its end", side);
	SIM_REQUIRE(at_stop || own->stop_ack == own->tx_end, "side %u answers neither way", side);
	if (!at_stop || own->stop_ack == own->tx_end)
		return;
	SIM_REQUIRE(opt_some(kernel_written(side).v) == own->tx_start,
		    "side %u promises a backlog behind other bytes on TCP", side);
	SIM_REQUIRE(!kernel.pipe[side].fin_queued, "side %u promises a backlog behind its FIN",
		    side);
	SIM_REQUIRE(kernel.sock[side].linger0, "side %u promises a backlog and may die quietly",
		    side);
}

static void check_cons(unsigned int side, const struct words *own, const struct words *peer)
{
	SIM_REQUIRE(own->cons <= peer->prod, "side %u consumes what was not produced", side);
	SIM_REQUIRE(own->rx_seen, "side %u consumes before it has seen the start", side);
	if (!own->rx_stop || own->cons <= opt_value(own->rx_stop) || own->resume == RESUME_DONE)
		return;
	SIM_REQUIRE(peer->told_ack != own->rx_stop || peer->told_ack == peer->told_end,
		    "side %u consumes past an answered hand-over", side);
	SIM_REQUIRE(peer->told_ack || gone(side), "side %u consumes past an open hand-over", side);
}

static void check_set_once(unsigned int side, const struct words *was, const struct words *own)
{
	SIM_REQUIRE(own->prod >= was->prod && own->cons >= was->cons, "side %u goes back", side);
	SIM_REQUIRE((!was->tx_start || own->tx_start == was->tx_start) &&
			    (!was->tx_end || own->tx_end == was->tx_end) &&
			    (!was->rx_stop || own->rx_stop == was->rx_stop) &&
			    (!was->stop_ack || own->stop_ack == was->stop_ack),
		    "side %u changes its word", side);
}

static void check_change(unsigned int side, const struct words *was, const struct words *own,
			 const struct words *peer)
{
	check_set_once(side, was, own);
	if (own->tx_start != was->tx_start)
		check_start(side, own, peer);
	if (own->tx_end != was->tx_end)
		check_end(side, own, peer);
	if (own->stop_ack != was->stop_ack)
		check_stop_ack(side, own, peer);
	if (own->prod != was->prod)
		SIM_REQUIRE(own->tx_start && !own->tx_end, "side %u produces outside its segment",
			    side);
	if (own->cons != was->cons)
		check_cons(side, own, peer);
	if (own->rx_ready != was->rx_ready && !peer->tx_end)
		SIM_REQUIRE(!any_deaf(&sides[side]), "side %u is ready with a deaf reader", side);
	if (own->rx_seen != was->rx_seen)
		SIM_REQUIRE(peer->tx_start, "side %u has seen what did not happen", side);
}

void oracle_look(void)
{
	const struct epoch *epoch;
	struct words now[2];
	unsigned int s;

	if (!touched || !daemons.epochs || plan.hostile)
		return;
	touched = false;
	if (known_epochs != daemons.epochs) {
		known_epochs = daemons.epochs;
		memset(known, 0, sizeof(known));
	}
	epoch = &daemons.epoch[daemons.epochs - 1];
	for (s = 0; s < 2; s++)
		now[s] = words_of(epoch, s);
	for (s = 0; s < 2; s++) {
		if (!memcmp(&known[s], &now[s], sizeof(now[s])))
			continue;
		check_change(s, &known[s], &now[s], &now[!s]);
		untold[s] = now[s].seq == known[s].seq && (now[s].tx_start != known[s].tx_start ||
							   now[s].tx_end != known[s].tx_end ||
							   now[s].stop_ack != known[s].stop_ack);
	}
	memcpy(known, now, sizeof(known));
}

void words_tcp_send(unsigned int side)
{
	struct words own, peer;

	if (!daemons.epochs || plan.hostile)
		return;
	own = words_of(&daemons.epoch[daemons.epochs - 1], side);
	peer = words_of(&daemons.epoch[daemons.epochs - 1], !side);
	if (!own.tx_start)
		return;
	SIM_REQUIRE(own.tx_end, "side %u sends on TCP in a ring segment", side);
	SIM_REQUIRE(may_follow(side, &own, &peer), "side %u sends behind the ring before rx_seen",
		    side);
}

void words_begin(unsigned int side)
{
	const struct epoch *epoch;
	struct words now[2];
	unsigned int s;

	/* The epoch that begins is the newest; the one before is over on both sides. */
	if (daemons.epochs < 2 || plan.hostile)
		return;
	epoch = &daemons.epoch[daemons.epochs - 2];
	for (s = 0; s < 2; s++)
		now[s] = words_of(epoch, s);
	for (s = 0; s < 2; s++) {
		uint64_t owed = now[s].tx_end;

		/* What a lost lane did not carry has gone over TCP. */
		if (now[s].lost)
			continue;

		if (now[s].stop_ack && now[!s].resume != RESUME_DONE)
			owed = now[s].stop_ack;

		SIM_REQUIRE(now[s].tx_end, "side %u begins an epoch before the end of the last",
			    side);
		SIM_REQUIRE(opt_some(now[!s].cons) == owed,
			    "side %u begins an epoch before the last is drained", side);
	}
}

/* --- questions -------------------------------------------------------------------------------- */

static uint64_t unread(const struct words *own, const struct words *peer)
{
	if (peer->told_ack && peer->told_ack == own->rx_stop && own->resume != RESUME_DONE)
		return 0;
	return peer->prod - own->cons;
}

uint64_t words_unread(unsigned int side)
{
	struct words own, peer;

	if (!daemons.epochs)
		return 0;
	own = words_of(&daemons.epoch[daemons.epochs - 1], side);
	peer = words_of(&daemons.epoch[daemons.epochs - 1], !side);
	return unread(&own, &peer);
}

bool words_excuse_eof(unsigned int side)
{
	struct words own, peer;

	if (!daemons.epochs)
		return false;
	own = words_of(&daemons.epoch[daemons.epochs - 1], side);
	peer = words_of(&daemons.epoch[daemons.epochs - 1], !side);
	return peer.shut || !unread(&peer, &own);
}

bool words_awaits(const struct side *side)
{
	const struct half_ctl *own = side->lane.own, *peer = side->lane.peer;

	if (!side->lane_on || !word(&own->tx_end))
		return false;
	if (word(&peer->rx_resume) == RESUME_DONE && !word(&peer->rx_seen))
		return true;
	return side->lane.remote && word(&peer->replayed) != word(&own->tx_end);
}

bool words_frozen(const struct side *side)
{
	return side->lane_on && word(&side->lane.own->rx_stop) &&
	       !word(&side->lane.peer->stop_ack) && !word(&side->lane.own->rx_resume);
}

bool words_untold(const struct side *side)
{
	return untold[side->id];
}

bool words_peer_shut(const struct side *side)
{
	return side->lane_on && word(&side->lane.peer->shut);
}

bool words_readable(const struct side *side)
{
	struct words own, peer;

	if (!side->lane_on)
		return false;
	own = words_read(side->lane.own);
	peer = words_read(side->lane.peer);
	return unread(&own, &peer) != 0;
}

bool words_ring_open(const struct side *side)
{
	return side->lane_on && word(&side->lane.own->tx_start) && !word(&side->lane.own->tx_end);
}

uint64_t words_room(const struct side *side)
{
	return side->lane.own_bytes - (word(&side->lane.own->prod) - word(&side->lane.peer->cons));
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/util.h"
#include "coupling.h"
#include "os/bell.h"
#include "os/fd.h"
#include "os/memfd.h"
#include "server.h"
#include "session.h"

static void side_release(struct coupling *coupling, struct coupling_side *side)
{
	if (side->page) {
		sizes_add_half(&coupling->server->tally.sizes[LANE_RING], side->page);
		munmap((void *)side->page, HALF_CTL_BYTES);
		coupling->server->mapped_pages--;
	}
	fd_close(side->half);
	if (side->user) {
		side->user->ring_bytes -= coupling->ring_bytes;
		quota_user_put(&coupling->server->quota, side->user);
	}
	*side = (struct coupling_side){.half = -1};
}

static void coupling_free(struct coupling *coupling)
{
	side_release(coupling, &coupling->sides[0]);
	side_release(coupling, &coupling->sides[1]);
	list_unlink(&coupling->link);
	free(coupling);
}

static struct coupling *coupling_new(struct server *server, uint32_t epoch)
{
	struct coupling *coupling = calloc(1, sizeof(*coupling));

	if (!coupling)
		return NULL;
	coupling->server = server;
	list_push_back(&server->couplings, &coupling->link);
	coupling->epoch = epoch;
	coupling->ring_bytes = server->conf.ring_bytes;
	for (int i = 0; i < 2; i++)
		coupling->sides[i] = (struct coupling_side){.half = -1};
	return coupling;
}

static enum reason reason_of_error(int error)
{
	switch (error) {
	case -EMFILE:
	case -ENFILE:
		return REASON_NO_DESCRIPTORS;
	case -ENOMEM:
	case -ENOSPC:
		return REASON_NO_MEMORY;
	default:
		return REASON_INTERNAL;
	}
}

/* For the figures alone, so it may fail. */
static void side_map(struct coupling *coupling, struct coupling_side *side)
{
	void *page;

	if (coupling->server->mapped_pages >= SERVER_PAGES_MAX)
		return;
	page = mmap(NULL, HALF_CTL_BYTES, PROT_READ, MAP_SHARED, side->half, 0);
	if (page == MAP_FAILED)
		return;
	side->page = page;
	coupling->server->mapped_pages++;
}

/* Make the half of @end's side, and charge its user. */
static enum reason side_make(struct coupling *coupling, struct coupling_side *side, struct end *end)
{
	struct quota *quota = &coupling->server->quota;
	struct quota_user *user = end->session->user;

	if (!quota_take_ring(quota, user, coupling->ring_bytes))
		return REASON_OVER_QUOTA;
	side->user = quota_user_ref(user);
	side->half = memfd_make("shunt-half", half_bytes(coupling->ring_bytes));
	if (side->half < 0)
		return reason_of_error(side->half);
	side_map(coupling, side);
	return REASON_NONE;
}

/* @end takes the place @index, or shares it. */
static void attach(struct coupling *coupling, unsigned int index, struct end *end)
{
	if (!coupling->sides[index].end)
		coupling->sides[index].end = end;
	end->coupling = coupling;
	end->side = (uint8_t)index;
	end->last_epoch = coupling->epoch;
}

/* The next end that shares @end's place; @end itself if none does. */
static struct end *next_holder(const struct end *end)
{
	struct end *kin = end_next_kin(end);

	while (kin->coupling != end->coupling)
		kin = end_next_kin(kin);
	return kin;
}

/* @end leaves its place; with the last one the lane is forgotten. */
static void detach(struct end *end)
{
	struct coupling *coupling = end->coupling;
	struct coupling_side *side = &coupling->sides[end->side];

	if (side->end == end)
		side->end = next_holder(end);
	if (side->end == end)
		side->end = NULL;
	end->coupling = NULL;
	list_unlink(&end->asking);
	if (!coupling->sides[0].end && !coupling->sides[1].end)
		coupling_free(coupling);
}

/* The holder behind @end (NULL: the first) of both sides; NULL behind the last. */
static struct end *walk(const struct coupling *coupling, const struct end *end)
{
	const struct coupling_side *sides = coupling->sides;
	struct end *next;

	if (!end)
		return sides[0].end ? sides[0].end : sides[1].end;
	next = next_holder(end);
	if (next != sides[end->side].end)
		return next;
	return end->side == 0 ? sides[1].end : NULL;
}

/* Wake whoever may sleep on the lane, on either side. */
static void kick_all(const struct coupling *coupling)
{
	for (struct end *end = walk(coupling, NULL); end; end = walk(coupling, end))
		session_kick(end->session);
}

static void send_pair(struct coupling *coupling, unsigned int index, const int bells[2])
{
	struct coupling_side *own = &coupling->sides[index];
	/* Each end gets descriptions of its own: see os/bell.h. */
	AUTO_FD int own_bell = bell_copy(bells[index]);
	AUTO_FD int peer_bell = bell_copy(bells[!index]);
	const int fds[3] = {own->half, own_bell, peer_bell};
	const struct ctl_msg msg = {
		.type = CTL_PAIR,
		.token = own->end->token,
		.u.pair =
			{
				.epoch = coupling->epoch,
				.role = index,
				.own_ring_bytes = coupling->ring_bytes,
				.peer_ring_bytes = coupling->ring_bytes,
			},
	};

	if (own_bell < 0 || peer_bell < 0) {
		/* It comes back with a clean slate, and its streams have stayed on TCP. */
		session_cut(own->end->session, "no descriptor is left for its lane");
		return;
	}
	end_note(own->end, HISTORY_PAIRED, REASON_NONE, coupling->epoch);
	session_send(own->end->session, &msg, fds, ARRAY_SIZE(fds));
}

static void send_unpair(struct end *end, uint32_t epoch, enum reason reason)
{
	const struct ctl_msg msg = {
		.type = CTL_UNPAIR,
		.token = end->token,
		.u.unpair = {.epoch = epoch, .reason = reason},
	};

	end_note(end, HISTORY_UNPAIRED, reason, epoch);
	session_send(end->session, &msg, NULL, 0);
}

enum reason coupling_begin(struct server *server, struct end *a, struct end *b)
{
	uint32_t epoch = a->next_epoch > b->next_epoch ? a->next_epoch : b->next_epoch;
	struct coupling *coupling = coupling_new(server, epoch);
	AUTO_FD int bell_a = bell_make();
	AUTO_FD int bell_b = bell_make();
	const int bells[2] = {bell_a, bell_b};
	struct end *ends[2] = {a, b};
	enum reason reason = coupling ? REASON_NONE : REASON_NO_MEMORY;

	for (int i = 0; i < 2 && reason == REASON_NONE; i++)
		reason = bells[i] < 0 ? reason_of_error(bells[i])
				      : side_make(coupling, &coupling->sides[i], ends[i]);
	if (reason != REASON_NONE) {
		if (coupling)
			coupling_free(coupling);
		return reason;
	}
	for (unsigned int i = 0; i < 2; i++) {
		attach(coupling, i, ends[i]);
		coupling->sides[i].base_tx = ends[i]->totals.lane_tx;
		coupling->sides[i].base_rx = ends[i]->totals.lane_rx;
	}
	send_pair(coupling, 0, bells);
	send_pair(coupling, 1, bells);
	return REASON_NONE;
}

bool coupling_is_alone(const struct end *end)
{
	const struct coupling_side *other;

	if (!end->coupling)
		return false;
	other = &end->coupling->sides[!end->side];
	return !other->end && !other->drained;
}

bool coupling_is_on(const struct end *end, uint32_t epoch)
{
	return end->coupling && end->coupling->complete && end->coupling->epoch == epoch;
}

int coupling_adopt(struct server *server, struct end *end, struct end *peer, uint32_t epoch)
{
	struct coupling *coupling;
	struct end *kin = end_next_kin(end);
	unsigned int index = 0;

	while (kin != end && !coupling_is_on(kin, epoch))
		kin = end_next_kin(kin);
	if (kin != end) {
		coupling = kin->coupling;
		index = kin->side;
	} else if (peer && coupling_is_alone(peer) && peer->coupling->epoch == epoch) {
		coupling = peer->coupling;
		coupling->hinted = false;
		index = !peer->side;
	} else {
		coupling = coupling_new(server, epoch);
		if (!coupling)
			return -ENOMEM;
		coupling->complete = true;
	}
	attach(coupling, index, end);
	return 0;
}

/* The lane was never complete: @leaver takes it back. Tells the other end, and the leaver if
 * @answer is a reason. */
static void take_back(struct end *leaver, enum reason answer, enum reason reason)
{
	struct coupling *coupling = leaver->coupling;
	struct end *other = coupling->sides[!leaver->side].end;
	uint32_t epoch = coupling->epoch;

	detach(leaver);
	leaver->state = CTL_STATE_TCP;
	if (answer != REASON_NONE)
		send_unpair(leaver, epoch, answer);
	if (other) {
		detach(other);
		other->state = CTL_STATE_TCP;
		other->reason = reason;
		send_unpair(other, epoch, reason);
	}
}

/* Whether a message about @epoch concerns the lane that @end is on. */
static enum coupling_verdict check_epoch(const struct end *end, uint32_t epoch)
{
	if (end->coupling && end->coupling->epoch == epoch)
		return COUPLING_OK;
	return epoch <= end->last_epoch ? COUPLING_LATE : COUPLING_WRONG;
}

static void completed(struct coupling *coupling)
{
	struct tally *tally = &coupling->server->tally;

	coupling->complete = true;
	for (int i = 0; i < 2; i++) {
		struct end *end = coupling->sides[i].end;

		tally->lanes++;
		if (end->lanes++ == 0)
			tally->promoted++;
		end->state = CTL_STATE_MAPPED;
		end->reason = REASON_NONE;
		end_note(end, HISTORY_READY, REASON_NONE, coupling->epoch);
	}
}

enum coupling_verdict coupling_mapped(struct end *end, uint32_t epoch)
{
	enum coupling_verdict verdict = check_epoch(end, epoch);
	struct coupling *coupling = end->coupling;
	struct coupling_side *own, *other;
	struct ctl_msg msg = {.type = CTL_PEER, .u.peer = {.epoch = epoch}};

	if (verdict != COUPLING_OK)
		return verdict;
	own = &coupling->sides[end->side];
	other = &coupling->sides[!end->side];
	if (own->half < 0)
		return COUPLING_WRONG; /* mapped before, or adopted */
	if (memfd_seal_writers(own->half) < 0 ||
	    memfd_check(own->half, half_bytes(coupling->ring_bytes), MEMFD_SEALS_WRITERS) < 0) {
		take_back(end, REASON_NONE, REASON_LANE_CORRUPT);
		return COUPLING_WRONG;
	}
	own->mapped = true;
	msg.token = other->end->token;
	session_send(other->end->session, &msg, &own->half, 1);
	fd_close(TAKE(own->half, -1));
	if (other->mapped)
		completed(coupling);
	return COUPLING_OK;
}

enum coupling_verdict coupling_drained(struct end *end, uint32_t epoch, enum reason reason)
{
	enum coupling_verdict verdict = check_epoch(end, epoch);

	if (verdict != COUPLING_OK)
		return verdict;
	if (end->coupling->complete) {
		end->coupling->sides[end->side].drained = true;
		detach(end);
	} else {
		take_back(end, REASON_NONE, REASON_PEER_LEFT);
	}
	end->state = CTL_STATE_TCP;
	end->reason = reason;
	end_note(end, HISTORY_DRAINED, reason, epoch);
	return COUPLING_OK;
}

void coupling_leave(struct end *end, enum reason reason, bool died)
{
	struct coupling *coupling = end->coupling;
	struct end *other;

	if (!coupling)
		return;
	other = coupling->sides[!end->side].end;
	if (!coupling->complete) {
		take_back(end, reason == REASON_CANCELLED ? reason : REASON_NONE,
			  died ? REASON_PEER_DIED : REASON_PEER_LEFT);
		return;
	}
	if (died)
		kick_all(coupling);
	if (reason == REASON_CANCELLED) {
		/* It crossed our PEER, so this end never said ready. */
		send_unpair(end, coupling->epoch, reason);
		if (other)
			coupling_hint_gone(other);
		end->state = CTL_STATE_TCP;
	}
	detach(end);
}

void coupling_hint_gone(struct end *end)
{
	struct coupling *coupling = end->coupling;

	if (coupling->hinted)
		return;
	coupling->hinted = true;
	send_unpair(end, coupling->epoch, REASON_PEER_LEFT);
	session_kick(end->session);
}

void coupling_ask_demote(struct end *end, enum reason reason)
{
	struct coupling *coupling = end->coupling;

	if (coupling->demote_serial == coupling->server->demote_serial)
		return;
	coupling->demote_serial = coupling->server->demote_serial;
	for (struct end *at = walk(coupling, NULL); at; at = walk(coupling, at)) {
		end_note(at, HISTORY_ASKED, reason, coupling->epoch);
		session_ask_demote(at, reason);
	}
}

static uint64_t load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

void coupling_add_live(const struct coupling *coupling, unsigned int index,
		       struct ctl_totals *totals)
{
	const struct coupling_side *side = &coupling->sides[index];

	if (!side->page)
		return;
	/* A client's own claims: a sum that wraps shows as a small number, which u64_max drops. */
	totals->lane_tx = u64_max(totals->lane_tx, side->base_tx + load(&side->page->prod));
	totals->lane_rx = u64_max(totals->lane_rx, side->base_rx + load(&side->page->cons));
}

enum ctl_state coupling_live_state(const struct coupling *coupling, unsigned int index)
{
	bool running = false, ending = false;

	if (!coupling->complete)
		return CTL_STATE_REGISTERED;
	for (unsigned int i = 0; i < 2; i++) {
		const struct half_ctl *page = coupling->sides[i].page;

		if (!page)
			return coupling->sides[index].end->state;
		if (load(&page->tx_end) != OPT_NONE || load(&page->leave))
			ending = true;
		else if (load(&page->tx_start) != OPT_NONE)
			running = true;
	}
	return running ? CTL_STATE_RING : ending ? CTL_STATE_LEAVING : CTL_STATE_MAPPED;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/util.h"
#include "core/peer.h"
#include "core/ring.h"
#include "core/wake.h"
#include "lib/relay/relay.h"
#include "os/bell.h"
#include "os/log.h"
#include "pair.h"
#include "remote_ops.h"
#include "session.h"

struct relay relay;

/* While something can only be found by looking. */
#define LOOK_MS 2
#define TASKS_MAX 64
#define SAYS_SO_NS 100000000u

static bool has_halves(const struct host_end *place)
{
	return place->r.half && place->r.fed;
}

static void set_timer(struct timer *timer, uint64_t delay_ms)
{
	if (!timer->is_set)
		loop_set_timer(&relay.server->loop, timer, delay_ms);
}

static uint64_t delay_ms(void)
{
	return prng_below(&relay.prng, relay.conf.delay_ms + 1);
}

/* --- words and bytes -------------------------------------------------------------------------- */

/* Ring the client of @place if it sleeps for what has changed in its half. */
static void ring_armed(struct host_end *place)
{
	struct wake_arms seen;

	if (!wake_ring_needed(place->r.half, WAKE_ALL, &place->rung, &seen))
		return;
	bell_ring(place->bell);
	wake_remember(&place->rung, &seen);
}

static void copy_bytes(const struct host_end *from, struct host_end *to, uint64_t prod)
{
	uint64_t at = from->told.prod, size = from->lane->ring_bytes;
	const uint8_t *src = half_ring_const(from->r.half);
	uint8_t *dst = half_ring(to->r.fed);
	struct ring_spans spans = ring_range(size, ring_off(at), prod - at);

	for (unsigned int i = 0; i < 2; i++)
		memcpy(dst + spans.pos[i], src + spans.pos[i], spans.len[i]);
}

/* Bring @now, words of @from's client, to the other place. */
static void deliver(struct host_end *from, const struct remote_words *now)
{
	struct host_end *to = place_other(from);

	copy_bytes(from, to, now->prod);
	remote_words_apply(to->r.fed, now);
	from->told = *now;
	ring_armed(to);
}

/* What the client of @place has said by now. False: it says nonsense, and the lane was ended. */
static bool read_news(struct host_end *place, struct remote_words *ret_now)
{
	remote_words_read(place->r.half, ret_now);
	if (!remote_words_check(&place->told, ret_now, place->lane->ring_bytes,
				place_other(place)->told.cons))
		return true;
	log_warning("a client's half holds nonsense: its connection is reset");
	remote_abort(&place->r);
	relay_lose(place->lane);
	return false;
}

static bool link_is_up(const struct relay_lane *lane)
{
	return !lane->lost && lane->complete && has_halves(&lane->places[0]) &&
	       has_halves(&lane->places[1]);
}

/* Carry until nothing is new; then the client rings for the next. */
static void on_carry(struct timer *timer)
{
	struct host_end *place = container_of(timer, struct host_end, carry);
	struct remote_words now;
	struct wake_mark mark;

	if (link_is_up(place->lane)) {
		mark = wake_mark(place->r.fed, place->r.half);
		if (!read_news(place, &now))
			return;
		deliver(place, &now);
		place->r.acked = now;
		/* We are the sleeper here: arm, then look again (core/wake.h). */
		wake_arm(place->r.fed, WAKE_ALL);
		if (!wake_may_sleep(place->r.fed, place->r.half, WAKE_ALL, &mark))
			relay_wake(place);
	} else if (has_halves(place)) {
		wake_arm(place->r.fed, WAKE_ALL);
	}
	relay_act(place->lane);
}

void relay_wake(struct host_end *place)
{
	set_timer(&place->carry, delay_ms());
}

/* Some of what was on its way when the link went. */
static void deliver_part(struct host_end *place)
{
	struct remote_words now, part = place->told;
	unsigned int i, n = (unsigned int)prng_below(&relay.prng, REMOTE_TX_END + 1);

	if (!read_news(place, &now))
		return;
	for (i = 0; i < n; i++)
		part.states[i] = now.states[i];
	if (n == REMOTE_TX_END && now.prod > part.prod)
		part.prod += prng_below(&relay.prng, now.prod - part.prod + 1);
	deliver(place, &part);
}

void relay_lose(struct relay_lane *lane)
{
	if (lane->lost)
		return;
	if (link_is_up(lane) && prng_chance(&relay.prng, 50)) {
		lane->lost = true; /* not again from within */
		lane->complete = true;
		deliver_part(&lane->places[0]);
		deliver_part(&lane->places[1]);
	}
	lane->lost = true;
	relay.losses++;
	relay_act(lane);
}

/* --- what the daemons do ---------------------------------------------------------------------- */

/* The client of @place needs nothing of the lane any more. */
static bool is_over(const struct host_end *place)
{
	return place->r.sock < 0 && !place->orphan_ns;
}

/* A daemon that knows nothing of the lane: whether its client does not, either. It says so by
 * asking for the next one. */
static bool is_through(struct host_end *place)
{
	const struct registry *registry = &relay.server->registry;
	const struct end *end = registry_opposite(registry, &place_other(place)->name);

	return end && end->dup >= 0 && end->next_epoch > place->lane->epoch;
}

/* What @place's daemon knows of the other one at this moment. */
static void tell(struct host_end *place)
{
	struct host_end *other = place_other(place);
	uint64_t at;

	place->r.lost = place->lane->lost;
	place->r.wanted =
		has_halves(other) && remote_reached(&other->r, &at) ? opt_some(at) : OPT_NONE;
	place->r.can_replay = has_halves(other) && remote_can_replay(&other->r);
	place->r.settled = has_halves(other) ? remote_has_recorded(&other->r) || is_over(other)
					     : is_through(other);
}

static void do_task(struct host_end *place, enum remote_task task)
{
	int rc;

	log_debug("epoch %u, port %u: task %d; end %lu, prod %lu, cons %lu of %lu, stop_ack %lu",
		  place->lane->epoch, place->name.local.port, task, place->r.half->tx_end,
		  place->r.half->prod, place->r.half->cons, place->r.fed->prod,
		  place->r.fed->stop_ack);
	if (task == REMOTE_DO_HAND_OVER) {
		relay_lose(place->lane);
		return;
	}
	rc = remote_do(&place->r, task);
	if (rc < 0) {
		log_warning("a half holds nonsense: its connection is reset");
		remote_abort(&place->r);
	} else if (rc > 0) {
		bell_ring(place->bell);
	}
	if (task == REMOTE_DO_CLOSE)
		relay_lose(place->lane);
}

static enum remote_task next_task(struct host_end *place)
{
	if (!has_halves(place) || !place->lane->complete)
		return REMOTE_DO_NOTHING;
	tell(place);
	return remote_next(&place->r);
}

void relay_settle(struct host_end *place)
{
	enum remote_task task;

	for (int i = 0; i < TASKS_MAX; i++) {
		task = next_task(place);
		if (task == REMOTE_DO_NOTHING)
			return;
		do_task(place, task);
	}
}

/* A client that is gone, and whose bytes can't be brought anywhere: a reset tells the other end. */
static bool is_stuck(const struct host_end *place)
{
	uint64_t limit_ns = relay.server->conf.resume_timeout_s * 1000000000u;

	return place->r.gone && place->r.sock >= 0 &&
	       loop_now(&relay.server->loop) - place->gone_ns > limit_ns;
}

/* Nobody can ring for the client any more. One that has only let go of the lane says that it has
 * drained it, behind that. */
static void check_gone(struct host_end *place)
{
	uint64_t now = loop_now(&relay.server->loop);

	if (place->gone_ns && (!place->end || now - place->gone_ns > SAYS_SO_NS))
		place->r.gone = true;
}

static void on_act(struct timer *timer)
{
	struct host_end *place = container_of(timer, struct host_end, act);
	struct relay_lane *lane = place->lane;
	enum remote_task task;

	check_gone(place);
	task = next_task(place);

	if (task != REMOTE_DO_NOTHING) {
		do_task(place, task);
		relay_act(lane);
		return;
	}
	if (is_stuck(place))
		remote_abort(&place->r);
	if (lane_try_free(lane))
		return;
	/* Room on TCP, a reset, and what a process that lives on does without a bell. */
	if (has_halves(place) && place->r.sock >= 0 && (place->gone_ns || lane->lost))
		set_timer(&place->act, LOOK_MS);
}

void relay_act(struct relay_lane *lane)
{
	for (int i = 0; i < 2; i++)
		set_timer(&lane->places[i].act, delay_ms());
}

/* --- fate ------------------------------------------------------------------------------------- */

static void on_fate(struct timer *timer)
{
	relay_lose(container_of(timer, struct relay_lane, fate));
}

static uint64_t about(uint64_t mean)
{
	return prng_below(&relay.prng, 2 * mean) + 1;
}

void relay_fate(struct relay_lane *lane)
{
	timer_init(&lane->fate, on_fate);
	timer_init(&lane->places[0].carry, on_carry);
	timer_init(&lane->places[1].carry, on_carry);
	timer_init(&lane->places[0].act, on_act);
	timer_init(&lane->places[1].act, on_act);
	if (relay.conf.loss_ms)
		set_timer(&lane->fate, about(relay.conf.loss_ms));
}

/* The client that has mapped its half and was not told that its lane is complete. */
static struct session *half_begun(void)
{
	struct list *node;

	list_for_each (node, &relay.lanes) {
		struct relay_lane *lane = list_entry(node, struct relay_lane, link);

		for (int i = 0; i < 2; i++) {
			struct host_end *place = &lane->places[i];

			if (lane->complete && place->end && place->fed >= 0)
				return place->end->session;
		}
	}
	return NULL;
}

static struct session *any_client(void)
{
	uint64_t skip = prng_below(&relay.prng, relay.server->session_count + 1u);
	struct list *s;

	list_for_each (s, &relay.server->sessions) {
		struct session *session = list_entry(s, struct session, link);

		if (session->phase == SESSION_CLIENT && !skip--)
			return session;
	}
	return NULL;
}

/* The daemon of one host dies and comes back: a client loses its session, and all its lanes theirs.
 */
static void on_death(struct timer *timer)
{
	struct session *session = half_begun();

	if (!session)
		session = any_client();
	if (session) {
		relay.dying = true;
		while (!list_is_empty(&session->ends)) {
			struct end *end = list_entry(list_first(&session->ends), struct end, link);

			pair_forget(end, REASON_PEER_DIED, false);
		}
		relay.dying = false;
		relay.deaths++;
		session_cut(session, "the daemon of its host dies");
	}
	if (relay.conf.death_ms)
		set_timer(timer, about(relay.conf.death_ms));
}

void relay_die_half_begun(void)
{
	relay.conf.half_begun = false;
	timer_clear(&relay.server->loop.timers, &relay.death);
	set_timer(&relay.death, 0);
}

void relay_stop(void)
{
	relay.dying = true;
	session_destroy_all(relay.server);
	while (!list_is_empty(&relay.lanes))
		lane_free(list_entry(list_first(&relay.lanes), struct relay_lane, link));
	timer_clear(&relay.server->loop.timers, &relay.death);
}

void relay_start(struct server *server, const struct relay_conf *conf)
{
	relay.conf = *conf;
	relay.server = server;
	prng_init(&relay.prng, conf->seed);
	list_init(&relay.lanes);
	timer_init(&relay.death, on_death);
	server->remote = &relay_ops;
	if (conf->death_ms)
		set_timer(&relay.death, about(conf->death_ms));
}

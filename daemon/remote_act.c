/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "core/link_msg.h"
#include "events.h"
#include "os/bell.h"
#include "os/log.h"
#include "remote_lane.h"
#include "server.h"

/* While something can only be found by looking: room on TCP, a reset, a process that lives on
 * without a bell. Chosen: far below what anybody waits for. */
#define LOOK_MS 2u
/* The same when it has been so for a second: what is left then takes its time. Chosen. */
#define LOOK_LATER_MS 50u
#define LATER_NS 1000000000u
/* Who has let go of the lane without dying says what it means by it. Chosen. */
#define SAYS_SO_NS 100000000u
/* Lines about broken protocols in a minute. Chosen: enough to see what is wrong. */
#define BREACHES_MAX 32u
/* Tasks before others get their turn. */
#define TASKS_MAX 64

static uint64_t word(const _Atomic uint64_t *at)
{
	return atomic_load(at);
}

void remote_act_soon(struct remote_lane *lane)
{
	bool later = lane->ended_ns && loop_now(&lane->server->loop) - lane->ended_ns > LATER_NS;

	if (!lane->act.is_set)
		loop_set_timer(&lane->server->loop, &lane->act, later ? LOOK_LATER_MS : LOOK_MS);
}

static uint64_t limit_ns(const struct remote_lane *lane)
{
	return lane->server->conf.resume_timeout_s * 1000000000u;
}

/* Whether all of our client's bytes, and their end, stand in the other daemon's half. */
static bool is_acknowledged(const struct remote_lane *lane)
{
	const struct worker_report *report = &lane->report;
	uint64_t end = word(&lane->r.half->tx_end);

	if (!end)
		return false;
	if (report->heard & 1u << LINK_WORD_REACHED && report->reached.v == opt_value(end))
		return true;
	return opt_value(end) && report->consumed.v == opt_value(end);
}

/*
 * All of our client's bytes stand in the other daemon's half, which needs ours no more. That they
 * are consumed is what our client waits for to be through with the lane; the message that said so
 * may have been lost with the lane's end.
 */
static void finish_cons(struct remote_lane *lane)
{
	uint64_t end = opt_value(word(&lane->r.half->tx_end));

	if (word(&lane->r.fed->cons) == end)
		return;
	atomic_store(&lane->r.fed->cons, end);
	bell_ring(lane->bell);
}

/* What is known of the other daemon by now. */
static void tell(struct remote_lane *lane)
{
	struct remote_end *r = &lane->r;

	r->acked = (struct remote_words){.prod = lane->report.consumed.v};
	if (is_acknowledged(lane))
		remote_words_read(r->half, &r->acked);
	/* As long as we have not told it that we have all of its bytes it can't have vouched for
	 * them. */
	r->can_replay = !word(&r->fed->tx_end);
	if (!lane->has_ended || r->lost || r->drained)
		return;
	/* It has ended with both ends through, or it is lost. */
	r->lost = !is_acknowledged(lane) || !word(&r->fed->tx_end);
	if (!r->lost) {
		finish_cons(lane);
		return;
	}
	if (lane->report.end == WORKER_LOST || lane->report.end == WORKER_PEER_BREACH)
		remote_note_lost(lane);
	log_debug("epoch %u, port %u: the lane is lost: %s (%s)", lane->epoch,
		  lane->name.local.port, lane->report.why, worker_end_name(lane->report.end));
}

static void tell_reset(const struct remote_lane *lane, const char *why)
{
	const char *peer = lane->peer ? lane->peer->name : "";

	event_log(CONNECTION_RESET,
		  LOG_FACTS(LOG_TEXT("SHUNT_PEER", peer), LOG_TEXT("SHUNT_REASON", why)),
		  "a client's half holds nonsense (%s): its connection%s%s is reset", why,
		  peer[0] ? " to " : "", peer);
}

/* Do @task. False: it is for the worker to go on. */
static bool do_task(struct remote_lane *lane, enum remote_task task)
{
	int rc;

	if (task == REMOTE_DO_HAND_OVER) {
		worker_lane_end(lane->worker);
		return false;
	}
	rc = remote_do(&lane->r, task);
	if (rc < 0) {
		tell_reset(lane, "in a word of state");
		remote_abort(&lane->r);
	} else if (rc > 0) {
		bell_ring(lane->bell);
	}
	/* At once: behind the next task our client may be through with the lane, and if we die then
	 * nobody is left to say it. */
	if (task == REMOTE_DO_RECORD)
		remote_tell_noted(lane);
	if (lane->r.sock < 0 && lane->worker && !lane->has_ended)
		worker_lane_end(lane->worker);
	return true;
}

/* Nobody can ring for the client any more. One that has only let go of the lane says that it has
 * drained it, behind that. */
static void check_gone(struct remote_lane *lane)
{
	uint64_t now = loop_now(&lane->server->loop);

	if (!lane->gone_ns || (lane->end && now - lane->gone_ns <= SAYS_SO_NS))
		return;
	lane->r.gone = true;
	/* What has no end is not acknowledged to the last byte: the rest goes over TCP. */
	if (!word(&lane->r.half->tx_end) && !lane->has_ended && lane->worker)
		worker_lane_end(lane->worker);
}

/* For `shunt ss`: what the words show. */
static void show(struct remote_lane *lane)
{
	const struct half_ctl *half = lane->r.half, *fed = lane->r.fed;
	struct end *end = lane->end;

	if (!end || end->state == CTL_STATE_PINNED || end->state == CTL_STATE_RESET)
		return;
	if (word(&half->tx_end) || word(&fed->tx_end) || word(&half->leave))
		end->state = CTL_STATE_LEAVING;
	else if (word(&half->tx_start) || word(&fed->tx_start))
		end->state = CTL_STATE_RING;
}

/* A client that is gone, and whose bytes can't be brought anywhere: a reset tells the other end. */
static void check_stuck(struct remote_lane *lane)
{
	uint64_t now = loop_now(&lane->server->loop);

	if (lane->r.gone && lane->r.sock >= 0 && now - lane->gone_ns > limit_ns(lane))
		remote_abort(&lane->r);
	if (lane->has_ended && now - lane->ended_ns > limit_ns(lane))
		lane->is_unwanted = true;
}

void remote_act(struct remote_lane *lane)
{
	enum remote_task task;

	if (!lane->has_begun) {
		remote_lane_settle(lane);
		return;
	}
	check_gone(lane);
	for (int i = 0; i < TASKS_MAX; i++) {
		tell(lane);
		task = remote_next(&lane->r);
		if (task == REMOTE_DO_NOTHING || !do_task(lane, task))
			break;
	}
	check_stuck(lane);
	/* The last descriptor must be the last. */
	if (lane->r.sock < 0)
		remote_unkeep(lane);
	remote_tell_lost(lane);
	show(lane);
	if (remote_lane_settle(lane))
		return;
	if (lane->gone_ns || lane->has_ended)
		remote_act_soon(lane);
}

void remote_peer_lost(struct remote_lane *lane, const struct link_peer *peer, uint64_t offset)
{
	if (lane->r.wanted == OPT_NONE && offset != PEER_OFFSET_NONE)
		lane->r.wanted = opt_some(offset);
	/* The daemon that we have the lane with ends it over the link, behind its last words, or
	 * the link is lost. From a successor nothing comes any more. */
	if (lane->peer != peer && !lane->has_ended && lane->worker)
		worker_lane_end(lane->worker);
	remote_act(lane);
}

/* --- the worker's reports --------------------------------------------------------------------- */

void remote_lane_words(struct worker_lane *worker_lane, const struct worker_report *report)
{
	struct remote_lane *lane = worker_lane_user(worker_lane);

	lane->report = *report;
	remote_act(lane);
}

/* A peer can have as many lanes as connections. */
static void note_breach(const struct remote_lane *lane)
{
	static struct log_limit limit = {.burst = BREACHES_MAX, .interval_ns = 60000000000u};
	unsigned int withheld;

	if (!log_limit_pass(&limit, loop_now(&lane->server->loop), &withheld)) {
		log_debug("peer %s: it broke the protocol of a lane: %s", lane->peer->name,
			  lane->report.why);
		return;
	}
	log_warning("peer %s: it broke the protocol of a lane: %s (%u more such lines were "
		    "withheld)",
		    lane->peer->name, lane->report.why, withheld);
}

void remote_lane_ended(struct worker_lane *worker_lane, const struct worker_report *report)
{
	struct remote_lane *lane = worker_lane_user(worker_lane);

	lane->report = *report;
	lane->has_ended = true;
	lane->ended_ns = loop_now(&lane->server->loop);
	if (report->end == WORKER_CLIENT_BREACH) {
		tell_reset(lane, report->why);
		remote_abort(&lane->r);
	}
	if (report->end == WORKER_PEER_BREACH)
		note_breach(lane);
	/* Not at once: it may be over by the same mail, and its end is acted upon behind that. */
	remote_act_soon(lane);
}

void remote_lane_over(struct worker_lane *worker_lane, __attribute__((unused)) bool link_lost)
{
	struct remote_lane *lane = worker_lane_user(worker_lane);

	lane->counts = worker_lane_counts(lane->worker);
	lane->worker = worker_lane_free(lane->worker);
	remote_act(lane);
}

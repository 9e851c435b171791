/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <time.h>

#include "base/util.h"
#include "coupling.h"
#include "end.h"
#include "events.h"
#include "remote_ops.h"
#include "server.h"
#include "session.h"

struct history_event *end_last_event(struct end *end)
{
	assert(end->history.count > 0);
	return &end->history.events[(end->history.count - 1) % HISTORY_EVENTS];
}

static struct history_event *next_event(struct end *end)
{
	struct timespec now;
	struct history_event *event;

	clock_gettime(CLOCK_REALTIME, &now);
	event = &end->history.events[end->history.count++ % HISTORY_EVENTS];
	*event = (struct history_event){
		.at_ms = (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u,
	};
	return event;
}

/* Whether the last event was the same: somebody who asks again and again must not push out what
 * came before. */
static bool is_noted(const struct end *end, enum history_what what, enum reason reason,
		     uint32_t epoch)
{
	const struct history *history = &end->history;
	const struct history_event *last = &history->events[(history->count - 1) % HISTORY_EVENTS];

	return history->count > 0 && last->what == what && last->reason == reason &&
	       last->epoch == epoch;
}

/* For who follows single connections: hundreds a second may come and go. */
static void tell(const struct end *end, enum history_what what, enum reason reason, uint32_t epoch)
{
	const int pid = (int)end->session->pid, fd = (int)end->fd;
	const unsigned int uid = end->session->uid;
	const char *lane = end->remote ? "rdma" : "ring";

	if (what == HISTORY_READY)
		event_log(PROMOTED,
			  LOG_FACTS(LOG_NUMBER("SHUNT_PID", pid), LOG_NUMBER("SHUNT_UID", uid),
				    LOG_TEXT("SHUNT_LANE", lane), LOG_NUMBER("SHUNT_EPOCH", epoch)),
			  "pid %d (uid %u), descriptor %d: on a lane: %s", pid, uid, fd, lane);
	else if (what == HISTORY_DRAINED)
		event_log(DEMOTED,
			  LOG_FACTS(LOG_NUMBER("SHUNT_PID", pid), LOG_NUMBER("SHUNT_UID", uid),
				    LOG_NUMBER("SHUNT_EPOCH", epoch),
				    LOG_TEXT("SHUNT_REASON", reason_name(reason))),
			  "pid %d (uid %u), descriptor %d: back on TCP: %s", pid, uid, fd,
			  reason ? reason_text(reason) : "of its own");
	else if (what == HISTORY_LOST)
		event_log(LANE_LOST,
			  LOG_FACTS(LOG_NUMBER("SHUNT_PID", pid), LOG_NUMBER("SHUNT_UID", uid),
				    LOG_NUMBER("SHUNT_EPOCH", epoch),
				    LOG_TEXT("SHUNT_REASON", "link or daemon gone")),
			  "pid %d (uid %u), descriptor %d: its lane is lost", pid, uid, fd);
}

void end_note(struct end *end, enum history_what what, enum reason reason, uint32_t epoch)
{
	struct history_event *event;

	if (is_noted(end, what, reason, epoch))
		return;
	event = next_event(end);
	event->what = (uint8_t)what;
	event->reason = (uint16_t)reason;
	event->epoch = epoch;
	tell(end, what, reason, epoch);
}

void end_note_rule(struct end *end)
{
	struct history_event *event = next_event(end);

	event->what = HISTORY_RULED;
	event->state = end->rule;
	event->link = end->rule_line;
}

void end_set_state(struct end *end, enum ctl_state state, enum reason reason)
{
	struct history_event *event;

	if (end->state == state && end->reason == reason)
		return;
	end->state = state;
	end->reason = reason;
	event = next_event(end);
	event->what = HISTORY_STATE;
	event->state = (uint8_t)state;
	event->reason = (uint16_t)reason;
}

void end_set_totals(struct end *end, const struct ctl_totals *totals)
{
	struct ctl_totals *own = &end->totals;

	own->tcp_tx = u64_max(own->tcp_tx, totals->tcp_tx);
	own->tcp_rx = u64_max(own->tcp_rx, totals->tcp_rx);
	own->lane_tx = u64_max(own->lane_tx, totals->lane_tx);
	own->lane_rx = u64_max(own->lane_rx, totals->lane_rx);
	own->rx_changes = u64_max(own->rx_changes, totals->rx_changes);
}

struct ctl_totals end_totals(const struct end *end)
{
	struct ctl_totals totals = end->totals;

	if (end->coupling)
		coupling_add_live(end->coupling, end->side, &totals);
	if (end->remote && end->session->server->remote->add_live)
		end->session->server->remote->add_live(end, &totals);
	return totals;
}

enum ctl_state end_state(const struct end *end)
{
	switch (end->state) {
	case CTL_STATE_REGISTERED:
	case CTL_STATE_MAPPED:
	case CTL_STATE_RING:
		return end->coupling ? coupling_live_state(end->coupling, end->side) : end->state;
	default:
		return end->state;
	}
}

const char *history_text(enum history_what what)
{
	static const char *const texts[] = {
		[HISTORY_SEEN] = "first registered",
		[HISTORY_WAITING] = "waits for the other end",
		[HISTORY_REFUSED] = "refused a lane",
		[HISTORY_PAIRED] = "paired with the other end",
		[HISTORY_READY] = "both ends hold the lane",
		[HISTORY_UNPAIRED] = "the lane was taken back",
		[HISTORY_ADOPTED] = "brought a running lane along",
		[HISTORY_ASKED] = "asked to go back to TCP",
		[HISTORY_DRAINED] = "back on TCP, the lane is drained",
		[HISTORY_STATE] = "state told by the program",
		[HISTORY_LOST] = "the lane was lost, TCP goes on from the exact byte",
		[HISTORY_RULED] = "kept on TCP by a rule",
	};

	return (size_t)what < ARRAY_SIZE(texts) ? texts[what] : "?";
}

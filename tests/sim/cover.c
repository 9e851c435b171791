/* SPDX-License-Identifier: MIT */
#include "sim/plan.h"

bool covered[COVER_COUNT];

static const char *const cover_names[COVER_COUNT] = {
	[COVER_PROMOTED] = "promotion",
	[COVER_RING_BYTES] = "bytes on a ring",
	[COVER_FAST] = "the short way",
	[COVER_BOTH_LANES] = "both lanes in one direction",
	[COVER_EPOCHS] = "a further epoch",
	[COVER_DRAINED] = "an epoch drained",
	[COVER_LEAVE] = "demotion",
	[COVER_STOP_ASKED] = "hand-over asked for",
	[COVER_STOP_ANSWERED] = "hand-over answered",
	[COVER_STOP_REFUSED] = "hand-over refused",
	[COVER_STOP_RESUMED] = "hand-over taken back",
	[COVER_BACKLOG] = "backlog over TCP",
	[COVER_BARE] = "reader that does not know the ring",
	[COVER_SHUTDOWN] = "half-close",
	[COVER_CLOSE_UNREAD] = "close with unread ring bytes",
	[COVER_KILL_PROC] = "one process of two killed",
	[COVER_KILL_SIDE] = "last process killed",
	[COVER_RECOVERED] = "lock recovered",
	[COVER_RESET_VERDICT] = "reset told by the lane",
	[COVER_FREEZE] = "a side that makes no call",
	[COVER_DAEMON_LEFT] = "no daemon any more",
	[COVER_DAEMON_DEATH] = "death of the daemon",
	[COVER_REMOTE] = "a lane between hosts",
	[COVER_LOST] = "loss of the link",
	[COVER_REPLAY] = "replay over TCP",
	[COVER_HOST_DEATH] = "death of a host's daemon",
	[COVER_EOF] = "EOF",
	[COVER_RESET] = "reset",
	[COVER_BROKEN] = "broken protocol found out",
};

void cover(enum cover what)
{
	covered[what] = true;
}

const char *cover_name(enum cover what)
{
	return cover_names[what];
}

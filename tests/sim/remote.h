/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "sim/daemon.h"

/*
 * A lane between two hosts. Each end has its client's half and a half of its own daemon, which is
 * the peer's half to the client; a relay per direction carries words and bytes from the one to the
 * other, after a while, until the link is lost. From then on the daemons freeze their halves, tell
 * each other how far they came, and replay the rest over TCP, whoever dies in the middle of it.
 *
 * A hand-over is a loss, too: at the offset at which the reader has stopped.
 */

/* What a daemon knows beside the halves is lost with it; the other one tells it again. */
struct host {
	bool alive;
	bool holds;	 /* a duplicate of the socket */
	bool knows;	 /* the lane of this epoch: has its halves */
	uint64_t wanted; /* opt ring offset from which the other daemon wants its client's bytes */
	bool settled;	 /* the other daemon has recorded the same, or its client is through */
};

struct remote {
	bool lost; /* the link of this epoch */
	struct host host[2];
	unsigned int generation; /* moves when a relay under way is cut */
};

extern struct remote remote;

void remote_start(void);
/* A new epoch is about to be handed out. */
void remote_pair(void);
/* Whether both hosts can carry an epoch. */
bool remote_may_pair(void);
/* The link is gone. */
void remote_lose(void);

/* What the daemon of @side is to do next. */
enum host_task {
	HOST_NOTHING,
	HOST_FREEZE,
	HOST_TELL,	 /* the other daemon, how far the own client came */
	HOST_TELL_NOTED, /* … that what it wants is recorded */
	HOST_RECORD,
	HOST_SETTLE, /* the client may be through with the lane */
	HOST_HAND_OVER,
	HOST_REPLAY,
	HOST_VOUCH,
	HOST_SHUT,
	HOST_CLOSE,
	HOST_RELEASE,
};
enum host_task host_next(unsigned int side);
void host_do(unsigned int side, enum host_task what);

static inline struct epoch *remote_epoch(void)
{
	return daemons.epochs ? &daemons.epoch[daemons.epochs - 1] : NULL;
}

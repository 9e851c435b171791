/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/prng.h"
#include "core/wake.h"
#include "end.h"
#include "loop.h"
#include "os/fd.h"
#include "remote_replay.h"
#include "server.h"

/*
 * A daemon that plays both hosts' daemons for the clients of one machine: whatever it pairs gets a
 * lane between hosts. It is shuntd itself with other lanes (daemon/remote_ops.h). Per lane there
 * are two places, each as the daemon of one host would have it: its client's half, the half with
 * which it feeds it, a duplicate of the TCP socket. What one place may know of the other goes
 * through relay.c alone, after a while, and may be cut off at any moment (remote_tests: losses,
 * deaths of one host's daemon).
 */

struct relay_conf {
	uint64_t seed;
	uint64_t delay_ms; /* longest time that words are on their way, and that a daemon thinks */
	uint64_t loss_ms;  /* a link lasts about so long; 0: for ever */
	uint64_t death_ms; /* one host's daemon dies about so often; 0: never */
	bool half_begun;   /* of the first lane that is complete one host's daemon dies before it
			    * has told its client so */
};

struct relay_lane;

/* One host's part of a lane. */
struct host_end {
	struct relay_lane *lane;
	struct end *end; /* one that holds it; NULL: gone, drained, or its daemon is dead */
	struct tcp_name name;
	struct quota_user *user;  /* charged for the halves */
	struct remote_end r;	  /* half NULL: this host's daemon knows nothing of the lane */
	struct remote_words told; /* the last that was put on its way */
	int half, fed;		  /* descriptors, until they are sent; else -1 */
	int bell;		  /* the client's */
	struct source ear;	  /* which the client rings; hangs up when nobody has it */
	int ear_bell;		  /* the bell itself, until it is sent; else -1 */
	struct timer carry, act;  /* something is on its way; something is to be done */
	uint64_t orphan_ns; /* since when its daemon is dead, and its client about to adopt; or 0 */
	uint64_t gone_ns;   /* since when the client is gone, or seems to be; 0: it is not */
	struct wake_arms rung;
	bool mapped;
};

struct relay_lane {
	struct list link;
	struct server *server;
	uint32_t epoch;
	uint64_t ring_bytes;
	bool complete, lost;
	struct timer fate;
	struct host_end places[2];
};

struct relay {
	struct relay_conf conf;
	struct prng prng;
	struct list lanes;
	struct timer death;
	struct server *server;
	bool dying; /* a host's daemon is dying: what it has is dropped, not ended */
	uint64_t losses, deaths;
};

extern struct relay relay;

/* Make @server a relay. */
void relay_start(struct server *server, const struct relay_conf *conf);

/* The end: all is dropped, as if it had died. */
void relay_stop(void);

/* --- relay.c: what goes between the places ---------------------------------------------------- */

/* The client of @place has done something, or may have: carry it to the other one, in a while. */
void relay_wake(struct host_end *place);

/* Both places are to look what there is to do, in a while. */
void relay_act(struct relay_lane *lane);

/* The link of @lane is lost; what was on its way may have come in part. */
void relay_lose(struct relay_lane *lane);

/* Do what is due at @place at once, until there is nothing more. */
void relay_settle(struct host_end *place);

/* A host's daemon is to die that has not told its client that its lane is complete. */
void relay_die_half_begun(void);

/* Start what happens to a lane by itself. */
void relay_fate(struct relay_lane *lane);

static inline struct host_end *place_other(struct host_end *place)
{
	return &place->lane->places[place == &place->lane->places[0]];
}

/* --- places.c: how lanes come and go ---------------------------------------------------------- */

/* A lane without halves, of nobody yet. NULL: no memory. */
struct relay_lane *lane_new(struct server *server, uint32_t epoch, uint64_t ring_bytes);

/* Map both halves of @place, whose descriptors are there. 0, or -errno. */
int place_map(struct host_end *place, int half, int fed);

/* Listen to @bell, which the client of @place will ring. A descriptor, or -errno. */
int place_listen_to(struct host_end *place, int bell);

/* @end holds @place, perhaps with others. */
void place_hold(struct host_end *place, struct end *end);

/* The daemon of @place's host forgets what it has: unmapped and closed. */
void place_release(struct host_end *place);

/* Free @lane, and all that its ends have. */
void lane_free(struct relay_lane *lane);

/* The lane is freed if nobody has anything of it any more. True if it was. */
bool lane_try_free(struct relay_lane *lane);

extern const struct remote_ops relay_ops;

/* --- adopt.c: lanes of a predecessor ---------------------------------------------------------- */

/* For struct remote_ops. A lane of a predecessor's is lost, as its links are. */
enum reason relay_adopt(struct end *end, uint32_t epoch, int fd, struct fd_bag *bag);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "core/link_take.h"

/*
 * Two ends of a link in a world of ticks: the core's link code, verbs made of arrays, and clients
 * that write and read rings. Each direction is a wire that sends one work request after the other
 * at a fixed rate, and delivers after a fixed time, in order; it may be cut at any tick. A NIC here
 * is as late as one may be: it reads what goes by reference, or lies in a slot, when the last byte
 * is sent, and a work request leaves the queue only when a completion behind it was polled.
 *
 * After every message the bytes in the rings, the receives and the queue are checked.
 */

#define WORLD_LANES 16u
#define WORLD_DEPTH_MAX 256u
#define WORLD_RING_MAX_BYTES (1u << 20)

/* How a lane is used. */
enum world_use {
	WORLD_BULK,	 /* both clients write all they can, up to their total */
	WORLD_PING_PONG, /* messages of one size, one at a time, to and fro */
	WORLD_RANDOM,	 /* bursts of any size, and pauses */
};

struct world_plan {
	uint64_t seed;
	uint32_t lanes;
	uint32_t rate;				      /* bytes per tick */
	uint32_t latency;			      /* ticks */
	uint32_t poll_ticks, app_ticks, repost_ticks; /* a worker, a client, a receive: at most */
	struct link_limits limits[2];		      /* peer_credits are set from the other's */
	struct {
		enum world_use use;
		uint64_t ring_bytes[2]; /* of each client, and of the other's daemon for it */
		uint64_t fed_bytes[2];
		uint64_t total[2];  /* bytes that each writes */
		uint32_t size;	    /* of a message of a ping-pong; most of a burst */
		uint32_t read_most; /* bytes that a read takes at most */
		uint32_t epochs;
		uint64_t freeze_tick; /* ends it in the middle; UINT64_MAX: does not */
	} lane[WORLD_LANES];
	uint64_t cut_tick;    /* UINT64_MAX: never */
	uint64_t still_ticks; /* so long nothing at all may move before it counts as locked up */
};

/* One work request in a send queue and on the wire. */
struct world_item {
	struct link_wr wr;
	uint8_t *data; /* what it carries; inline: from the post on */
	uint32_t len;
	uint64_t sent, delivered, completed; /* ticks */
};

struct world_message {
	uint8_t bytes[LINK_MSG_MAX_BYTES];
	uint32_t len;
	uint64_t tick;
};

/* A client's end of a lane. */
struct world_client {
	struct link_lane lane;
	bool is_there; /* the lane is open at this end */
	uint32_t epoch;
	uint8_t *ring, *fed; /* own bytes; the peer's, as the daemon feeds them */
	uint64_t prod, cons; /* written; read */
	uint64_t fed_prod, fed_cons;
	uint32_t fed_words; /* set of words that the daemon has set */
	uint64_t fed_end;
	bool is_frozen;
	uint64_t last_wrote_tick, slowest_ticks; /* of a ping-pong: one way */
	uint64_t rounds;
	uint64_t all_tick; /* when all of the peer's bytes had come */
};

struct world_end {
	struct link_send send;
	struct link_note notes[WORLD_DEPTH_MAX];
	struct link_lane *table[WORLD_LANES];
	struct link_lanes lanes;
	struct world_client client[WORLD_LANES];
	/* The send queue: numbers head > sent > delivered > retired. */
	struct world_item item[WORLD_DEPTH_MAX];
	uint32_t head, sent, delivered, retired;
	uint64_t busy_until;
	uint8_t slot[WORLD_DEPTH_MAX][LINK_OWN_MAX_BYTES];
	/* Receives. */
	uint32_t posted, to_repost;
	struct world_message in[WORLD_DEPTH_MAX * 2];
	uint32_t in_head, in_tail;
	uint64_t next_poll, next_app;
};

struct world {
	struct world_plan plan;
	struct prng prng;
	uint64_t tick;
	uint64_t moved_tick;  /* when a client or the wire did something last */
	uint64_t client_tick; /* when a client did, or a lane began or ended */
	bool is_cut;
	char fault[256]; /* empty: none */
	struct world_end end[2];
};

extern struct world world;

/* Stop the run with a reason, once. */
__attribute__((format(printf, 1, 2))) void world_fail(const char *fmt, ...);

#define WORLD_REQUIRE(cond, ...)                                                                   \
	do {                                                                                       \
		if (!(cond))                                                                       \
			world_fail(__VA_ARGS__);                                                   \
	} while (0)

/* A plan drawn from @seed. */
void world_draw(struct world_plan *plan, uint64_t seed);

/* Run @plan to its end. True: without a fault; else world.fault says which. */
bool world_run(const struct world_plan *plan);

/* The byte at @offset of what @side writes on lane @i in @epoch. */
uint8_t world_byte(unsigned int side, unsigned int i, uint32_t epoch, uint64_t offset);

/* link_world_app.c: the clients, and what a daemon does with its halves. */
void world_open(unsigned int i, uint32_t epoch);
void world_clients_act(unsigned int side);
void world_tell(unsigned int side, unsigned int i);
void world_hear(unsigned int side, const struct link_news *news);
bool world_is_done(void);
void world_check_cut(void);
void world_free(void);

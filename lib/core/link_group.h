/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The links to one peer daemon: at most so many, one per path, which is a pair of device ports that
 * match. Either daemon may dial, and both may do so at once. Of dials that cross, the one from the
 * lower UUID stays; but if that fails, or is not seen in two seconds, the other is taken.
 *
 * Each path has a place in the group:
 *
 *	EMPTY ───────dial───────> DIALLING ──────────up──────────> UP
 *	 │ ^                       │ │ └─request, ours stays─┐      ^
 *	 │ └────────failed─────────┘ │                       v      │
 *	 │ ^                         │                    CROSSED ─up
 *	 │ │                         └───rejected───┐        │
 *	 │ │                                        v        │
 *	 │ └───────────2 s───────────────────────WAITING <─failed, rejected
 *	 │                                          │
 *	 └─────────────request──────────────────────┴──> ANSWERING ─up─> UP
 *
 *	request, ours yields:   DIALLING, CROSSED ──> ANSWERING
 *	request, they dial anew:        ANSWERING ──> ANSWERING
 *	failed:                     ANSWERING, UP ──> EMPTY
 *	request, which is rejected:            UP ──> UP
 *
 *   EMPTY      no link, and none is being made: either side may begin
 *   DIALLING   our dial is on its way
 *   CROSSED    the same, and a dial of the peer was rejected for it
 *   WAITING    our dial came to nothing since the other's goes first: it has two seconds
 *   ANSWERING  a dial of the peer was accepted and is being made
 *   UP         there is a link
 *
 * Ours stays when our UUID is the lower and it is younger than two seconds; else it yields. That
 * both yield, or an old request is taken for a new one, costs a failed attempt; it never leaves two
 * links or none for good, for who ends EMPTY dials again. A link that only one end takes for dead
 * is not replaced by a request: its end that is mistaken finds out by its own test (link_test.h).
 *
 * Pure; of the daemon's loop; times are the caller's, monotonic nanoseconds.
 */

#define LINK_UUID_BYTES 16u

/* Most links to one peer. Chosen: two ports on each side, crosswise. */
#define LINK_GROUP_MAX 4u

/* How long a dial may keep the other's out. Chosen: as the deadline of a test of life; a dial that
 * works takes milliseconds. */
#define LINK_CROSS_NS 2000000000ull

enum link_place_state {
	LINK_PLACE_EMPTY,
	LINK_PLACE_DIALLING,
	LINK_PLACE_CROSSED,
	LINK_PLACE_WAITING,
	LINK_PLACE_ANSWERING,
	LINK_PLACE_UP,
	LINK_PLACE_STATE_COUNT,
};

enum link_place_event {
	LINK_PLACE_EV_DIAL,	/* we want a link */
	LINK_PLACE_EV_STAYS,	/* the peer's request, and a dial of ours stays */
	LINK_PLACE_EV_YIELDS,	/* the peer's request, and a dial of ours yields */
	LINK_PLACE_EV_REJECTED, /* our dial, because it crossed another (LINK_REJECT_CROSSED) */
	LINK_PLACE_EV_FAILED,	/* the attempt, for anything else; or the link is gone */
	LINK_PLACE_EV_UP,	/* the attempt has made a link */
	LINK_PLACE_EV_TIME,	/* two seconds are over */
	LINK_PLACE_EVENT_COUNT,
};

/* What to do about it. */
enum link_place_action {
	LINK_PLACE_NOTHING,
	LINK_PLACE_START,   /* dial */
	LINK_PLACE_ACCEPT,  /* accept the request */
	LINK_PLACE_REPLACE, /* end the attempt under way, then accept the request */
	LINK_PLACE_REJECT,  /* reject it with LINK_REJECT_CROSSED */
	LINK_PLACE_FULL,    /* no place for another path: reject it with LINK_REJECT_BUSY */
	LINK_PLACE_ACTION_COUNT,
};

struct link_place {
	uint64_t path;	   /* the caller's name for the pair of ports */
	uint32_t state;	   /* enum link_place_state */
	uint32_t attempt;  /* of the attempt or link: what comes of an earlier one is ignored */
	uint64_t since_ns; /* when the dial or the wait began */
};

struct link_group {
	bool is_lower; /* our UUID is */
	uint32_t max_links;
	uint32_t attempts; /* so far, of all places */
	struct link_place place[LINK_GROUP_MAX];
};

/*
 * Begin a group with @peer. @max_links: 1…LINK_GROUP_MAX (asserted).
 * False: the peer's UUID is our own, there can be no link to it.
 */
bool link_group_init(struct link_group *group, const uint8_t own[LINK_UUID_BYTES],
		     const uint8_t peer[LINK_UUID_BYTES], uint32_t max_links);

/*
 * Whether @event can happen in @state, and what it leads to. Pure; any values.
 * @ret_next, @ret_action: set if so.
 */
bool link_place_can(enum link_place_state state, enum link_place_event event,
		    enum link_place_state *ret_next, enum link_place_action *ret_action);

/*
 * We want a link on @path. LINK_PLACE_START, with the number of the attempt in @ret_attempt; or
 * NOTHING, when there is one, or one is being made or waited for; or FULL.
 */
enum link_place_action link_group_dial(struct link_group *group, uint64_t path, uint64_t now_ns,
				       uint32_t *ret_attempt);

/*
 * The peer asks for a link on @path. ACCEPT or REPLACE, with the number of the attempt in
 * @ret_attempt; REJECT or FULL.
 */
enum link_place_action link_group_request(struct link_group *group, uint64_t path, uint64_t now_ns,
					  uint32_t *ret_attempt);

/*
 * What came of @attempt on @path: UP, FAILED or REJECTED. False, with nothing done, when it is no
 * longer the place's: a link that came up all the same has to be closed then.
 */
bool link_group_result(struct link_group *group, uint64_t path, uint32_t attempt,
		       enum link_place_event event, uint64_t now_ns);

/* Time has passed: places that have waited long enough are empty. Returns when to call again, at
 * the latest; UINT64_MAX: nothing waits. */
uint64_t link_group_tick(struct link_group *group, uint64_t now_ns);

/* The state of @path; EMPTY also for a path that is unknown. */
enum link_place_state link_group_state(const struct link_group *group, uint64_t path);

/* Links that are up. */
uint32_t link_group_count(const struct link_group *group);

/* What must hold between any two calls: at most max_links places in use, each path once. */
bool link_group_invariant(const struct link_group *group);

const char *link_place_state_name(enum link_place_state state);

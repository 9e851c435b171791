/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "core/link_group.h"

#define NO 0xff

struct step {
	uint8_t next, action;
};

#define NEVER                                                                                      \
	{                                                                                          \
		NO, LINK_PLACE_NOTHING                                                             \
	}
#define TO(state, action)                                                                          \
	{                                                                                          \
		LINK_PLACE_##state, LINK_PLACE_##action                                            \
	}

/* state × event → next state, action */
static const struct step steps[LINK_PLACE_STATE_COUNT][LINK_PLACE_EVENT_COUNT] = {
	/* DIAL STAYS YIELDS REJECTED FAILED UP TIME */
	[LINK_PLACE_EMPTY] = {TO(DIALLING, START), TO(ANSWERING, ACCEPT), TO(ANSWERING, ACCEPT),
			      NEVER, NEVER, NEVER, NEVER},
	[LINK_PLACE_DIALLING] = {NEVER, TO(CROSSED, REJECT), TO(ANSWERING, REPLACE),
				 TO(WAITING, NOTHING), TO(EMPTY, NOTHING), TO(UP, NOTHING), NEVER},
	[LINK_PLACE_CROSSED] = {NEVER, TO(CROSSED, REJECT), TO(ANSWERING, REPLACE),
				TO(WAITING, NOTHING), TO(WAITING, NOTHING), TO(UP, NOTHING), NEVER},
	[LINK_PLACE_WAITING] = {NEVER, TO(ANSWERING, ACCEPT), TO(ANSWERING, ACCEPT), NEVER, NEVER,
				NEVER, TO(EMPTY, NOTHING)},
	[LINK_PLACE_ANSWERING] = {NEVER, TO(ANSWERING, REPLACE), TO(ANSWERING, REPLACE), NEVER,
				  TO(EMPTY, NOTHING), TO(UP, NOTHING), NEVER},
	[LINK_PLACE_UP] = {NEVER, TO(UP, REJECT), TO(UP, REJECT), NEVER, TO(EMPTY, NOTHING), NEVER,
			   NEVER},
};

bool link_group_init(struct link_group *group, const uint8_t own[LINK_UUID_BYTES],
		     const uint8_t peer[LINK_UUID_BYTES], uint32_t max_links)
{
	int order = memcmp(own, peer, LINK_UUID_BYTES);

	assert(max_links >= 1 && max_links <= LINK_GROUP_MAX);
	*group = (struct link_group){.is_lower = order < 0, .max_links = max_links};
	return order != 0;
}

bool link_place_can(enum link_place_state state, enum link_place_event event,
		    enum link_place_state *ret_next, enum link_place_action *ret_action)
{
	if (state >= LINK_PLACE_STATE_COUNT || event >= LINK_PLACE_EVENT_COUNT ||
	    steps[state][event].next == NO)
		return false;
	*ret_next = steps[state][event].next;
	*ret_action = steps[state][event].action;
	return true;
}

/* The place of @path that is in use, or NULL. */
static struct link_place *place_of(const struct link_group *group, uint64_t path)
{
	for (uint32_t i = 0; i < LINK_GROUP_MAX; i++) {
		const struct link_place *place = &group->place[i];

		if (place->state != LINK_PLACE_EMPTY && place->path == path)
			return (struct link_place *)place;
	}
	return NULL;
}

/* The place of @path, or one that it can have; NULL: as many are in use as may be. */
static struct link_place *place_for(struct link_group *group, uint64_t path)
{
	struct link_place *place = place_of(group, path), *free_place = NULL;
	uint32_t used = 0;

	if (place)
		return place;
	for (uint32_t i = 0; i < LINK_GROUP_MAX; i++) {
		if (group->place[i].state == LINK_PLACE_EMPTY)
			free_place = &group->place[i];
		else
			used++;
	}
	if (used >= group->max_links)
		return NULL;
	*free_place = (struct link_place){.path = path};
	return free_place;
}

/* Apply @event; the action, NOTHING where it is not possible. */
static enum link_place_action apply(struct link_group *group, struct link_place *place,
				    enum link_place_event event, uint64_t now_ns)
{
	enum link_place_action action = LINK_PLACE_NOTHING;
	enum link_place_state next;

	if (!link_place_can(place->state, event, &next, &action))
		return LINK_PLACE_NOTHING;
	if (action == LINK_PLACE_START || action == LINK_PLACE_ACCEPT ||
	    action == LINK_PLACE_REPLACE)
		place->attempt = ++group->attempts;
	/* A dial that has crossed another is as old as it was. */
	if (next != place->state && next != LINK_PLACE_CROSSED)
		place->since_ns = now_ns;
	place->state = next;
	return action;
}

enum link_place_action link_group_dial(struct link_group *group, uint64_t path, uint64_t now_ns,
				       uint32_t *ret_attempt)
{
	struct link_place *place = place_for(group, path);
	enum link_place_action action;

	if (!place)
		return LINK_PLACE_FULL;
	action = apply(group, place, LINK_PLACE_EV_DIAL, now_ns);
	if (action == LINK_PLACE_START)
		*ret_attempt = place->attempt;
	return action;
}

enum link_place_action link_group_request(struct link_group *group, uint64_t path, uint64_t now_ns,
					  uint32_t *ret_attempt)
{
	struct link_place *place = place_for(group, path);
	enum link_place_action action;
	bool stays;

	if (!place)
		return LINK_PLACE_FULL;
	stays = group->is_lower && now_ns - place->since_ns < LINK_CROSS_NS;
	action = apply(group, place, stays ? LINK_PLACE_EV_STAYS : LINK_PLACE_EV_YIELDS, now_ns);
	if (action == LINK_PLACE_ACCEPT || action == LINK_PLACE_REPLACE)
		*ret_attempt = place->attempt;
	return action;
}

bool link_group_result(struct link_group *group, uint64_t path, uint32_t attempt,
		       enum link_place_event event, uint64_t now_ns)
{
	struct link_place *place = place_of(group, path);
	enum link_place_state next;
	enum link_place_action action;

	if (!place || place->attempt != attempt ||
	    (event != LINK_PLACE_EV_UP && event != LINK_PLACE_EV_FAILED &&
	     event != LINK_PLACE_EV_REJECTED) ||
	    !link_place_can(place->state, event, &next, &action))
		return false;
	apply(group, place, event, now_ns);
	return true;
}

uint64_t link_group_tick(struct link_group *group, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < LINK_GROUP_MAX; i++) {
		struct link_place *place = &group->place[i];

		if (place->state != LINK_PLACE_WAITING)
			continue;
		if (now_ns - place->since_ns >= LINK_CROSS_NS)
			apply(group, place, LINK_PLACE_EV_TIME, now_ns);
		else if (place->since_ns + LINK_CROSS_NS < next)
			next = place->since_ns + LINK_CROSS_NS;
	}
	return next;
}

enum link_place_state link_group_state(const struct link_group *group, uint64_t path)
{
	const struct link_place *place = place_of(group, path);

	return place ? (enum link_place_state)place->state : LINK_PLACE_EMPTY;
}

uint32_t link_group_count(const struct link_group *group)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < LINK_GROUP_MAX; i++)
		count += group->place[i].state == LINK_PLACE_UP;
	return count;
}

bool link_group_invariant(const struct link_group *group)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < LINK_GROUP_MAX; i++) {
		const struct link_place *place = &group->place[i];

		if (place->state >= LINK_PLACE_STATE_COUNT)
			return false;
		if (place->state == LINK_PLACE_EMPTY)
			continue;
		used++;
		if (!place->attempt || place->attempt > group->attempts ||
		    place_of(group, place->path) != place)
			return false;
	}
	return used <= group->max_links;
}

const char *link_place_state_name(enum link_place_state state)
{
	static const char *const names[LINK_PLACE_STATE_COUNT] = {
		[LINK_PLACE_EMPTY] = "empty",	      [LINK_PLACE_DIALLING] = "dialling",
		[LINK_PLACE_CROSSED] = "crossed",     [LINK_PLACE_WAITING] = "waiting",
		[LINK_PLACE_ANSWERING] = "answering", [LINK_PLACE_UP] = "up",
	};

	return state < LINK_PLACE_STATE_COUNT ? names[state] : "invalid";
}

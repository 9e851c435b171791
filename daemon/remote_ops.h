/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include "coupling.h"
#include "os/fd.h"
#include "sizes.h"

/*
 * Where lanes between hosts are plugged in: server->remote, NULL if there are none. An end on such
 * a lane has end->remote set, which belongs to the implementation, and no coupling. It is called on
 * the loop's thread.
 */
struct remote_ops {
	/*
	 * @a and @b are the two ends of one connection, both here; they wait, so that their
	 * duplicates of the socket are open still. Make a lane between hosts of it all the same, as
	 * tests do. NULL: never. Reasons as coupling_begin(); behind REASON_NONE they wait no more.
	 */
	enum reason (*pair)(struct server *server, struct end *a, struct end *b);

	/* MAPPED and DRAINED of @end. */
	enum coupling_verdict (*mapped)(struct end *end, uint32_t epoch);
	enum coupling_verdict (*drained)(struct end *end, uint32_t epoch, enum reason reason);

	/* @end goes, as in coupling_leave(); it is freed behind this if @reason is not
	 * REASON_CANCELLED. */
	void (*leave)(struct end *end, enum reason reason, bool died);

	/* Ask @end to go back to TCP, for @reason. */
	void (*ask_demote)(struct end *end, enum reason reason);

	/*
	 * @end brings a running lane of @epoch along: its socket @fd (taken over in any case), and
	 * in @bag the descriptors of ADOPT. REASON_NONE, or why not.
	 */
	enum reason (*adopt)(struct end *end, uint32_t epoch, int fd, struct fd_bag *bag);

	/* Bring @totals of @end up to date with what its lane shows. NULL: they are as told. */
	void (*add_live)(const struct end *end, struct ctl_totals *totals);

	/* Add what went over all lanes that are not gone. NULL: nothing did. */
	void (*add_sizes)(struct lane_sizes *sum);

	/* Messages over the lane of @end. NULL: not known. */
	json_t *(*messages)(const struct end *end);

	/* The lane of @end, for `shunt ss`: its link and what it has sent. NULL: nothing is shown.
	 */
	json_t *(*show)(const struct end *end);
};

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "core/lane.h"
#include "sim/plan.h"

/*
 * The daemon of the host: pairs the two ends, hands out fresh halves for each epoch, and wakes both
 * sides when a process dies. It kicks their processes then; whoever sleeps here wakes by his side's
 * bell as by his kick, so that one counter stands for both. It may die itself and be succeeded.
 */

/* The halves of an epoch, kept to the end of the run. */
struct epoch {
	struct half_ctl *half[2]; /* that of side s, written by it */
	struct half_ctl *copy[2]; /* between hosts: what the other side reads of it */
	uint64_t ring_bytes[2];
};

struct daemon {
	struct epoch epoch[PLAN_EPOCHS_MAX];
	unsigned int epochs; /* begun so far */
	bool left;	     /* for good */
	unsigned int deaths; /* of processes, that it has not rung for */
};

extern struct daemon daemons;

void daemon_start(void);
void daemon_free(void);
/* A process of a side died. */
void daemon_hear_death(void);

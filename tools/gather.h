/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include "ask.h"

/*
 * Several answers of one daemon, taken one after the other: for what shows more than one of them
 * together. They are of nearly the same moment, not of exactly the same.
 */
struct gathered {
	json_t *status, *stats, *links, *peers, *devices, *connections; /* NULL: not asked for */
};

enum {
	GATHER_STATUS = 1u << 0,
	GATHER_STATS = 1u << 1,
	GATHER_LINKS = 1u << 2,
	GATHER_PEERS = 1u << 3,
	GATHER_DEVICES = 1u << 4,
	GATHER_CONNECTIONS = 1u << 5,
};

/*
 * Ask @asker, for each bit of @what. Prints nothing. 0, with answers for gathered_deinit(); or
 * -errno of ask_query(), -EPROTO for an answer that is no JSON object: nothing is left then.
 */
int gather(struct asker *asker, unsigned int what, struct gathered *ret_gathered);

/* All NULL is allowed. */
void gathered_deinit(struct gathered *gathered);

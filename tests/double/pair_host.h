/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "lib/verbs/host.h"
#include "pair.h"

/* A host with two devices, "a" and "b", and two connected ends, one on each. */
struct setting {
	struct verbs_host *host;
	struct end ends[2];
	struct end_name names[2];
};

/* Make and enter it, both devices of @personality. False: the case has failed. */
bool set_up(struct setting *s, const char *personality);
void tear_down(struct setting *s);

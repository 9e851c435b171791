/* SPDX-License-Identifier: MIT */
#pragma once

#include "gather.h"
#include "metrics_text.h"

/* What is asked of the daemon for metrics_write(). */
#define METRICS_GATHER (GATHER_STATUS | GATHER_STATS | GATHER_LINKS | GATHER_PEERS | GATHER_DEVICES)

/*
 * Write all metrics. Labels are reasons, kinds of lanes, directions, devices and peers: a bounded
 * number, none per connection. metrics_end() is the caller's.
 */
void metrics_write(struct metrics_text *text, const struct gathered *gathered);

/* The part of it about devices and other hosts (metrics_hosts.c). */
void metrics_write_hosts(struct metrics_text *text, const struct gathered *gathered);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include "config.h"
#include "loop.h"

/*
 * The RDMA devices of the host, as the daemon owns them: found at the start, followed while they
 * come, change and go. The daemon is ready to serve before any of them is.
 */

struct devices;

/*
 * Begin; what is found is logged as it comes. @loop, @conf: outlive it.
 * Returns the devices; NULL when RDMA is switched off, not built in, or can't be started at all,
 * which is logged in one line: nothing else of the daemon depends on it.
 */
struct devices *devices_start(struct loop *loop, const struct conf *conf);

/* Release every device, waiting for what is in flight; NULL is ignored. Returns NULL. */
struct devices *devices_stop(struct devices *devices);

/*
 * The answer to `shunt devices`. @devices: may be NULL. @ret_count: how many devices are in it.
 * NULL without memory.
 */
json_t *devices_json(const struct devices *devices, uint32_t *ret_count);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "loop.h"

/*
 * The RDMA devices of the host, as the daemon owns them: found at the start, followed while they
 * come, change and go. The daemon is ready to serve before any of them is.
 */

struct devices;
struct peer_rdma;

/*
 * Begin; what is found is logged as it comes. @loop, @conf: outlive it.
 * Returns the devices; NULL when RDMA is switched off, not built in, or can't be started at all,
 * which is logged in one line: nothing else of the daemon depends on it.
 */
struct devices *devices_start(struct loop *loop, const struct conf *conf);

/* Release every device, waiting for what is in flight; NULL is ignored. Returns NULL. */
struct devices *devices_stop(struct devices *devices);

/* How many there are, and how many of them are ready. @devices: may be NULL. */
void devices_count(const struct devices *devices, uint32_t *ret_all, uint32_t *ret_ready);

/* Whether the host has been looked at, and no device is still being opened or probed. @devices: may
 * be NULL: true. */
bool devices_are_settled(const struct devices *devices);

/* Whether every thread that moves data has answered since the last call; asks anew those that
 * have. @devices: may be NULL: true. */
bool devices_are_alive(struct devices *devices);

/*
 * Where links can be made: the addresses of all ports of devices that are ready, in the order of
 * the devices. @devices: may be NULL. @ret_rdma: room for @max. How many there are.
 */
size_t devices_rdma(const struct devices *devices, struct peer_rdma *ret_rdma, size_t max);

/*
 * The answer to `shunt devices`. @devices: may be NULL. @ret_count: how many devices are in it.
 * NULL without memory.
 */
json_t *devices_json(const struct devices *devices, uint32_t *ret_count);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct cm;

/*
 * Connections that are over, but whose other end can't be told now: the port is down, its address
 * is gone, or no route leads there. To destroy an id tells the other end, and on rxe a message of
 * the connection manager that finds no way out ends all of its traffic until the device is made
 * anew (drivers/infiniband/sw/rxe, rxe_req.c: the queue pair goes to ERR, and ib_mad mends only
 * SQE). So such an id is kept until a way is back, or the device goes. Only RoCE knows this:
 * InfiniBand has no route to lose, and iWARP tells by TCP.
 *
 * All on the control thread.
 */

struct cm_parked {
	struct list link; /* of the cm's parked */
	struct rdma_cm_id *id;
};

/*
 * Keep @id, connected or about to be, if no way leads to its other end. True: it is the cm's now,
 * and its events are nobody's. False: there is a way, or no memory; it stays the caller's.
 */
bool cm_park(struct cm *cm, struct rdma_cm_id *id);

/* Destroy those whose way is back. Returns how many. */
uint32_t cm_park_look(struct cm *cm);

/* Destroy all: the device goes. Also when the thread has ended. */
void cm_park_clear(struct cm *cm);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "double.h"
#include "wire.h"

struct conn;

static inline bool transport_is_iwarp(const struct dbl_qp *qp)
{
	return qp->device->p->net == NET_IWARP;
}

/*
 * Carrying out work requests. All under dbl_lock.
 */

/* All QPs: transmit, repeat, give up, flush. Returns the next deadline, 0 for none. */
uint64_t requester_run(uint64_t now_ns);

/* An answer came. */
void requester_answered(const struct wire *wire, const uint8_t *payload);

/* The QP left RTS for good, or is being destroyed: forget what is on its way. */
void requester_reset(struct dbl_qp *qp);

/* A request came; answered over @conn. */
void responder_take(struct conn *conn, const struct wire *wire, const uint8_t *payload);

/* iWARP: tell the other end that this one is over; the other end heard it. */
void transport_terminate(struct dbl_qp *qp);
void transport_terminated(const struct wire *wire);

/* Put @qp in ERR, as the hardware does by itself. Flushing follows in the engine. */
void transport_break(struct dbl_qp *qp);

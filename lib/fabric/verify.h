/* SPDX-License-Identifier: MIT */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#include "core/inline_probe.h"
#include "fabric/device.h"

/*
 * Does an inline send really work? Two queue pairs of a device are connected to each other and one
 * sends to the other, first by reference: if that fails the path is at fault, and nothing is known
 * about inline. Then inline, from memory that is not registered and with a key that is none: a
 * device that ignores the flag has to fail.
 *
 *   InfiniBand, RoCE   connected by hand, on an active port with a GID
 *   iWARP              a connection of librdmacm to the device's own address
 *
 * Nothing here spins: it sleeps between looks, so that a machine with one processor gets on.
 */

/* Each of the two messages has to have completed and arrived within this. Chosen: a thousand times
 * what a slow soft device in an emulated machine needs. */
#define VERIFY_DEADLINE_NS 2000000000ull

#define VERIFY_DETAIL_BYTES 160u

/* Two fresh queue pairs, which are good for nothing else afterwards. */
struct verify_pair {
	struct ibv_qp *sender;	 /* the one with inline */
	struct ibv_qp *receiver; /* the other */
	struct ibv_cq *cq;	 /* of both, with nothing in it */
};

struct verify_result {
	enum inline_verdict verdict;
	uint32_t bytes;			  /* size of the inline message that was judged */
	uint32_t port;			  /* that the messages went over; 0: none */
	char detail[VERIFY_DETAIL_BYTES]; /* for people: how far it came, and what failed */
};

/*
 * Connect @pair, send by reference, then @bytes inline (or what the path's packets hold, if the
 * device refuses more and takes that).
 * @ret_result: set on success.
 * Returns 0 when it came to a verdict, which may be INLINE_PATH_FAILED; -errno when something else
 * kept it from one: -ENOMEM (memory that can't be registered), -EMFILE. Blocks, at most some
 * seconds. Everything but the queue pairs is released on return.
 */
int verify_inline(const struct device *device, const struct verify_pair *pair, uint32_t bytes,
		  struct verify_result *ret_result);

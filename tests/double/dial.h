/* SPDX-License-Identifier: MIT */
#pragma once

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/child.h"
#include "lib/tap.h"

/*
 * Connections by librdmacm for tests of the double: both ends in one process and on one channel,
 * each step checked. A failed step says so and returns false.
 */
struct dial {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *active, *passive;
	struct rdma_cm_event *event; /* the last one; acknowledged with the next */
};

/*
 * A case in a process of its own: librdmacm keeps what it knows of devices as long as a process
 * lives, and so of one host only.
 */
#define DIAL_CASE(name)                                                                            \
	static void name##_in_child(void *unused);                                                 \
	TAP_CASE(name)                                                                             \
	{                                                                                          \
		child_run(CHILD_UID_SAME, name##_in_child, NULL);                                  \
	}                                                                                          \
	static void name##_in_child(void *unused __attribute__((unused)))

/* A listener at @address (and a port of its choice) on a new channel. */
bool dial_listen(struct dial *dial, const char *address);

/* Destroy all. */
void dial_end(struct dial *dial);

/* The next event is of this type; it is in @dial->event then. */
bool dial_expect(struct dial *dial, enum rdma_cm_event_type type);

/* Give back the last event: its id can't be destroyed before. */
void dial_acknowledge(struct dial *dial);

/* No event comes within @timeout_ms. */
bool dial_expect_nothing(struct dial *dial, int timeout_ms);

/* An active id, resolved from @from (or NULL) to @to and the listener's port (or @port if not 0).
 */
bool dial_resolve(struct dial *dial, const char *from, const char *to, uint16_t port);

/* QPs on both ids; the whole way to ESTABLISHED on both sides. */
bool dial_qps(struct rdma_cm_id *id);
bool dial_connect(struct dial *dial);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "fabric/gid.h"
#include "fabric/verify.h"

/*
 * The ways by which two queue pairs of one device are connected for verify_inline(). Private to it.
 */

/* Where the messages go: an active port, and the GID to use on it. */
struct verify_path {
	struct port port;
	struct gid gid; /* of IB without GRH only the port's LID counts */
};

/* A connection of librdmacm, with its ids; all zeros: none. */
struct verify_cm {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *dialer, *acceptor;
	uint64_t deadline_ns;
	char *detail; /* where to say what failed */
	const struct verify_pair *pair;
};

/*
 * Find an active port with a usable GID. Returns 0, or -ENETDOWN with the reason in @detail
 * (VERIFY_DETAIL_BYTES), or -errno.
 */
int verify_path_find(const struct device *device, struct verify_path *ret_path, char *detail);

/*
 * Connect both queue pairs of @pair to each other by hand. 0, or -errno with the reason in @detail.
 */
int verify_connect(const struct verify_pair *pair, const struct verify_path *path, char *detail);

/*
 * Connect the sender of @pair to the receiver through librdmacm, over the address of @path, which
 * must lead to the device named @name. At most twice VERIFY_DEADLINE_NS. 0, or -errno with
 * the reason in @detail. verify_cm_close() in any case.
 */
int verify_cm_connect(struct verify_cm *cm, const struct verify_pair *pair,
		      const struct verify_path *path, const char *name, char *detail);
void verify_cm_close(struct verify_cm *cm);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fabric/control.h"
#include "fabric/cq.h"
#include "fabric/device.h"
#include "fabric/qp_pool.h"
#include "lib/verbs/host.h"

/*
 * One device of the verbs double with its control thread, as the daemon has it, for tests that
 * drive the parts of lib/fabric themselves. The loop is rig_reap(), called when a test waits.
 */

/* Longest wait for something that comes at once. Chosen: a sanitizer on a busy machine is slow. */
#define RIG_WAIT_MS 20000

struct rig {
	struct verbs_host *host;
	bool owns_host;
	bool has_cm;	 /* librdmacm was used on it, and it is the host's only device */
	bool is_removed; /* by the case */
	char name[32];
	struct device *device;
	struct control control;
	struct cq_set cqs;
	struct pool_budget budget;
};

/* A host with the one device @name. False: the case has failed. */
bool rig_open(struct rig *rig, const char *name, const char *personality);

/* The device @name of @host. */
bool rig_open_on(struct rig *rig, struct verbs_host *host, const char *name);

/* Take everything down; checks that nobody holds the device any more. Pools first. */
void rig_close(struct rig *rig);

/* Wait for finished jobs, at most @timeout_ms, and call their done(). False: none came. */
bool rig_reap(struct rig *rig, int timeout_ms);

/* Reap until @cond, within RIG_WAIT_MS. */
#define RIG_AWAIT(rig, cond)                                                                       \
	do {                                                                                       \
		while (!(cond) && rig_reap(rig, RIG_WAIT_MS))                                      \
			;                                                                          \
		CHECK(cond);                                                                       \
	} while (0)

/* What queue pairs are made with in most cases. */
extern const struct qp_spec rig_spec;

/* A pool on the rig; on_refused may be NULL. */
void rig_pool(struct rig *rig, struct qp_pool *pool, uint32_t min, uint32_t max,
	      void (*on_refused)(struct qp_pool *pool));

/* Stop the pool, wait until it is quiet, destroy what it has, check that the budget is whole. */
void rig_pool_end(struct rig *rig, struct qp_pool *pool);

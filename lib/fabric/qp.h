/* SPDX-License-Identifier: MIT */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/cq.h"
#include "fabric/device.h"

/*
 * One queue pair of the kind that links use: reliable connection, on the device's own context, its
 * completions on a shared queue. Created ahead by a pool, used once, destroyed.
 *
 * Creating and destroying blocks: on the device's control thread.
 */

/* What every queue pair of a device is made with: what the probe found to work. */
struct qp_spec {
	uint32_t send_wr, recv_wr;   /* entries */
	uint32_t send_sge, recv_sge; /* of each entry */
	uint32_t inline_bytes;	     /* asked for, and what has to be granted at least */
};

struct qp {
	struct list link; /* of the pool, or of whoever has it */
	struct ibv_qp *verbs;
	struct cq *cq;
	uint32_t cq_entries;  /* admitted there */
	struct qp_spec spec;  /* what was asked for */
	uint32_t inline_max;  /* bytes that may be posted inline: never more than asked for */
	uint32_t send_wr_max; /* entries that may be posted: the same */
};

/*
 * Verdict of qp_create(): this device, which once granted @spec, refuses it now or grants less.
 * The probe must be repeated.
 */
#define QP_REFUSED 1

/*
 * Create one in state RESET. @ret_qp: the caller's until qp_destroy().
 * Returns 0, QP_REFUSED, or -errno when it failed for want of something else: -ENOMEM (memory,
 * locked memory, or queue pairs), -EPERM, -EMFILE, -ENODEV and the like.
 */
int qp_create(const struct device *device, struct cq_set *cqs, const struct qp_spec *spec,
	      struct qp **ret_qp);

/*
 * Destroy @qp, in whatever state, and free it; NULL is ignored. Returns NULL. Waits until all
 * asynchronous events about it are acknowledged. Completions of it that nobody
 * polled may be gone, or may still come: rxe and siw keep them (tests/lab/facts).
 */
struct qp *qp_destroy(struct cq_set *cqs, struct qp *qp);

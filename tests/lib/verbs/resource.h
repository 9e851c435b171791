/* SPDX-License-Identifier: MIT */
#pragma once

#include "double.h"

/*
 * Protection domains, memory regions, pinned memory, and the QPs of a process. Under dbl_lock.
 */

/* All QPs, through dbl_qp.link. */
extern struct list resource_qps;

/* The QP of that number on the device with that GUID, or NULL. */
struct dbl_qp *resource_qp(uint64_t guid, uint32_t qpn);

/* QPs of @device go to ERR. */
void resource_break_qps(struct dbl_device *device);

/*
 * The address of @length bytes at @addr by @lkey in @pd, NULL if there is no such region, it ends
 * before, or it lacks one of the rights @access. By rkey the same, for a peer.
 */
void *resource_local(struct ibv_pd *pd, uint32_t lkey, uint64_t addr, uint64_t length,
		     unsigned access);
void *resource_remote(struct ibv_pd *pd, uint32_t rkey, uint64_t addr, uint64_t length,
		      unsigned access);

/* Pin @bytes of this process for @device: 0, or ENOMEM over RLIMIT_MEMLOCK. Unpin. */
int resource_pin(const struct dbl_device *device, uint64_t bytes);
void resource_unpin(uint64_t bytes);

/* The context closes with QPs and regions in it, which the kernel takes along. */
void resource_orphan(struct dbl_context *context);

/* In a forked child: it has none of it. */
void resource_forget(void);

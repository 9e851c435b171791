/* SPDX-License-Identifier: MIT */
#pragma once

#include "double.h"

/*
 * Completion queues. Under dbl_lock.
 */

/* Add a completion, and an event if the queue is armed for it. What doesn't fit ends the queue. */
void cq_push(struct dbl_cq *cq, const struct dbl_wc *wc);

/* @qp goes: its completions that nobody has polled are taken out, or stay as nobody's. */
void cq_forget_qp(struct dbl_cq *cq, const struct dbl_qp *qp);

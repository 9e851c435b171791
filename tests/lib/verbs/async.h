/* SPDX-License-Identifier: MIT */
#pragma once

#include "double.h"

/*
 * Asynchronous events of a context. Under dbl_lock.
 */
void async_raise_device(struct dbl_context *context, enum ibv_event_type type, int port);
void async_raise_qp(struct dbl_qp *qp, enum ibv_event_type type);
void async_raise_cq(struct dbl_cq *cq);

/* Drop what nobody has read yet: of an object that is being destroyed, or all. */
void async_discard_qp(struct dbl_qp *qp);
void async_discard_cq(struct dbl_cq *cq);
void async_discard(struct dbl_context *context);

/*
 * Wait until @queue, whose length is the count of the eventfd @fd, has something. Called and
 * returns under dbl_lock. 0; else -EAGAIN (O_NONBLOCK) or -EINTR.
 */
int dbl_wait_queue(int fd, struct list *queue);

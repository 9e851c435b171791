/* SPDX-License-Identifier: MIT */
#pragma once

#include "sim/side.h"

/*
 * The calls of a program, made of lane functions and system calls as lane.h asks for. All are made
 * by a thread of the side, which may die at any step.
 */

/* One attempt without blocking: bytes; -EAGAIN, and *ret_need is what to wait for; -errno. With
 * @len 0 only what the state of the lane demands, 0 then. */
ssize_t io_send_try(struct thread *thread, size_t len, struct need *ret_need);
/* The same; 0 is EOF (or @len 0). */
ssize_t io_receive_try(struct thread *thread, size_t len, struct need *ret_need);

/* Send all: 0 or -errno. */
int io_send(struct thread *thread, size_t len);
/* Receive at least one byte, at most @len; 0 is EOF. */
ssize_t io_receive(struct thread *thread, size_t len);

/* What every wait of the library does for the lane before it sleeps. Adds to @need. 0, -errno. */
int io_maintain(struct thread *thread, struct need *need);

void io_shutdown(struct thread *thread);
/* The last process of the side closes. */
void io_close(struct thread *thread);
/* Ask both directions to end. */
void io_leave(struct thread *thread);
/* Go back to TCP for a reader that does not know the ring, within @ticks: 1 done, 0 not in time,
 * -errno it can't be done. */
int io_hand_over(struct thread *thread, uint64_t ticks);

/* Between the files of this layer. Transmit lock: do what the lane demands and say where @len bytes
 * go: TX_VIA_TCP, TX_VIA_RING, TX_VIA_WAIT, TX_VIA_BACKLOG (TCP takes no more now) or -EBADMSG. */
/* Receive lock: count the TCP bytes consumed so far. While a tail is read this must have been
 * called in the critical section in which it began: later the kernel may not know any more.
 * -ENOTCONN if nobody knows, since the connection was reset: the ring can't be reached then. */
int io_consumed(struct side *side);
int io_tx_route(struct side *side, size_t len, struct lane_plan *ret_plan);

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Bells: the eventfds that wake whoever sleeps on a lane. The daemon makes them and keeps its own
 * descriptor of each, to ring when it must.
 *
 * The holders of an eventfd share its flags and its counter, so a hostile one can make it blocking
 * and fill it up: a plain write would then stop the daemon. A full counter needs no ring (it is
 * readable already), and the time between looking and writing is covered by an interval timer
 * whose signal interrupts the write.
 */

/* Install the signal handler that bounds a ring. Once per process, before the first ring. */
void bell_guard(void);

/* A new bell, silent. The descriptor, or -errno of eventfd. */
int bell_make(void);

/* Whether @fd, passed by somebody, is an eventfd: 0, -EINVAL if not, or -errno. */
int bell_check(int fd);

/*
 * Ring @fd. Takes some 10 ms at the very most, whatever its other holders do.
 * 0, or -EINTR if a holder kept it from being rung; negative @fd is ignored.
 */
int bell_ring(int fd);

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A bell wakes whoever sleeps on a lane: a pipe of one page that is written, a byte a ring, and as
 * good as never read. Every sleeper watches it edge-triggered through an epoll of its own, so that
 * each ring wakes all of them and none can take a wake-up away from another. When it is full the
 * ringer empties it first; the byte that it writes then is an edge again.
 *
 * Each holder has an open file description of its own (bell_copy()): the flags of one are nobody
 * else's business, so that a hostile holder cannot make our write block, as it could with an
 * eventfd. Who is only to listen gets an ear (bell_ear()): it hangs up, which is an edge too, when
 * the last one who could ring has gone. Any thread, async-signal-safe, errno left alone.
 */

/* A new bell, silent. The descriptor, or -errno of pipe(2) or open(2); needs /proc. */
int bell_make(void);

/* Another open file description of the bell @fd. The descriptor, or -errno of open(2). */
int bell_copy(int fd);

/* An open file description of the bell @fd that can be watched and not rung, nor keeps the bell
 * from hanging up. The descriptor, or -errno of open(2). */
int bell_ear(int fd);

/* Whether @fd, passed by somebody, is a pipe: 0, -EINVAL if not, or -errno. */
int bell_check(int fd);

/* Ring @fd; never blocks. A negative @fd is ignored. */
void bell_ring(int fd);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The kick: one descriptor by which the daemon wakes every sleeper of this process that sleeps on a
 * lane. It is an ear of the session's bell (os/bell.h), watched edge-triggered beside the lane's
 * bell and TCP by each thread's sleeper and by the inner epoll of each set.
 *
 * It is rung when a message about a lane waits, and when a process that holds an end of one of our
 * lanes has died, perhaps between a store and the bell; it hangs up when the daemon is gone or has
 * ended the session. So whoever takes an edge of it calls session_attend() before he sleeps again,
 * and looks at his words anew.
 *
 * Each session brings a kick of its own, under the same descriptor and a new serial number. A
 * sleeper remembers the serial that it watches, and sleeps for long only if that is the present one
 * and the daemon knows our lanes (session_covers()). One that is asleep when the session ends is
 * woken by its bell: see promote_session_lost().
 */

/* The serial of the present kick; 0: there is none. */
uint32_t kick_serial(void);

/* Take over @fd as the kick of a new session. 0, or -errno with @fd closed. Session lock. */
int kick_set(int fd);

/* The session is over. Session lock. */
void kick_clear(void);

/* In a forked child: what there is is the parent's. */
void kick_forked(void);

/*
 * Have @epfd watch the present kick, tagged with @kind, whose lower 32 bits are 0, and its serial.
 * @watched: the serial that it watches, kept by the caller, 0 at first; changed to the new one if
 * that could be added. Two loads if nothing is new. What was rung before shows as an edge.
 */
void kick_watch(int epfd, uint64_t kind, uint32_t *watched);

/* Take it out again. */
void kick_unwatch(int epfd, uint32_t *watched);

/* An event of the kick tagged with @kind. */
static inline bool kick_is(uint64_t kind, uint64_t tag)
{
	return tag >> 32 == kind >> 32;
}

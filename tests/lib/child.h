/* SPDX-License-Identifier: MIT */
#pragma once

#include <sys/types.h>

/*
 * Processes of a test. Checks made in them count in the case that forked them.
 */

/* Another user, for child_run(): one that has nothing on a usual machine. Chosen. */
#define CHILD_UID_OTHER ((uid_t)54321)
#define CHILD_UID_THIRD ((uid_t)54322)
/* Stay who one is. */
#define CHILD_UID_SAME ((uid_t)-1)

/* Whether this process may become another user. */
int child_can_switch(void);

/* Fork a process that runs @fn(@arg) as @uid and then ends; its pid. */
pid_t child_start(uid_t uid, void (*fn)(void *arg), void *arg);

/* Wait for @pid, and check that it ended by itself with status 0. */
void child_finish(pid_t pid);

/* Both: run @fn(@arg) in a process of its own, as @uid. */
void child_run(uid_t uid, void (*fn)(void *arg), void *arg);

/* Descriptors that are open in this process. */
int child_count_fds(void);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "os/rundir.h"

/*
 * One daemon per user, started by the first `shunt run` that finds none: detached from the terminal
 * and from the process that starts it, found by all later ones, gone LAUNCH_IDLE_S after its last
 * client. What it logs is in LAUNCH_LOG_NAME of its runtime directory.
 */

/* Chosen: a server that was idle so long is met by a client that starts the daemon again; shorter
 * would start one for each command of a script with pauses. */
#define LAUNCH_IDLE_S 600

#define LAUNCH_LOG_NAME "shuntd.log"

/* Longest wait until a new daemon answers. Chosen: it needs milliseconds on an idle machine. */
#define LAUNCH_WAIT_MS 10000

/*
 * Make sure that a daemon answers in @dir, an own directory or one named by SHUNT_RUNTIME_DIR. Of
 * several callers at the same time one starts it, the others wait for it.
 * 0; -ENOENT, -EPERM, … when the directory can't be made or used: nobody has been told; positive:
 * it did not come up, which the user has been told.
 */
int launch_daemon(const struct rundir *dir);

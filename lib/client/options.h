/* SPDX-License-Identifier: MIT */
#pragma once

#include <sys/socket.h>

#include "core/reason.h"

/*
 * Socket options that ask for what only TCP can do.
 */

/*
 * Why a socket on which @option is set to @val can't be on a ring; REASON_NONE: it can. @val may be
 * anything, as setsockopt(2) gets it. Pure.
 */
enum reason options_pin(int level, int option, const void *val, socklen_t len);

/*
 * The same for what is in force on @fd, as far as the kernel tells: options may come from the
 * socket that accepted it, or from before it was tracked. A dozen system calls.
 */
enum reason options_in_force(int fd);

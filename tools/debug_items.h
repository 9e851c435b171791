/* SPDX-License-Identifier: MIT */
#pragma once

#include <signal.h>

#include "bundle.h"

/* Gather everything that belongs into a bug report into @bundle, as far as it is to be had. Asks
 * the daemon, calls those of other hosts as `shunt check` does, and runs commands; takes seconds,
 * or a minute on a host where much hangs. @stopped: ends early, with what is there, once it is not
 * 0. */
void debug_gather(struct bundle *bundle, const volatile sig_atomic_t *stopped);

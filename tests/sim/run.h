/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One whole connection from @seed; true if nothing was wrong, else see sched.failure. */
bool run_seed(uint64_t seed, bool trace);
void run_deinit(void);

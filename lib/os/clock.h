/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Monotonic time in nanoseconds since an arbitrary start. Any context; never fails. */
uint64_t clock_now_ns(void);
/* As clock_now_ns(), to the kernel's tick (1–10 ms), several times cheaper. */
uint64_t clock_coarse_ns(void);

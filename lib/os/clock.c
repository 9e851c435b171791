/* SPDX-License-Identifier: MIT */
#include <time.h>

#include "os/clock.h"

static uint64_t clock_read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_coarse_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC_COARSE);
}

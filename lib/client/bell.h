/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "os/sys.h"

/*
 * A bell is an eventfd that is written and never read: each write wakes every sleeper that watches
 * it edge-triggered, and none can take a wake-up away from another. It would fill after 2^64 - 2
 * rings, or by one large write of a hostile peer: then it is emptied first, which wakes too.
 */
static inline void bell_ring(int bell)
{
	uint64_t one = 1, value;

	if (bell < 0 || sys_write(bell, &one, sizeof(one)) > 0)
		return;
	sys_read(bell, &value, sizeof(value));
	sys_write(bell, &one, sizeof(one));
}

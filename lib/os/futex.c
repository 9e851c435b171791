/* SPDX-License-Identifier: MIT */
#include <linux/futex.h>

#include "os/futex.h"
#include "os/syswait.h"

#define NS_PER_S 1000000000u

int futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns)
{
	const struct timespec ts = {(time_t)(deadline_ns / NS_PER_S),
				    (long)(deadline_ns % NS_PER_S)};

	/* The bitset form takes an absolute time, so that a caller may wait again after a signal.
	 */
	return sys_futex((void *)word, FUTEX_WAIT_BITSET, expected,
			 deadline_ns == FUTEX_FOREVER ? NULL : &ts, FUTEX_BITSET_MATCH_ANY);
}

int futex_wake(_Atomic uint32_t *word, int n)
{
	return sys_futex((void *)word, FUTEX_WAKE, (uint32_t)n, NULL, 0);
}

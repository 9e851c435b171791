/* SPDX-License-Identifier: MIT */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Copies from and to memory that the program named, which may not be there: the kernel would answer
 * EFAULT. Where this library serves the program's signals (client/signal.h), a fault in such a copy
 * comes back here; elsewhere it is the program's as any other.
 */

/* Copy @len bytes. False: not all of it could be read or written. */
bool fault_copy(void *dst, const void *src, size_t len);

/*
 * From the handler of a fault: does not return if it happened in a copy of this thread.
 * @context: the handler's third argument.
 */
void fault_catch(void *context);

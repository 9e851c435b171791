/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * Waiting on a word of memory, which may be shared between processes. Any thread, errno left alone.
 */

/* A deadline that never comes. */
#define FUTEX_FOREVER UINT64_MAX

/*
 * Sleep while *@word is @expected, until a wake-up, a signal or @deadline_ns (of clock_now_ns()).
 * Returns 0 after a wake-up (which may be spurious: look at the word again), -EAGAIN when the word
 * was not @expected, -ETIMEDOUT, -EINTR.
 */
int futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);

/* Wake at most @n sleepers on @word. Returns how many were woken, or -EFAULT. Signal-safe. */
int futex_wake(_Atomic uint32_t *word, int n);

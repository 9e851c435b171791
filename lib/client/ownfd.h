/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/fdtable.h"

/*
 * The library's own descriptors, which a program that closes everything must not hit. One bit per
 * number; lock-free, async-signal-safe. Numbers from FDTABLE_SIZE on are not kept and not safe.
 */
#define OWNFD_WORD_BITS 64u

extern _Atomic uint64_t ownfd_words[FDTABLE_SIZE / OWNFD_WORD_BITS];

/* Note that @fd is the library's, or is not any more (before it is closed). Negative: nothing. */
void ownfd_add(int fd);
void ownfd_remove(int fd);

/* Move @fd to a high number (see fd_move_high()) and note it as the library's: the new number, or
 * -errno with @fd closed. A negative @fd is returned as it is. */
int ownfd_take(int fd);

/* Close what ownfd_take() gave. Negative: nothing. */
void ownfd_close(int fd);

static inline bool ownfd_is(int fd)
{
	if ((unsigned int)fd >= FDTABLE_SIZE)
		return false;
	return atomic_load_explicit(&ownfd_words[(unsigned int)fd / OWNFD_WORD_BITS],
				    memory_order_relaxed) >>
		       ((unsigned int)fd % OWNFD_WORD_BITS) &
	       1;
}

/* The lowest own descriptor at or above @from, or FDTABLE_SIZE. */
unsigned int ownfd_next(unsigned int from);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/fdtable.h"

/*
 * Descriptors that are known to be listening TCP sockets, so that what they accept need not be
 * asked. One bit per number.
 */
extern _Atomic uint64_t sockets_listening[FDTABLE_SIZE / 64];

static inline bool sockets_listens(int fd)
{
	return (unsigned int)fd < FDTABLE_SIZE &&
	       atomic_load_explicit(&sockets_listening[(unsigned int)fd / 64],
				    memory_order_relaxed) >>
			       ((unsigned int)fd % 64) &
		       1;
}

/* @fd is about to be closed. */
void sockets_forget(int fd);

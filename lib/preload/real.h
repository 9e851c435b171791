/* SPDX-License-Identifier: MIT */
#pragma once

#include "preload/libc.h"

/*
 * libc's own functions behind the ones that this library defines, for the rows of calls.def where
 * libc does more than a system call, and clone(). Looked up at the start, or at the first use if
 * that comes before the start.
 */
#define CALL(ret, name, params, args, impl)
#define ALIAS CALL
#define CHECKED CALL
#define LIBC(ret, name, params, args, impl) REAL_##name,
#define BEFORE(ret, name, params, args, impl, fail) REAL_##name,
#define BEFORE_HIDDEN BEFORE
#define HAND(ret, name, params)
#define HAND_HIDDEN HAND
enum real_name {
#include "preload/calls.def"
	REAL_clone,
	REAL_COUNT
};
#include "preload/rows_end.h"

/* Look all of them up. */
void real_init(void);

/* The address of one; NULL if this libc has none. */
void *real_get(enum real_name name);

#define real(name) ((__typeof__(&name))real_get(REAL_##name))

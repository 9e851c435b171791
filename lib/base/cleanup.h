/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdlib.h>

/*
 * Scope cleanup. A variable declared with one of these is released when its scope is left, on
 * every path; TAKE() moves the value out, so that a success path hands it on:
 *
 *	AUTO_FREE struct thing *thing = calloc(1, sizeof(*thing));
 *	…
 *	*ret_thing = TAKE(thing, NULL);
 *
 * What is not memory is released by a callback that CLEANUP_DEFINE() wraps, since this layer makes
 * no system calls: os/fd.h defines AUTO_FD with it.
 */
#define CLEANUP(fn) __attribute__((__cleanup__(fn)))

/* Define cleanup_@name(): calls @release(value) unless the value equals @empty. */
#define CLEANUP_DEFINE(name, type, empty, release)                                                 \
	static inline void cleanup_##name(type *value)                                             \
	{                                                                                          \
		if (*value != (empty))                                                             \
			release(*value);                                                           \
	}                                                                                          \
	_Static_assert(1, "")

/* The value of @var, which becomes @empty and is not released any more. */
#define TAKE(var, empty)                                                                           \
	__extension__({                                                                            \
		__typeof__(var) take_value = (var);                                                \
		(var) = (empty);                                                                   \
		take_value;                                                                        \
	})

static inline void cleanup_free(void *ptr)
{
	free(*(void **)ptr);
}

#define AUTO_FREE CLEANUP(cleanup_free)

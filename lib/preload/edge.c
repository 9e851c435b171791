/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "preload/calls.h"
#include "preload/edge.h"
#include "preload/real.h"

#define EXPORT __attribute__((visibility("default")))

long edge_result(long result)
{
	if (result >= 0 || result < -4095)
		return result;
	errno = (int)-result;
	return -1;
}

int edge_failed(int error)
{
	if (error >= 0)
		return 0;
	errno = -error;
	return 1;
}

/* A wrong prototype does not compile: what headers declare must be what the table says. */
#define AS_DECLARED(name, ret, params)                                                             \
	_Static_assert(__builtin_types_compatible_p(__typeof__(name), ret params),                 \
		       #name " is not what calls.def says");
#define SERVED(ret, name, params, args, impl)                                                      \
	EXPORT ret name params;                                                                    \
	EXPORT ret name params                                                                     \
	{                                                                                          \
		return (ret)edge_result(call_##impl args);                                         \
	}
#define CALL(ret, name, params, args, impl)                                                        \
	AS_DECLARED(name, ret, params)                                                             \
	SERVED(ret, name, params, args, impl)
#define LIBC CALL
#define ALIAS SERVED
#define CHECKED SERVED
#define BEFORE_HIDDEN(ret, name, params, args, impl, fail)                                         \
	EXPORT ret name params;                                                                    \
	EXPORT ret name params                                                                     \
	{                                                                                          \
		if (edge_failed(before_##impl args))                                               \
			return fail;                                                               \
		return real(name) args;                                                            \
	}
#define BEFORE(ret, name, params, args, impl, fail)                                                \
	AS_DECLARED(name, ret, params)                                                             \
	BEFORE_HIDDEN(ret, name, params, args, impl, fail)
#define HAND(ret, name, params) AS_DECLARED(name, ret, params)
#define HAND_HIDDEN(ret, name, params)
#include "preload/calls.def"
#include "preload/rows_end.h"

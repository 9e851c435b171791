/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdatomic.h>

#include "preload/real.h"

#define CALL(ret, name, params, args, impl)
#define ALIAS CALL
#define CHECKED CALL
#define LIBC(ret, name, params, args, impl) [REAL_##name] = #name,
#define BEFORE(ret, name, params, args, impl, fail) [REAL_##name] = #name,
#define BEFORE_HIDDEN BEFORE
#define HAND(ret, name, params)
#define HAND_HIDDEN HAND
static const char *const names[REAL_COUNT] = {
#include "preload/calls.def"
	[REAL_clone] = "clone",
};
#include "preload/rows_end.h"

static _Atomic(void *) found[REAL_COUNT];

void *real_get(enum real_name name)
{
	void *at = atomic_load_explicit(&found[name], memory_order_acquire);

	if (!at) {
		at = dlsym(RTLD_NEXT, names[name]);
		atomic_store_explicit(&found[name], at, memory_order_release);
	}
	return at;
}

void real_init(void)
{
	for (int i = 0; i < REAL_COUNT; i++)
		real_get((enum real_name)i);
}

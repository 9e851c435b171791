/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "sim/fiber.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(FIBER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN(...) __VA_ARGS__
#else
#define ASAN(...)
#endif

/* Room for the deepest path under the sanitizers, whose frames are large. Chosen. */
#define STACK_BYTES (256u << 10)

static jmp_buf resumer;
static struct fiber *starting;
ASAN(static const void *resumer_stack; static size_t resumer_bytes; static void *resumer_fake;)

void fiber_init(struct fiber *fiber, void (*fn)(void *arg), void *arg)
{
	char *stack = fiber->stack;

	if (!stack) {
		stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (stack == MAP_FAILED)
			abort();
	}
	/* Frames that were left standing when the last user of this stack died. */
	ASAN(__asan_unpoison_memory_region(stack, STACK_BYTES);)
	*fiber = (struct fiber){.stack = stack, .fn = fn, .arg = arg};
}

void fiber_deinit(struct fiber *fiber)
{
	if (fiber->stack)
		munmap(fiber->stack, STACK_BYTES);
	fiber->stack = NULL;
}

static void fiber_main(void)
{
	struct fiber *self = starting;

	ASAN(__sanitizer_finish_switch_fiber(NULL, &resumer_stack, &resumer_bytes);)
	self->fn(self->arg);
	self->done = true;
	ASAN(__sanitizer_start_switch_fiber(NULL, resumer_stack, resumer_bytes);)
	_longjmp(resumer, 1);
}

static void fiber_start(struct fiber *fiber)
{
	ucontext_t context;

	fiber->started = true;
	starting = fiber;
	getcontext(&context);
	context.uc_stack.ss_sp = fiber->stack;
	context.uc_stack.ss_size = STACK_BYTES;
	context.uc_link = NULL;
	makecontext(&context, fiber_main, 0);
	setcontext(&context);
}

void fiber_resume(struct fiber *fiber)
{
	ASAN(__sanitizer_start_switch_fiber(&resumer_fake, fiber->stack, STACK_BYTES);)
	if (!_setjmp(resumer)) {
		if (fiber->started)
			_longjmp(fiber->here, 1);
		fiber_start(fiber);
	}
	ASAN(__sanitizer_finish_switch_fiber(resumer_fake, NULL, NULL);)
}

void fiber_yield(struct fiber *fiber)
{
	ASAN(void *fake; __sanitizer_start_switch_fiber(&fake, resumer_stack, resumer_bytes);)
	if (!_setjmp(fiber->here))
		_longjmp(resumer, 1);
	ASAN(__sanitizer_finish_switch_fiber(fake, &resumer_stack, &resumer_bytes);)
}

/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <sys/mman.h>

#include "sim/fiber.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif

/* Room for the deepest path under the sanitizers, whose frames are large. Chosen. */
#define STACK_BYTES (256u << 10)

static struct fiber *starting;

/*
 * A switch is a longjmp, which costs a tenth of swapcontext() since it asks the kernel for nothing.
 * AddressSanitizer takes a longjmp for the end of the frames that it leaves, and is told of every
 * switch instead.
 */
#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static ucontext_t resumer;
static const void *resumer_stack;
static size_t resumer_bytes;

/* Frames that were left standing when the last user of this stack died. */
static void stack_renew(char *stack)
{
	__asan_unpoison_memory_region(stack, STACK_BYTES);
}

static void entered(void *fake)
{
	__sanitizer_finish_switch_fiber(fake, &resumer_stack, &resumer_bytes);
}

static void leave(struct fiber *fiber)
{
	void *fake = NULL;

	__sanitizer_start_switch_fiber(fiber->done ? NULL : &fake, resumer_stack, resumer_bytes);
	swapcontext(&fiber->context, &resumer);
	entered(fake);
}

static void enter(struct fiber *fiber)
{
	void *fake = NULL;

	__sanitizer_start_switch_fiber(&fake, fiber->stack, STACK_BYTES);
	swapcontext(&resumer, &fiber->context);
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
}
#else
static jmp_buf resumer;

static void stack_renew(char *stack)
{
	(void)stack;
}

static void entered(void *fake)
{
	(void)fake;
}

static void leave(struct fiber *fiber)
{
	if (!_setjmp(fiber->here))
		_longjmp(resumer, 1);
}

static void enter(struct fiber *fiber)
{
	if (_setjmp(resumer))
		return;
	if (fiber->started)
		_longjmp(fiber->here, 1);
	fiber->started = true;
	setcontext(&fiber->context);
}
#endif

static void fiber_main(void)
{
	struct fiber *self = starting;

	entered(NULL);
	self->fn(self->arg);
	self->done = true;
	leave(self);
}

static char *stack_new(void)
{
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (stack == MAP_FAILED)
		abort();
	return stack;
}

void fiber_init(struct fiber *fiber, void (*fn)(void *arg), void *arg)
{
	if (!fiber->stack)
		fiber->stack = stack_new();
	stack_renew(fiber->stack);
	fiber->fn = fn;
	fiber->arg = arg;
	fiber->started = fiber->done = false;
	getcontext(&fiber->context);
	fiber->context.uc_stack.ss_sp = fiber->stack;
	fiber->context.uc_stack.ss_size = STACK_BYTES;
	fiber->context.uc_link = NULL;
	makecontext(&fiber->context, fiber_main, 0);
}

void fiber_deinit(struct fiber *fiber)
{
	if (fiber->stack)
		munmap(fiber->stack, STACK_BYTES);
	fiber->stack = NULL;
}

void fiber_resume(struct fiber *fiber)
{
	starting = fiber;
	enter(fiber);
}

void fiber_yield(struct fiber *fiber)
{
	leave(fiber);
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

/*
 * Coroutines: a simulated thread runs ordinary blocking code on a stack of its own and gives way
 * wherever it likes; one that is never resumed has died on the spot.
 */
struct fiber {
	ucontext_t context; /* where it begins */
	jmp_buf here;	    /* where it stands */
	char *stack;
	void (*fn)(void *arg);
	void *arg;
	bool started, done;
};

/* The stack is kept for the next use of the same fiber. */
void fiber_init(struct fiber *fiber, void (*fn)(void *arg), void *arg);
void fiber_deinit(struct fiber *fiber);

/* Run @fiber until it yields or ends. Not from inside a fiber. */
void fiber_resume(struct fiber *fiber);

/* Give way to the caller of fiber_resume(). Only inside the fiber. */
void fiber_yield(struct fiber *fiber);

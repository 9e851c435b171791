/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Timers of the event loop: an intrusive pairing heap, so that setting one allocates nothing and
 * can not fail. Each registered end that waits has one; the common case is that it is cleared.
 */
struct timer {
	uint64_t due_ns;
	void (*fn)(struct timer *timer);
	/* Heap: first child, next sibling, and the previous sibling or the parent. */
	struct timer *child, *next, *prev;
	bool is_set;
};

struct timer_heap {
	struct timer *root;
};

/* Prepare @timer, unset, to call @fn from the loop when due. */
void timer_init(struct timer *timer, void (*fn)(struct timer *timer));

/* (Re)set @timer of @heap to @due_ns, monotonic nanoseconds. Never fails. */
void timer_set(struct timer_heap *heap, struct timer *timer, uint64_t due_ns);

/* Unset @timer of @heap; harmless if it is not set. Its object may be freed then. */
void timer_clear(struct timer_heap *heap, struct timer *timer);

/* The timer of @heap that is due first, or NULL. */
static inline struct timer *timer_first(const struct timer_heap *heap)
{
	return heap->root;
}

/* SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "timer.h"

/* Join two heaps; the later root becomes the first child of the earlier one. */
static struct timer *meld(struct timer *a, struct timer *b)
{
	struct timer *swap;

	if (!a || !b)
		return a ? a : b;
	if (b->due_ns < a->due_ns) {
		swap = a;
		a = b;
		b = swap;
	}
	b->prev = a;
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	a->child = b;
	return a;
}

/*
 * Make one heap of the siblings from @list on: meld pairs from left to right, then the results
 * from right to left. Iterative, since the list may be as long as there are timers.
 */
static struct timer *meld_siblings(struct timer *list)
{
	struct timer *pairs = NULL, *heap = NULL;

	while (list) {
		struct timer *a = list, *b = list->next;

		list = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct timer *next = pairs->next;

		pairs->next = NULL;
		heap = meld(heap, pairs);
		pairs = next;
	}
	if (heap)
		heap->next = heap->prev = NULL;
	return heap;
}

void timer_init(struct timer *timer, void (*fn)(struct timer *timer))
{
	*timer = (struct timer){.fn = fn};
}

void timer_set(struct timer_heap *heap, struct timer *timer, uint64_t due_ns)
{
	timer_clear(heap, timer);
	timer->due_ns = due_ns;
	timer->is_set = true;
	heap->root = meld(heap->root, timer);
}

void timer_clear(struct timer_heap *heap, struct timer *timer)
{
	struct timer *below;

	if (!timer->is_set)
		return;
	below = meld_siblings(timer->child);
	if (timer == heap->root) {
		heap->root = below;
	} else {
		if (timer->prev->child == timer)
			timer->prev->child = timer->next;
		else
			timer->prev->next = timer->next;
		if (timer->next)
			timer->next->prev = timer->prev;
		heap->root = meld(heap->root, below);
	}
	timer->child = timer->next = timer->prev = NULL;
	timer->is_set = false;
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/util.h"

/*
 * Intrusive doubly linked list, circular through its head. A node that is on no list points to
 * itself, so that unlinking twice is harmless and list_is_linked() can tell.
 */
struct list {
	struct list *prev, *next;
};

#define LIST_INIT(name)                                                                            \
	{                                                                                          \
		&(name), &(name)                                                                   \
	}

static inline void list_init(struct list *node)
{
	node->prev = node->next = node;
}

static inline bool list_is_empty(const struct list *head)
{
	return head->next == head;
}

static inline bool list_is_linked(const struct list *node)
{
	return node->next != node;
}

/* Insert the unlinked @node before @at; with a head as @at that is the tail of the list. */
static inline void list_add_before(struct list *at, struct list *node)
{
	node->prev = at->prev;
	node->next = at;
	at->prev->next = node;
	at->prev = node;
}

static inline void list_push_back(struct list *head, struct list *node)
{
	list_add_before(head, node);
}

static inline void list_push_front(struct list *head, struct list *node)
{
	list_add_before(head->next, node);
}

static inline void list_unlink(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* The first node, or NULL. */
static inline struct list *list_first(const struct list *head)
{
	return list_is_empty(head) ? NULL : head->next;
}

/* Unlink and return the first node, or NULL. */
static inline struct list *list_pop_front(struct list *head)
{
	struct list *node = list_first(head);

	if (node)
		list_unlink(node);
	return node;
}

/* The object that holds @node as its member @member. */
#define list_entry(node, type, member) container_of(node, type, member)

/* @node (struct list *) runs over the list at @head, which must not change under way. */
#define list_for_each(node, head)                                                                  \
	for ((node) = (head)->next; (node) != (head); (node) = (node)->next)

/* As list_for_each(), but @node itself may be unlinked or freed; @tmp keeps the next one. */
#define list_for_each_safe(node, tmp, head)                                                        \
	for ((node) = (head)->next, (tmp) = (node)->next; (node) != (head);                        \
	     (node) = (tmp), (tmp) = (node)->next)

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Intrusive hash table, chained, for the daemon's own lookups. Keys come from clients, so hashes
 * are keyed with a random word: nobody can aim at one chain. Growing is attempted and may fail
 * without harm (longer chains); nothing else allocates.
 */
struct table_node {
	struct table_node *next, **prev; /* prev NULL: in no table */
	uint64_t hash;
};

struct table {
	struct table_node **buckets;
	size_t size; /* a power of two */
	size_t count;
	uint64_t key;
};

/* Make an empty table with hash key @key (random). 0, or -ENOMEM. */
int table_init(struct table *table, uint64_t key);

/* Release it; it must be empty (asserted). */
void table_deinit(struct table *table);

/* Hash of @len bytes at @bytes for @table. */
uint64_t table_hash(const struct table *table, const void *bytes, size_t len);

/* Insert @node, which is in no table, under @hash. Never fails. */
void table_insert(struct table *table, struct table_node *node, uint64_t hash);

/* Take @node out; harmless if it is in no table. */
void table_remove(struct table *table, struct table_node *node);

/* First node with @hash, and the next one after @node with the same hash; NULL at the end. */
struct table_node *table_find(const struct table *table, uint64_t hash);
struct table_node *table_find_next(const struct table_node *node);

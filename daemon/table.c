/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "table.h"

#define TABLE_FIRST_SIZE 64u

static uint64_t mix(uint64_t value)
{
	value ^= value >> 32;
	value *= 0xd6e8feb86659fd93u;
	value ^= value >> 32;
	value *= 0xd6e8feb86659fd93u;
	value ^= value >> 32;
	return value;
}

int table_init(struct table *table, uint64_t key)
{
	struct table_node **buckets = calloc(TABLE_FIRST_SIZE, sizeof(*buckets));

	if (!buckets)
		return -ENOMEM;
	*table = (struct table){.buckets = buckets, .size = TABLE_FIRST_SIZE, .key = key};
	return 0;
}

void table_deinit(struct table *table)
{
	assert(table->count == 0);
	free(table->buckets);
	table->buckets = NULL;
}

uint64_t table_hash(const struct table *table, const void *bytes, size_t len)
{
	const unsigned char *at = bytes;
	uint64_t hash = mix(table->key + len), word;

	while (len > 0) {
		size_t part = len < sizeof(word) ? len : sizeof(word);

		word = 0;
		memcpy(&word, at, part);
		hash = mix(hash ^ word ^ table->key);
		at += part;
		len -= part;
	}
	return hash;
}

static void link_node(struct table *table, struct table_node *node)
{
	struct table_node **bucket = &table->buckets[node->hash & (table->size - 1)];

	node->next = *bucket;
	node->prev = bucket;
	if (node->next)
		node->next->prev = &node->next;
	*bucket = node;
}

static void grow(struct table *table)
{
	struct table_node **old = table->buckets, **buckets;
	size_t old_size = table->size;

	buckets = calloc(old_size * 2, sizeof(*buckets));
	if (!buckets)
		return;
	table->buckets = buckets;
	table->size = old_size * 2;
	for (size_t i = 0; i < old_size; i++) {
		struct table_node *next;

		for (struct table_node *node = old[i]; node; node = next) {
			next = node->next;
			link_node(table, node);
		}
	}
	free(old);
}

void table_insert(struct table *table, struct table_node *node, uint64_t hash)
{
	assert(!node->prev);
	if (table->count >= table->size)
		grow(table);
	node->hash = hash;
	link_node(table, node);
	table->count++;
}

void table_remove(struct table *table, struct table_node *node)
{
	if (!node->prev)
		return;
	*node->prev = node->next;
	if (node->next)
		node->next->prev = node->prev;
	node->next = NULL;
	node->prev = NULL;
	table->count--;
}

struct table_node *table_find(const struct table *table, uint64_t hash)
{
	struct table_node *node = table->buckets[hash & (table->size - 1)];

	while (node && node->hash != hash)
		node = node->next;
	return node;
}

struct table_node *table_find_next(const struct table_node *node)
{
	uint64_t hash = node->hash;

	do
		node = node->next;
	while (node && node->hash != hash);
	return (struct table_node *)node;
}

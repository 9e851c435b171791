/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Hash map from a number, or from a string of bytes, to a pointer that is not NULL. Open addressing
 * with linear probing; a removed entry leaves a tombstone until the next growth, so that entries
 * may be removed while one walks the map. The hash is keyed: with a secret seed, whoever chooses
 * keys can't choose collisions.
 *
 * A byte-string key is not copied: it lives with the value, unchanged while it is in the map. One
 * map takes one kind of key. Not thread-safe. Allocates when it grows.
 */
struct map_slot {
	uint64_t hash; /* of the key; says nothing while value is NULL */
	union {
		uint64_t num;
		const void *bytes;
	} key;
	size_t key_bytes;
	void *value; /* NULL: never used; MAP_TOMB: removed */
};

struct map {
	struct map_slot *slots;
	size_t n_slots; /* 0, or a power of two */
	size_t n_used;	/* entries */
	size_t n_tombs;
	uint64_t seed[2];
};

/* An empty map, without memory yet. @seed: random where strangers choose the keys. */
void map_init(struct map *map, uint64_t seed);
/* Free the map's memory (not the values); it is empty and may be used again. */
void map_deinit(struct map *map);

static inline size_t map_count(const struct map *map)
{
	return map->n_used;
}

/* Add: 0; -EEXIST when the key is there already; -ENOMEM. */
int map_put(struct map *map, uint64_t key, void *value);
int map_put_bytes(struct map *map, const void *key, size_t len, void *value);

/* The value, or NULL. */
void *map_get(const struct map *map, uint64_t key);
void *map_get_bytes(const struct map *map, const void *key, size_t len);

/* Remove: the value, or NULL if the key was not there. */
void *map_del(struct map *map, uint64_t key);
void *map_del_bytes(struct map *map, const void *key, size_t len);

/*
 * Walk: the next value at or behind *@cursor (0 at first), or NULL at the end. Entries may be
 * removed under way, any of them; one that is added may be missed, or others seen twice.
 */
void *map_next(const struct map *map, size_t *cursor);

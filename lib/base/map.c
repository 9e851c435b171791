/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/prng.h"

#define MAP_SLOTS_MIN 16u

static char map_tomb;
#define MAP_TOMB ((void *)&map_tomb)

/* What is looked for: a slot without a value. */
struct map_key {
	uint64_t hash;
	const void *bytes; /* NULL: a number */
	uint64_t num;	   /* or the length */
};

static inline uint64_t rotl(uint64_t v, unsigned int n)
{
	return v << n | v >> (64 - n);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

/* SipHash-1-3: one round per word, three at the end; enough for hash tables (Aumasson and
 * Bernstein, and what several language runtimes use). */
static uint64_t sip_hash(const uint64_t seed[2], const uint8_t *data, size_t len)
{
	uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
			 seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
	uint64_t last = (uint64_t)len << 56;
	uint64_t word;

	for (; len >= sizeof(word); data += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, data, sizeof(word));
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	for (size_t i = 0; i < len; i++)
		last |= (uint64_t)data[i] << (8 * i);
	v[3] ^= last;
	sip_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static struct map_key map_key_num(const struct map *map, uint64_t num)
{
	return (struct map_key){sip_hash(map->seed, (const uint8_t *)&num, sizeof(num)), NULL, num};
}

static struct map_key map_key_bytes(const struct map *map, const void *key, size_t len)
{
	return (struct map_key){sip_hash(map->seed, key, len), key, len};
}

void map_init(struct map *map, uint64_t seed)
{
	struct prng prng;

	prng_init(&prng, seed);
	*map = (struct map){.seed = {prng_next(&prng), prng_next(&prng)}};
}

void map_deinit(struct map *map)
{
	free(map->slots);
	map->slots = NULL;
	map->n_slots = map->n_used = map->n_tombs = 0;
}

static bool map_slot_is(const struct map_slot *slot, const struct map_key *key)
{
	if (slot->value == MAP_TOMB || slot->hash != key->hash)
		return false;
	if (!key->bytes)
		return slot->key.num == key->num;
	return slot->key_bytes == key->num && memcmp(slot->key.bytes, key->bytes, key->num) == 0;
}

/* The slot of @key, or NULL. Ends because a map is never full. */
static struct map_slot *map_find(const struct map *map, const struct map_key *key)
{
	if (map->n_slots == 0)
		return NULL;
	for (size_t i = key->hash;; i++) {
		struct map_slot *slot = &map->slots[i & (map->n_slots - 1)];

		if (!slot->value)
			return NULL;
		if (map_slot_is(slot, key))
			return slot;
	}
}

/* The first slot for @hash that holds no entry. */
static struct map_slot *map_find_free(const struct map *map, uint64_t hash)
{
	for (size_t i = hash;; i++) {
		struct map_slot *slot = &map->slots[i & (map->n_slots - 1)];

		if (!slot->value || slot->value == MAP_TOMB)
			return slot;
	}
}

/* Make room for one more: at most three quarters of the slots are ever taken, tombs included. */
static int map_reserve(struct map *map)
{
	struct map grown = *map;

	if ((map->n_used + map->n_tombs + 1) * 4 <= map->n_slots * 3)
		return 0;
	/* Tombs alone are no reason to grow: then the entries fill less than half. */
	if (map->n_slots == 0)
		grown.n_slots = MAP_SLOTS_MIN;
	else if ((map->n_used + 1) * 2 > map->n_slots)
		grown.n_slots *= 2;
	grown.slots = calloc(grown.n_slots, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	grown.n_tombs = 0;
	for (size_t i = 0; i < map->n_slots; i++)
		if (map->slots[i].value && map->slots[i].value != MAP_TOMB)
			*map_find_free(&grown, map->slots[i].hash) = map->slots[i];
	free(map->slots);
	*map = grown;
	return 0;
}

static int map_add(struct map *map, const struct map_key *key, void *value)
{
	struct map_slot *slot;
	int ret;

	assert(value);
	if (map_find(map, key))
		return -EEXIST;
	ret = map_reserve(map);
	if (ret < 0)
		return ret;
	slot = map_find_free(map, key->hash);
	if (slot->value == MAP_TOMB)
		map->n_tombs--;
	slot->hash = key->hash;
	slot->value = value;
	if (key->bytes) {
		slot->key.bytes = key->bytes;
		slot->key_bytes = key->num;
	} else {
		slot->key.num = key->num;
		slot->key_bytes = sizeof(key->num);
	}
	map->n_used++;
	return 0;
}

static void *map_remove(struct map *map, const struct map_key *key)
{
	struct map_slot *slot = map_find(map, key);
	void *value;

	if (!slot)
		return NULL;
	value = slot->value;
	slot->value = MAP_TOMB;
	map->n_used--;
	map->n_tombs++;
	return value;
}

int map_put(struct map *map, uint64_t key, void *value)
{
	struct map_key k = map_key_num(map, key);

	return map_add(map, &k, value);
}

int map_put_bytes(struct map *map, const void *key, size_t len, void *value)
{
	struct map_key k = map_key_bytes(map, key, len);

	return map_add(map, &k, value);
}

void *map_get(const struct map *map, uint64_t key)
{
	struct map_key k = map_key_num(map, key);
	struct map_slot *slot = map_find(map, &k);

	return slot ? slot->value : NULL;
}

void *map_get_bytes(const struct map *map, const void *key, size_t len)
{
	struct map_key k = map_key_bytes(map, key, len);
	struct map_slot *slot = map_find(map, &k);

	return slot ? slot->value : NULL;
}

void *map_del(struct map *map, uint64_t key)
{
	struct map_key k = map_key_num(map, key);

	return map_remove(map, &k);
}

void *map_del_bytes(struct map *map, const void *key, size_t len)
{
	struct map_key k = map_key_bytes(map, key, len);

	return map_remove(map, &k);
}

void *map_next(const struct map *map, size_t *cursor)
{
	while (*cursor < map->n_slots) {
		struct map_slot *slot = &map->slots[(*cursor)++];

		if (slot->value && slot->value != MAP_TOMB)
			return slot->value;
	}
	return NULL;
}

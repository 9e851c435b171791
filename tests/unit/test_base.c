/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/map.h"
#include "base/prng.h"
#include "base/util.h"

#include "lib/tap.h"

struct item {
	int value;
	struct list node;
};

TAP_CASE(util_arithmetic)
{
	int array[7];

	CHECK_EQ(ARRAY_SIZE(array), 7);
	CHECK_EQ(u64_min(3, UINT64_MAX), 3);
	CHECK(u64_max(3, UINT64_MAX) == UINT64_MAX);
	CHECK(!u64_is_pow2(0) && u64_is_pow2(1) && !u64_is_pow2(3) && u64_is_pow2(1ull << 63));
	CHECK_EQ(u64_align_down(4097, 4096), 4096);
	CHECK_EQ(u64_align_up(4097, 4096), 8192);
	CHECK_EQ(u64_align_up(4096, 4096), 4096);
	CHECK_EQ(u64_align_up(0, 4096), 0);
}

static int released;

static void release_number(int number)
{
	released = number;
}

CLEANUP_DEFINE(number, int, -1, release_number);

static int hand_on(void)
{
	CLEANUP(cleanup_number) int kept = 7;

	return TAKE(kept, -1);
}

TAP_CASE(cleanup_releases_what_was_not_taken)
{
	released = 0;
	CHECK_EQ(hand_on(), 7);
	CHECK_EQ(released, 0);
	{
		CLEANUP(cleanup_number) int dropped = 9;

		CHECK_EQ(dropped, 9);
	}
	CHECK_EQ(released, 9);
	{
		AUTO_FREE char *memory = malloc(16);
		AUTO_FREE char *none = NULL;

		CHECK(memory && !none); /* the leak checker sees the rest */
	}
}

TAP_CASE(list_keeps_order)
{
	struct item items[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
	struct list head = LIST_INIT(head);
	struct list *node, *tmp;
	int sum = 0, last = -1;

	CHECK(list_is_empty(&head) && !list_first(&head) && !list_pop_front(&head));
	for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
		list_init(&items[i].node);
		CHECK(!list_is_linked(&items[i].node));
	}
	list_push_back(&head, &items[2].node);
	list_push_front(&head, &items[0].node);
	list_push_back(&head, &items[3].node);
	list_add_before(&items[2].node, &items[1].node);
	list_for_each (node, &head) {
		CHECK_EQ(list_entry(node, struct item, node)->value, last + 1);
		last++;
	}
	CHECK_EQ(last, 3);
	list_for_each_safe (node, tmp, &head) {
		struct item *item = list_entry(node, struct item, node);

		if (item->value % 2)
			list_unlink(node);
		sum += item->value;
	}
	CHECK_EQ(sum, 6);
	list_unlink(&items[1].node); /* twice is harmless */
	CHECK(list_pop_front(&head) == &items[0].node);
	CHECK(list_pop_front(&head) == &items[2].node);
	CHECK(list_is_empty(&head));
}

/* Against a plain array of what should be in it. */
#define MODEL_KEYS 512u

TAP_CASE(map_agrees_with_model)
{
	int present[MODEL_KEYS] = {0};
	size_t count = 0;
	struct prng prng;
	struct map map;

	prng_init(&prng, 1);
	map_init(&map, 42);
	CHECK(!map_get(&map, 1) && !map_del(&map, 1));
	for (unsigned int step = 0; step < 200000; step++) {
		/* Phases of growth and of decline, so that tombstones pile up. */
		unsigned int add_pct = step / 20000 % 2 ? 20 : 70;
		size_t key = prng_below(&prng, MODEL_KEYS);
		int was = present[key];

		if (prng_chance(&prng, add_pct)) {
			if (map_put(&map, key, &present[key]) != (was ? -EEXIST : 0))
				break;
			present[key] = 1;
			count += !was;
		} else {
			if (map_del(&map, key) != (was ? &present[key] : NULL))
				break;
			present[key] = 0;
			count -= was;
		}
		key = prng_below(&prng, MODEL_KEYS);
		if (map_get(&map, key) != (present[key] ? &present[key] : NULL) ||
		    map_count(&map) != count)
			break;
		if (step == 199999)
			CHECK(true);
	}
	CHECK_EQ(map_count(&map), count);
	for (size_t key = 0; key < MODEL_KEYS; key++)
		CHECK(map_get(&map, key) == (present[key] ? &present[key] : NULL));
	/* Entries that come and go do not make it grow for ever. */
	CHECK(map.n_slots <= 4 * MODEL_KEYS);
	map_deinit(&map);
}

TAP_CASE(map_entries_may_go_while_walking)
{
	int values[300];
	size_t cursor = 0, seen = 0;
	struct map map;
	int *value;

	map_init(&map, 7);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		values[i] = (int)i;
		CHECK_EQ(map_put(&map, i, &values[i]), 0);
	}
	while ((value = map_next(&map, &cursor))) {
		seen++;
		CHECK(map_del(&map, (uint64_t)*value) == value);
	}
	CHECK_EQ(seen, ARRAY_SIZE(values));
	CHECK_EQ(map_count(&map), 0);
	map_deinit(&map);
}

TAP_CASE(map_of_byte_strings)
{
	static const char *const keys[] = {"", "a", "b", "ab", "abcdefgh", "abcdefghi", "abcdefgi"};
	char copy[16];
	struct map map;

	map_init(&map, 3);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		CHECK_EQ(map_put_bytes(&map, keys[i], strlen(keys[i]), (void *)keys[i]), 0);
		CHECK_EQ(map_put_bytes(&map, keys[i], strlen(keys[i]), (void *)keys[i]), -EEXIST);
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		strcpy(copy, keys[i]);
		CHECK(map_get_bytes(&map, copy, strlen(copy)) == keys[i]);
	}
	CHECK(!map_get_bytes(&map, "abc", 3));
	CHECK(map_del_bytes(&map, "ab", 2) == keys[3]);
	CHECK(!map_get_bytes(&map, "ab", 2) && map_get_bytes(&map, "a", 1) == keys[1]);
	CHECK_EQ(map_count(&map), ARRAY_SIZE(keys) - 1);
	map_deinit(&map);
	CHECK(!map_get_bytes(&map, "a", 1));
}

TAP_CASE(prng_is_the_published_one)
{
	struct prng prng;
	unsigned int hits = 0;

	/* splitmix64 with seed 1234567, from its author's reference code. */
	prng_init(&prng, 1234567);
	CHECK(prng_next(&prng) == 6457827717110365317u);
	CHECK(prng_next(&prng) == 3203168211198807973u);
	for (int i = 0; i < 10000; i++) {
		CHECK(prng_below(&prng, 10) < 10);
		hits += prng_chance(&prng, 30) != 0;
	}
	CHECK(hits > 2700 && hits < 3300);
}

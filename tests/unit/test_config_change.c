/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "config_change.h"
#include "config_key.h"

#include "lib/tap.h"

/* What was told, in order. */
struct told {
	struct conf_change changes[8];
	size_t n;
};

static void keep(void *ctx, const struct conf_change *change)
{
	struct told *told = ctx;

	if (told->n < sizeof(told->changes) / sizeof(told->changes[0]))
		told->changes[told->n] = *change;
	told->n++;
}

TAP_CASE(the_same_settings_change_nothing)
{
	struct told told = {.n = 0};
	struct conf config, next;

	conf_init(&config);
	conf_init(&next);
	CHECK_EQ(conf_change(&config, &next, keep, &told), 0);
	CHECK_EQ(told.n, 0);
}

TAP_CASE(what_may_change_is_taken_over_and_told)
{
	struct told told = {.n = 0};
	struct conf config, next;

	conf_init(&config);
	conf_init(&next);
	next.spin_us = 7;
	next.pair_wait_ms = 1234;
	next.log_level = 3;
	CHECK_EQ(conf_change(&config, &next, keep, &told), 3);
	CHECK_EQ(told.n, 3);
	CHECK_EQ(config.spin_us, 7);
	CHECK_EQ(config.pair_wait_ms, 1234);
	CHECK_EQ(config.log_level, 3);
	CHECK_STR(told.changes[0].name, "spin_us");
	CHECK_STR(told.changes[0].before, "50");
	CHECK_STR(told.changes[0].after, "7");
	CHECK_STR(told.changes[0].unit, "microseconds");
	CHECK_EQ(told.changes[0].applies, KEY_APPLIES_TO_NEW);
	CHECK_STR(told.changes[1].name, "pair_wait_ms");
	CHECK_EQ(told.changes[1].applies, KEY_APPLIES_NOW);
	CHECK_STR(told.changes[2].before, "info");
	CHECK_STR(told.changes[2].after, "debug");
	CHECK_EQ(conf_change(&config, &next, keep, &told), 0);
}

TAP_CASE(what_is_read_at_the_start_only_stays_and_is_told)
{
	struct told told = {.n = 0};
	struct conf config, next;

	conf_init(&config);
	conf_init(&next);
	next.ring_bytes = 8192;
	strcpy(next.peer_listen, "10.0.0.1");
	CHECK_EQ(conf_change(&config, &next, keep, &told), 2);
	CHECK_EQ(config.ring_bytes, 256 * 1024);
	CHECK_STR(config.peer_listen, "");
	CHECK_STR(told.changes[0].name, "ring_bytes");
	CHECK_EQ(told.changes[0].applies, KEY_APPLIES_AT_START);
	CHECK_STR(told.changes[1].name, "peer_listen");
	CHECK_STR(told.changes[1].after, "10.0.0.1");
	/* It is told each time, for it holds still. */
	CHECK_EQ(conf_change(&config, &next, keep, &told), 2);
}

/* A section is told of by its name; what runs points into it. */
TAP_CASE(rules_hold_at_once)
{
	struct told told = {.n = 0};
	static struct conf config, next;

	conf_init(&config);
	conf_init(&next);
	next.rules.n = 1;
	next.rules.rules[0] = (struct rule){.has = RULE_KEY_ACTION, .action = RULE_TCP};
	CHECK_EQ(conf_change(&config, &next, keep, &told), 1);
	CHECK_STR(told.changes[0].name, "rules");
	CHECK_EQ(told.changes[0].applies, KEY_APPLIES_NOW);
	CHECK_EQ(config.rules.n, 1);
	CHECK_EQ(config.rules.rules[0].action, RULE_TCP);
	CHECK_EQ(conf_change(&config, &next, keep, &told), 0);
}

TAP_CASE(other_sections_are_compared_only)
{
	struct told told = {.n = 0};
	struct conf config, next;
	uint32_t before;

	conf_init(&config);
	conf_init(&next);
	before = config.devices.n;
	next.devices.n++;
	CHECK_EQ(conf_change(&config, &next, keep, &told), 1);
	CHECK_STR(told.changes[0].name, "devices");
	CHECK_STR(told.changes[0].before, "");
	CHECK_STR(told.changes[0].after, "");
	CHECK_EQ(config.devices.n, before);
}

/* Each key says when it applies, and is found at its place. */
TAP_CASE(every_key_is_taken_over_or_not_as_it_says)
{
	const struct key *key;

	for (size_t i = 0; (key = conf_key_at(i)) != NULL; i++) {
		struct told told = {.n = 0};
		struct conf config, next;
		uint64_t was, now;

		if (conf_key_is_text(key))
			continue;
		conf_init(&config);
		conf_init(&next);
		was = *conf_key_value(&config, key);
		now = key->kind == KEY_WORD ? (was ? 0 : 1) : was + 1;
		*conf_key_value(&next, key) = now;
		CHECK_EQ(conf_change(&config, &next, keep, &told), 1);
		CHECK_STR(told.changes[0].name, key->name);
		CHECK_EQ(*conf_key_value(&config, key),
			 key->applies == KEY_APPLIES_AT_START ? was : now);
	}
}

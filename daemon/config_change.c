/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "config_change.h"
#include "config_key.h"

static const char *text_of(const struct conf *config, const struct key *key)
{
	return (const char *)config + key->offset;
}

static uint64_t number_of(const struct conf *config, const struct key *key)
{
	return *(const uint64_t *)(const void *)((const char *)config + key->offset);
}

static void value_print(const struct conf *config, const struct key *key,
			char ret_text[CONF_VALUE_BYTES])
{
	if (conf_key_is_text(key))
		memcpy(ret_text, text_of(config, key), CONF_PATH_BYTES);
	else if (key->kind == KEY_WORD)
		snprintf(ret_text, CONF_VALUE_BYTES, "%s", key->words[number_of(config, key)]);
	else
		snprintf(ret_text, CONF_VALUE_BYTES, "%" PRIu64, number_of(config, key));
}

static bool differs(const struct conf *a, const struct conf *b, const struct key *key)
{
	if (conf_key_is_text(key))
		return strcmp(text_of(a, key), text_of(b, key)) != 0;
	return number_of(a, key) != number_of(b, key);
}

static void change_key(struct conf *config, const struct conf *next, const struct key *key,
		       struct conf_change *change)
{
	*change =
		(struct conf_change){.name = key->name, .unit = key->unit, .applies = key->applies};
	value_print(config, key, change->before);
	value_print(next, key, change->after);
	if (key->applies == KEY_APPLIES_AT_START)
		return;
	if (conf_key_is_text(key))
		memcpy((char *)config + key->offset, text_of(next, key), CONF_PATH_BYTES);
	else
		*conf_key_value(config, key) = number_of(next, key);
}

/*
 * Unused room in sections is zero. Most are pointed into by what runs: those are compared only.
 */
static size_t change_section(const char *name, enum key_applies applies, bool is_same,
			     conf_told_fn *told, void *ctx)
{
	struct conf_change change = {.name = name, .unit = "", .applies = (uint8_t)applies};

	if (is_same)
		return 0;
	told(ctx, &change);
	return 1;
}

size_t conf_change(struct conf *config, const struct conf *next, conf_told_fn *told, void *ctx)
{
	const struct key *key;
	size_t n = 0;

	for (size_t i = 0; (key = conf_key_at(i)) != NULL; i++) {
		struct conf_change change;

		if (!differs(config, next, key))
			continue;
		change_key(config, next, key, &change);
		told(ctx, &change);
		n++;
	}
	n += change_section("devices", KEY_APPLIES_AT_START,
			    memcmp(&config->devices, &next->devices, sizeof(next->devices)) == 0,
			    told, ctx);
	n += change_section("peers", KEY_APPLIES_AT_START,
			    memcmp(&config->peers, &next->peers, sizeof(next->peers)) == 0, told,
			    ctx);
	n += change_section("rules", KEY_APPLIES_NOW,
			    memcmp(&config->rules, &next->rules, sizeof(next->rules)) == 0, told,
			    ctx);
	memcpy(&config->rules, &next->rules, sizeof(next->rules));
	return n;
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

/*
 * The tables of settings: each file of settings has one, config_table.c finds its way in all.
 */

enum key_kind {
	KEY_NUMBER,
	KEY_POWER,   /* a number that must be a power of two */
	KEY_WORD,    /* one of a list of words; the value is the index */
	KEY_PATH,    /* a file; empty: none. The value is text */
	KEY_ADDRESS, /* an IP address; empty: none. The value is text */
};

/* When a changed value of a running daemon's file holds. */
enum key_applies {
	KEY_APPLIES_NOW,
	KEY_APPLIES_TO_NEW, /* to programs that come from then on: it is told in the greeting */
	KEY_APPLIES_AT_START,
};

struct key {
	const char *name;
	uint32_t offset;
	uint8_t kind;
	uint8_t applies;
	const char *unit;
	uint64_t lo, hi, preset;
	const char *words[5];
	const char *what;
	const char *why; /* why the default is what it is */
};

#define KIB 1024ull
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)
/* The words come last, for they have commas. */
#define ROW(key, kind, applies, unit, lo, hi, preset, what, why, ...)                              \
	{                                                                                          \
#key, offsetof(struct conf, key), kind, KEY_APPLIES_##applies, unit, lo, hi,       \
			preset, __VA_ARGS__, what, why                                             \
	}
#define WORDS(...)                                                                                 \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define NUMBER(key, applies, unit, lo, hi, preset, what, why)                                      \
	ROW(key, KEY_NUMBER, applies, unit, lo, hi, preset, what, why, WORDS(NULL))
#define POWER(key, applies, unit, lo, hi, preset, what, why)                                       \
	ROW(key, KEY_POWER, applies, unit, lo, hi, preset, what, why, WORDS(NULL))
#define WORD(key, applies, words, preset, what, why)                                               \
	ROW(key, KEY_WORD, applies, "", 0, 0, preset, what, why, words)
#define TEXT(key, applies, kind, what, why)                                                        \
	ROW(key, kind, applies, "", 0, 0, 0, what, why, WORDS(NULL))

/* Settings of the sessions with other daemons. */
extern const struct key conf_peer_keys[];
extern const size_t conf_peer_key_count;

/* Every key of every table: the first at 0; NULL behind the last. */
const struct key *conf_key_at(size_t i);

/* Where @config has the value of @key, which is no text. */
uint64_t *conf_key_value(struct conf *config, const struct key *key);

/* Whether its value is text, in CONF_PATH_BYTES bytes. */
bool conf_key_is_text(const struct key *key);

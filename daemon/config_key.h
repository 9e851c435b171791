/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config.h"

/*
 * The tables of settings: config.c walks them all, each file of settings has one.
 */

enum key_kind {
	KEY_NUMBER,
	KEY_POWER,   /* a number that must be a power of two */
	KEY_WORD,    /* one of a list of words; the value is the index */
	KEY_PATH,    /* a file; empty: none. The value is text */
	KEY_ADDRESS, /* an IP address; empty: none. The value is text */
};

struct key {
	const char *name;
	uint32_t offset;
	uint8_t kind;
	const char *unit;
	uint64_t lo, hi, preset;
	const char *words[5];
	const char *what;
	const char *why; /* why the default is what it is */
};

#define KIB 1024ull
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)
#define NUMBER(key, unit, lo, hi, preset, what, why)                                               \
	{                                                                                          \
#key, offsetof(struct conf, key), KEY_NUMBER, unit, lo, hi, preset,                \
			{NULL }, what, why                                                         \
	}
#define POWER(key, unit, lo, hi, preset, what, why)                                                \
	{                                                                                          \
#key, offsetof(struct conf, key), KEY_POWER, unit, lo, hi, preset,                 \
			{NULL }, what, why                                                         \
	}
#define WORDS(...)                                                                                 \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define WORD(key, words, preset, what, why)                                                        \
	{                                                                                          \
#key, offsetof(struct conf, key), KEY_WORD, "", 0, 0, preset, words, what, why     \
	}

#define TEXT(key, kind, what, why)                                                                 \
	{                                                                                          \
#key, offsetof(struct conf, key), kind, "", 0, 0, 0, {NULL }, what, why            \
	}

/* Settings of the sessions with other daemons. */
extern const struct key conf_peer_keys[];
extern const size_t conf_peer_key_count;

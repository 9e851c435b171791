/* SPDX-License-Identifier: MIT */
#pragma once

#include <libconfig.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/inline_probe.h"
#include "fabric/conf_section.h"

/*
 * What is known of kinds of devices, as settings: the section
 *
 *	devices = (
 *		{ vendor_id = 0x02c9; inline_cap = 236; },
 *		{ name = "mlx5_1"; use = "no"; }
 *	);
 *
 * of the configuration file. An entry says which devices it is about (every one of vendor_id,
 * part_id, driver and name that it has must match; driver and name as file name patterns) and what
 * holds for them. Of all entries that match a device the first that has a key decides it. A section
 * in the file takes the place of the one that is built in.
 *
 * Pure but for the reading; no RDMA library is needed.
 */

#define DEVICE_RULES_MAX 32u
#define DEVICE_PATTERN_BYTES 64u

/* Which keys an entry has, as bits. */
enum device_key {
	DEVICE_KEY_VENDOR = 1u << 0,
	DEVICE_KEY_PART = 1u << 1,
	DEVICE_KEY_DRIVER = 1u << 2,
	DEVICE_KEY_NAME = 1u << 3,
	DEVICE_KEY_CAP = 1u << 4,
	DEVICE_KEY_HINTS = 1u << 5,
	DEVICE_KEY_INLINE = 1u << 6,
	DEVICE_KEY_USE = 1u << 7,
};

struct device_rule {
	uint32_t has; /* of enum device_key */
	uint32_t vendor_id, part_id;
	char driver[DEVICE_PATTERN_BYTES], name[DEVICE_PATTERN_BYTES];
	uint32_t inline_cap;
	uint32_t n_hints, hints[INLINE_HINTS_MAX];
	bool inline_on, use;
};

struct device_conf {
	uint32_t n;
	struct device_rule rules[DEVICE_RULES_MAX];
};

/* Which device it is. */
struct device_match {
	uint32_t vendor_id, part_id;
	const char *driver, *name;
};

/* What holds for it. */
struct device_policy {
	bool use;	     /* preset: yes */
	uint32_t inline_cap; /* bytes; preset: INLINE_BYTES_MAX; 0: inline is off */
	uint32_t n_hints;    /* preset: none */
	uint32_t hints[INLINE_HINTS_MAX];
};

/* The built-in entries. Never fails. */
void device_conf_init(struct device_conf *conf);

/*
 * Read the value of "devices" from a file. @ret_conf: changed only if all of it is good.
 * @ret_error: set if the result is not 0. Returns 0 or SECTION_BAD.
 */
int device_conf_read(const config_setting_t *setting, struct device_conf *ret_conf,
		     struct section_error *ret_error);

/* What holds for @match. Never fails. */
void device_conf_policy(const struct device_conf *conf, const struct device_match *match,
			struct device_policy *ret_policy);

/* Print the built-in section as a commented sample, with the source of each figure. */
void device_conf_print_sample(FILE *out);

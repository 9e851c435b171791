/* SPDX-License-Identifier: MIT */
#pragma once

#include <libconfig.h>

/*
 * Sections of the settings: lists of groups, NAME = ( { key = value; … }, … );
 */

/* What is wrong, and in which line of the file. */
struct section_error {
	int line;
	char text[320];
};

/* The section is wrong; positive, unlike -errno. */
#define SECTION_BAD 1

/* Set @error to the message, and to the line of @where. Returns SECTION_BAD. */
__attribute__((format(printf, 3, 4))) int section_complain(struct section_error *error,
							   const config_setting_t *where,
							   const char *format, ...);

/* Reads @setting into what @ctx is. 0, or SECTION_BAD with @error set. */
typedef int section_fn(void *ctx, const config_setting_t *setting, struct section_error *error);

struct section_reader {
	const char *name;
	const char *sample; /* of an entry, for people */
	unsigned int max;   /* entries */
	section_fn *key;    /* one key of an entry */
	section_fn *entry;  /* all of its keys have been read: does it make sense? */
};

/*
 * Read @setting, the value of @section, an entry after the other. @ret_error: set if the result is
 * not 0. Returns 0 or SECTION_BAD.
 */
int section_read(const struct section_reader *section, const config_setting_t *setting, void *ctx,
		 struct section_error *ret_error);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* What the name of our library, as it is in a memory map, begins with. */
#define TARGET_LIBRARY "/libshunt-preload"

/*
 * PID[:FD] on the command line: a process, or one of its descriptors.
 */
struct target {
	int32_t pid; /* > 0 */
	int32_t fd;  /* -1: all of the process */
};

/*
 * Read @text (NULL: it is missing) for the subcommand @name. Returns TOOL_OK; TOOL_USAGE after
 * telling the user what is wrong with it.
 */
int target_parse(const char *name, const char *text, struct target *ret_target);

/*
 * The daemon knows no such connection: tell the user why that may be, as far as the daemon at
 * @asker and /proc show it: no such process, one that does not run under Shunt, or one whose
 * connections have not been used enough. Returns TOOL_NOT_FOUND.
 */
struct asker;
int target_not_found(struct asker *asker, const struct target *target);

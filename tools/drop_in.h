/* SPDX-License-Identifier: MIT */
#pragma once

#include "unit.h"

/*
 * The drop-in of one unit as a file: etc/systemd/system/UNIT.d/50-shunt.conf of a root. What is not
 * ours is neither replaced nor removed. Verdicts beside -errno:
 */
enum drop_in {
	DROP_IN_NONE,	 /* there is none */
	DROP_IN_OURS,	 /* there is one of ours */
	DROP_IN_SAME,	 /* … with the very text that was asked about */
	DROP_IN_FOREIGN, /* somebody else wrote a file of that name */
};

/* Its path, as people call it. */
void drop_in_path(const struct unit_root *root, const char *unit, char ret_path[PATH_MAX]);

/* What is there, compared with @text. An enum drop_in, or -errno. */
int drop_in_check(const struct unit_root *root, const char *unit, const char *text);

/* Write it, whole or not at all, and its folder. 0, or -errno. */
int drop_in_write(const struct unit_root *root, const char *unit, const char *text);

/* Remove it, and its folder if that is empty then. 0, or -errno. */
int drop_in_remove(const struct unit_root *root, const char *unit);

/* Whether there is a file @path, which begins with a slash, in @root. */
bool drop_in_sees(const struct unit_root *root, const char *path);

/* Tell what is wrong at @path: DROP_IN_FOREIGN, or -errno. Returns TOOL_FAILED. */
int drop_in_complain(int rc, const char *path);

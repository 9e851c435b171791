/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>

/*
 * Where the other parts of this Shunt are. A tool that lies in a build tree uses those of that
 * tree, an installed one those that were installed with it: never a mixture.
 */

enum part {
	PART_PRELOAD, /* the library that `shunt run` puts into programs */
	PART_DAEMON,
};

/*
 * The absolute path of @part. 0; -ENOENT when it is not there, or -errno of looking for it;
 * @ret_path says in any case where it was looked for.
 */
int locate_part(enum part part, char ret_path[PATH_MAX]);

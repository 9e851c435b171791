/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "locate.h"

/* In a build tree, from its top; installed, from the root. */
static const struct {
	const char *built, *installed;
} parts[] = {
	[PART_PRELOAD] = {"lib/preload/libshunt-preload.so",
			  SHUNT_PRELOAD_DIR "/libshunt-preload.so"},
	[PART_DAEMON] = {"daemon/shuntd", SHUNT_SBINDIR "/shuntd"},
};

/* The top of the build tree that this program lies in, if it does. */
static bool build_tree(char path[PATH_MAX])
{
	char probe[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	if (len <= 0)
		return false;
	path[len] = '\0';
	/* TOP/tools/shunt */
	for (int i = 0; i < 2; i++) {
		slash = strrchr(path, '/');
		if (!slash || (i == 1 && strcmp(slash, "/tools") != 0))
			return false;
		*slash = '\0';
	}
	len = snprintf(probe, sizeof(probe), "%.*s/build.ninja", PATH_MAX - 32, path);
	return len > 0 && access(probe, F_OK) == 0;
}

int locate_part(enum part part, char ret_path[PATH_MAX])
{
	char top[PATH_MAX];
	int len;

	if (build_tree(top))
		len = snprintf(ret_path, PATH_MAX, "%.*s/%s", PATH_MAX - 64, top,
			       parts[part].built);
	else
		len = snprintf(ret_path, PATH_MAX, "%s", parts[part].installed);
	if (len < 0 || len >= PATH_MAX)
		return -ENAMETOOLONG;
	return access(ret_path, R_OK) ? -errno : 0;
}

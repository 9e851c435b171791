/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "os/fd.h"
#include "systemctl.h"
#include "unit.h"
#include "unit_impl.h"

#define SERVICE ".service"

/* Chosen: nobody needs two, and links may lead in a circle. */
#define ALIASES_MAX 4u

/* From systemd.unit(5), for the system, the first found counts. */
const char *const unit_dirs[UNIT_DIRS] = {
	UNIT_ETC,
	"run/systemd/transient",
	"run/systemd/generator.early",
	"run/systemd/system",
	"run/systemd/generator",
	"usr/local/lib/systemd/system",
	"usr/lib/systemd/system",
	"lib/systemd/system",
	"run/systemd/generator.late",
};

int unit_name_of(const char *given, char ret_name[UNIT_NAME_BYTES])
{
	static const char *const others[] = {".socket", ".device", ".mount", ".automount",
					     ".swap",	".target", ".path",  ".timer",
					     ".slice",	".scope"};
	const char *ending = strrchr(given, '.'), *at = strchr(given, '@');
	bool has_ending = ending && strcmp(ending, SERVICE) == 0;
	int len;

	for (size_t i = 0; ending && i < ARRAY_SIZE(others); i++) {
		if (strcmp(ending, others[i]) == 0)
			return UNIT_NAME_BAD;
	}
	for (const char *c = given; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr(":-_.\\@", *c))
			return UNIT_NAME_BAD;
	}
	len = snprintf(ret_name, UNIT_NAME_BYTES, "%s%s", given, has_ending ? "" : SERVICE);
	return *given && given[0] != '.' && at != given && len < UNIT_NAME_BYTES ? 0
										 : UNIT_NAME_BAD;
}

bool unit_template_of(const char *name, char ret_template[UNIT_NAME_BYTES])
{
	const char *at = strchr(name, '@');

	if (!at || unit_is_template(name))
		return false;
	snprintf(ret_template, UNIT_NAME_BYTES, "%.*s@" SERVICE, (int)(at - name), name);
	return true;
}

bool unit_is_template(const char *name)
{
	const char *at = strchr(name, '@');

	return at && strcmp(at + 1, SERVICE) == 0;
}

/* The unit that the link @target stands for in place of @name; NULL: the same. */
static const char *other_name(const char *target, const char *name)
{
	const char *base = strrchr(target, '/');
	char template[UNIT_NAME_BYTES];

	base = base ? base + 1 : target;
	if (strcmp(base, name) == 0 || strlen(base) >= UNIT_NAME_BYTES ||
	    (unit_template_of(name, template) && strcmp(base, template) == 0) ||
	    unit_is_template(base))
		return NULL;
	return base;
}

/* Look at @entry in one folder. -ENOENT; else 0 and what it is: an alias is written to @ret_alias.
 */
static int look(const struct unit_root *root, const char *dir, const char *entry,
		enum unit_state *ret_state, char ret_alias[PATH_MAX])
{
	AUTO_FD int dir_fd = unit_open_in(root, dir, O_PATH | O_DIRECTORY);
	struct stat st;
	ssize_t len;

	ret_alias[0] = '\0';
	if (dir_fd < 0 || fstatat(dir_fd, entry, &st, AT_SYMLINK_NOFOLLOW))
		return -ENOENT;
	*ret_state = UNIT_FOUND;
	if (S_ISREG(st.st_mode) && st.st_size == 0)
		*ret_state = UNIT_MASKED;
	if (!S_ISLNK(st.st_mode))
		return 0;
	len = readlinkat(dir_fd, entry, ret_alias, PATH_MAX - 1);
	ret_alias[len > 0 ? len : 0] = '\0';
	if (strcmp(ret_alias, "/dev/null") == 0)
		*ret_state = UNIT_MASKED;
	return 0;
}

/* @follow: so many other names may still lead on. */
static enum unit_state find_file(const struct unit_root *root, char *name, unsigned int follow,
				 char file[PATH_MAX])
{
	char template[UNIT_NAME_BYTES], target[PATH_MAX];
	const char *entries[2] = {name, template};
	size_t n = unit_template_of(name, template) ? 2 : 1;
	enum unit_state state = UNIT_UNKNOWN;
	const char *other;

	for (size_t i = 0; i < n; i++) {
		for (size_t d = 0; d < UNIT_DIRS; d++) {
			if (look(root, unit_dirs[d], entries[i], &state, target) < 0)
				continue;
			snprintf(file, PATH_MAX, "%s/%s", unit_dirs[d], entries[i]);
			other = state == UNIT_FOUND && target[0] ? other_name(target, name) : NULL;
			if (!other || !follow)
				return state;
			memmove(name, other, strlen(other) + 1);
			return find_file(root, name, follow - 1, file);
		}
	}
	file[0] = '\0';
	return UNIT_UNKNOWN;
}

enum unit_state unit_find(const struct unit_root *root, char *name, char ret_file[PATH_MAX])
{
	enum unit_state state = find_file(root, name, ALIASES_MAX, ret_file);
	char load[32], id[UNIT_NAME_BYTES];

	/* systemd knows more: generated ones, and other search paths. */
	if (!root->runs_systemd || unit_is_template(name) ||
	    !systemctl_value(name, "LoadState", load, sizeof(load)) ||
	    !systemctl_value(name, "Id", id, sizeof(id)))
		return state;
	if (strcmp(load, "masked") == 0)
		return UNIT_MASKED;
	if (strcmp(load, "not-found") == 0 || id[0] == '\0')
		return state; /* it may not have been told of a new file yet */
	strcpy(name, id);
	return UNIT_FOUND;
}

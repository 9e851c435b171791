/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "drop_in.h"
#include "os/fd.h"
#include "os/sys.h"
#include "tool.h"
#include "unit_preload.h"

/* Until it is complete; systemd reads names in .conf only. */
#define UNFINISHED "." UNIT_DROP_IN ".new"

static void folder_name(const char *unit, char name[UNIT_NAME_BYTES + 2])
{
	snprintf(name, UNIT_NAME_BYTES + 2, "%s.d", unit);
}

void drop_in_path(const struct unit_root *root, const char *unit, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s/" UNIT_ETC "/%s.d/" UNIT_DROP_IN, root->path, unit);
}

int drop_in_check(const struct unit_root *root, const char *unit, const char *text)
{
	char path[PATH_MAX];
	AUTO_FREE char *found = NULL;
	int error;

	snprintf(path, sizeof(path), UNIT_ETC "/%s.d/" UNIT_DROP_IN, unit);
	found = unit_read_in(root, path, &error);
	if (!found)
		return error == -ENOENT ? DROP_IN_NONE : error;
	if (!unit_text_is_ours(found))
		return DROP_IN_FOREIGN;
	return strcmp(found, text) == 0 ? DROP_IN_SAME : DROP_IN_OURS;
}

/* Make the folders down to where administrators put units. The last one, or -errno. */
static int make_etc(const struct unit_root *root)
{
	char path[] = UNIT_ETC;
	int fd = -1, rc;

	for (char *at = strchr(path, '/');; at = strchr(at + 1, '/')) {
		if (at)
			*at = '\0';
		rc = fd < 0 ? sys_mkdirat(root->fd, path, 0755)
			    : sys_mkdirat(fd, strrchr(path, '/') + 1, 0755);
		fd_close(fd);
		if (rc < 0 && rc != -EEXIST)
			return rc;
		fd = unit_open_in(root, path, O_RDONLY | O_DIRECTORY);
		if (fd < 0 || !at)
			return fd;
		*at = '/';
	}
}

static int write_all(int fd, const char *text)
{
	size_t len = strlen(text), done = 0;

	while (done < len) {
		ssize_t rc = write(fd, text + done, len - done);

		if (rc < 0)
			return -errno;
		done += (size_t)rc;
	}
	/* A umask must not hide it from systemctl cat. */
	return fchmod(fd, 0644) || fsync(fd) ? -errno : 0;
}

int drop_in_write(const struct unit_root *root, const char *unit, const char *text)
{
	char name[UNIT_NAME_BYTES + 2];
	AUTO_FD int etc = make_etc(root);
	AUTO_FD int dir = -1;
	AUTO_FD int fd = -1;
	int rc;

	if (etc < 0)
		return TAKE(etc, -1);
	folder_name(unit, name);
	rc = sys_mkdirat(etc, name, 0755);
	if (rc < 0 && rc != -EEXIST)
		return rc;
	/* A link would lead to another unit's. */
	dir = sys_openat(etc, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (dir < 0)
		return TAKE(dir, -1);
	unlinkat(dir, UNFINISHED, 0);
	fd = sys_openat(dir, UNFINISHED, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0644);
	if (fd < 0)
		return TAKE(fd, -1);
	rc = write_all(fd, text);
	if (rc == 0 && renameat(dir, UNFINISHED, dir, UNIT_DROP_IN))
		rc = -errno;
	if (rc < 0)
		unlinkat(dir, UNFINISHED, 0);
	return rc;
}

int drop_in_remove(const struct unit_root *root, const char *unit)
{
	char name[UNIT_NAME_BYTES + 2];
	AUTO_FD int etc = unit_open_in(root, UNIT_ETC, O_RDONLY | O_DIRECTORY);
	AUTO_FD int dir = -1;

	if (etc < 0)
		return TAKE(etc, -1);
	folder_name(unit, name);
	dir = sys_openat(etc, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (dir < 0)
		return TAKE(dir, -1);
	if (unlinkat(dir, UNIT_DROP_IN, 0))
		return -errno;
	/* With others' files in it, it stays. */
	if (unlinkat(etc, name, AT_REMOVEDIR) && errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	return 0;
}

bool drop_in_sees(const struct unit_root *root, const char *path)
{
	AUTO_FD int fd = unit_open_in(root, path + 1, O_PATH);

	return fd >= 0;
}

int drop_in_complain(int rc, const char *path)
{
	if (rc == DROP_IN_FOREIGN)
		tool_say(
			"%s was not written by shunt enable, and is left alone: move it away first",
			path);
	else
		tool_say("%s: %s%s", path, strerror(-rc),
			 (rc == -EACCES || rc == -EPERM) && geteuid() ? "; run this as root" : "");
	return TOOL_FAILED;
}

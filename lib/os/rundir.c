/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "os/fd.h"
#include "os/rundir.h"
#include "os/syswait.h"

/* Writable by others than the owner; readable or searchable by them. */
#define MODE_OTHERS_WRITE 0022
#define MODE_OTHERS_ANY 0077

/* The value of @name, or NULL if there is none or the environment is a less trusted party's. */
static const char *rundir_env(const char *name)
{
	const char *value = getauxval(AT_SECURE) ? NULL : getenv(name);

	return value && *value ? value : NULL;
}

static bool rundir_set(struct rundir *dir, enum rundir_kind kind, const char *base, const char *sub)
{
	int len;

	if (base[0] != '/')
		return false;
	len = snprintf(dir->path, sizeof(dir->path), "%s%s", base, sub);
	dir->kind = kind;
	return len > 0 && (size_t)len < sizeof(dir->path);
}

size_t rundir_candidates(struct rundir ret_dirs[RUNDIR_CANDIDATES_MAX])
{
	const char *override = rundir_env("SHUNT_RUNTIME_DIR");
	const char *xdg = rundir_env("XDG_RUNTIME_DIR");
	char uid[16];
	size_t n = 0;

	if (override)
		return rundir_set(&ret_dirs[0], RUNDIR_OVERRIDE, override, "");
	n += rundir_set(&ret_dirs[n], RUNDIR_SYSTEM, RUNDIR_SYSTEM_PATH, "");
	if (xdg)
		n += rundir_set(&ret_dirs[n], RUNDIR_XDG, xdg, "/shunt");
	snprintf(uid, sizeof(uid), "%u", (unsigned int)sys_geteuid());
	n += rundir_set(&ret_dirs[n], RUNDIR_TMP, "/tmp/shunt-", uid);
	return n;
}

static bool rundir_is_sound(const struct rundir *dir, const struct stat *st)
{
	uid_t uid = sys_geteuid();

	switch (dir->kind) {
	case RUNDIR_SYSTEM:
		return (st->st_mode & MODE_OTHERS_WRITE) == 0;
	case RUNDIR_OVERRIDE:
		return (st->st_uid == uid || st->st_uid == 0) &&
		       (st->st_mode & MODE_OTHERS_WRITE) == 0;
	case RUNDIR_XDG:
	case RUNDIR_TMP:
		return st->st_uid == uid && (st->st_mode & MODE_OTHERS_ANY) == 0;
	}
	return false;
}

int rundir_open(const struct rundir *dir)
{
	struct stat st;
	AUTO_FD int fd = -1;
	int ret;

	/* With O_PATH and O_NOFOLLOW a symbolic link would open as itself, but is no directory. */
	fd = sys_openat(AT_FDCWD, dir->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0)
		return TAKE(fd, -1);
	ret = sys_fstat(fd, &st);
	if (ret < 0)
		return ret;
	return rundir_is_sound(dir, &st) ? TAKE(fd, -1) : -EPERM;
}

/* Give the directory that was just made its mode: a umask may have taken bits away (all of them, so
 * that it can't even be opened), a set-gid parent may have added one. */
static int rundir_set_mode(const struct rundir *dir, mode_t mode)
{
	struct stat st;
	AUTO_FD int fd = -1;
	char self[32];
	int ret;

	fd = sys_openat(AT_FDCWD, dir->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0)
		return TAKE(fd, -1);
	ret = sys_fstat(fd, &st);
	if (ret < 0)
		return ret;
	if (st.st_uid != sys_geteuid())
		return -EPERM;
	/* Through /proc, since fchmod(2) refuses an O_PATH descriptor, and a path may be swapped.
	 */
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return sys_fchmodat(AT_FDCWD, self, mode);
}

int rundir_make(const struct rundir *dir)
{
	const mode_t mode = dir->kind == RUNDIR_SYSTEM ? 0755 : 0700;
	int ret;

	ret = sys_mkdirat(AT_FDCWD, dir->path, mode);
	if (ret < 0 && ret != -EEXIST)
		return ret;
	if (ret == 0) {
		ret = rundir_set_mode(dir, mode);
		if (ret < 0)
			return ret;
	}
	return rundir_open(dir);
}

int rundir_socket(const struct rundir *dir, const char *name, struct sockaddr_un *ret_addr,
		  socklen_t *ret_len)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t dir_len = strnlen(dir->path, sizeof(dir->path));
	size_t name_len = strlen(name);

	/* The slash takes the place of the directory's terminator: the sum fits. */
	if (dir_len == sizeof(dir->path) || name_len == 0 || name_len >= RUNDIR_NAME_MAX ||
	    strchr(name, '/'))
		return -EINVAL;
	memcpy(addr.sun_path, dir->path, dir_len);
	addr.sun_path[dir_len] = '/';
	memcpy(addr.sun_path + dir_len + 1, name, name_len + 1);
	*ret_addr = addr;
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + dir_len + name_len + 2);
	return 0;
}

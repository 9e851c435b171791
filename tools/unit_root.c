/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/fd.h"
#include "os/sys.h"
#include "unit.h"

/* More than any unit file has; beyond it nothing is read. Chosen. */
#define FILE_BYTES_MAX (1u << 20)

int unit_root_open(const char *path, struct unit_root *ret_root)
{
	int fd = sys_openat(AT_FDCWD, path ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	ret_root->fd = fd;
	ret_root->path = path ? path : "";
	/* As sd_booted(3) does. */
	ret_root->runs_systemd = !path && access("/run/systemd/system", F_OK) == 0;
	return 0;
}

void unit_root_close(struct unit_root *root)
{
	fd_close(root->fd);
	root->fd = -1;
}

int unit_open_in(const struct unit_root *root, const char *path, int flags)
{
	const struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, root->fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

char *unit_read_in(const struct unit_root *root, const char *path, int *ret_error)
{
	AUTO_FD int fd = unit_open_in(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	size_t used = 0;
	char *text;

	*ret_error = fd;
	if (fd < 0)
		return NULL;
	*ret_error = -ENOMEM;
	text = malloc(FILE_BYTES_MAX);
	if (!text)
		return NULL;
	for (;;) {
		ssize_t len = sys_read(fd, text + used, FILE_BYTES_MAX - 1 - used);

		if (len < 0 || used + (size_t)len == FILE_BYTES_MAX - 1) {
			*ret_error = len < 0 ? (int)len : -EFBIG;
			free(text);
			return NULL;
		}
		if (len == 0)
			break;
		used += (size_t)len;
	}
	text[used] = '\0';
	return text;
}

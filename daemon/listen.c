/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "listen.h"
#include "os/fd.h"
#include "os/syswait.h"

#define LISTEN_BACKLOG 4096 /* the kernel takes less if net.core.somaxconn is less */

int place_choose(struct place *place, const char *override)
{
	struct rundir dirs[RUNDIR_CANDIDATES_MAX];
	size_t n;

	*place = (struct place){.dir_fd = -1, .lock_fd = -1};
	if (override) {
		if (override[0] != '/' || strlen(override) >= sizeof(place->dir.path))
			return -EINVAL;
		place->dir.kind =
			strcmp(override, RUNDIR_SYSTEM_PATH) == 0 ? RUNDIR_SYSTEM : RUNDIR_OVERRIDE;
		strcpy(place->dir.path, override);
		return 0;
	}
	n = rundir_candidates(dirs);
	for (size_t i = 0; i < n; i++) {
		if (dirs[i].kind == RUNDIR_SYSTEM && sys_geteuid() != 0)
			continue; /* clients look there first, but it is not ours to make */
		place->dir = dirs[i];
		return 0;
	}
	return -EINVAL;
}

int place_lock(struct place *place, int *ret_pid)
{
	char text[16] = "";
	ssize_t len;
	int rc;

	place->dir_fd = rundir_make(&place->dir);
	if (place->dir_fd < 0)
		return place->dir_fd;
	place->lock_fd = sys_openat(place->dir_fd, LISTEN_LOCK_NAME,
				    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (place->lock_fd < 0)
		return place->lock_fd;
	rc = sys_flock(place->lock_fd, LOCK_EX | LOCK_NB);
	if (rc == -EWOULDBLOCK) {
		len = sys_read(place->lock_fd, text, sizeof(text) - 1);
		*ret_pid = len > 0 ? atoi(text) : 0;
		return PLACE_TAKEN;
	}
	if (rc < 0)
		return rc;
	snprintf(text, sizeof(text), "%d\n", (int)sys_getpid());
	sys_ftruncate(place->lock_fd, 0);
	len = sys_write(place->lock_fd, text, strlen(text));
	return len < 0 ? (int)len : 0;
}

int place_listen(struct place *place, bool serve_all)
{
	AUTO_FD int fd = -1;
	struct sockaddr_un addr;
	mode_t mask;
	socklen_t len;
	int rc;

	rc = rundir_socket(&place->dir, LISTEN_SOCKET_NAME, &addr, &len);
	if (rc < 0)
		return rc;
	fd = sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	rc = sys_unlinkat(place->dir_fd, LISTEN_SOCKET_NAME, 0);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	mask = umask(serve_all ? 0111 : 0177);
	rc = sys_bind(fd, (struct sockaddr *)&addr, len);
	umask(mask);
	if (rc < 0)
		return rc;
	place->bound = true;
	rc = sys_listen(fd, LISTEN_BACKLOG);
	return rc < 0 ? rc : TAKE(fd, -1);
}

void place_leave(struct place *place)
{
	if (place->bound)
		sys_unlinkat(place->dir_fd, LISTEN_SOCKET_NAME, 0);
	fd_close(place->lock_fd);
	fd_close(place->dir_fd);
}

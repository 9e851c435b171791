/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "os/bell.h"
#include "os/fd.h"
#include "os/sys.h"

/* One page: what the kernel charges for a bell, and 4096 rings between two emptyings. */
#define BELL_BYTES 4096

/* "/proc/self/fd/N" without a libc formatter: this may run in a signal handler. */
static void fd_path(int fd, char ret_path[32])
{
	static const char dir[] = "/proc/self/fd/";
	char digits[12];
	size_t n = 0, at = sizeof(dir) - 1;

	memcpy(ret_path, dir, at);
	do {
		digits[n++] = (char)('0' + fd % 10);
		fd /= 10;
	} while (fd);
	while (n)
		ret_path[at++] = digits[--n];
	ret_path[at] = '\0';
}

static int reopen(int fd, int mode)
{
	char path[32];

	if (fd < 0)
		return -EBADF;
	fd_path(fd, path);
	return sys_openat(AT_FDCWD, path, mode | O_NONBLOCK | O_CLOEXEC, 0);
}

int bell_copy(int fd)
{
	return reopen(fd, O_RDWR);
}

int bell_ear(int fd)
{
	return reopen(fd, O_RDONLY);
}

int bell_make(void)
{
	int ends[2], fd = sys_pipe2(ends, O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return fd;
	fd = bell_copy(ends[0]);
	if (fd >= 0)
		sys_fcntl(fd, F_SETPIPE_SZ, BELL_BYTES); /* larger does no harm */
	fd_close(ends[0]);
	fd_close(ends[1]);
	return fd;
}

int bell_check(int fd)
{
	struct stat st;
	int rc = sys_fstat(fd, &st);

	if (rc < 0)
		return rc;
	return S_ISFIFO(st.st_mode) ? 0 : -EINVAL;
}

void bell_ring(int fd)
{
	static const char ring;
	char bytes[BELL_BYTES];

	if (fd < 0 || sys_write(fd, &ring, 1) != -EAGAIN)
		return;
	/* Full. Once is enough: whoever fills it again at once has made an edge, too. */
	sys_read(fd, bytes, sizeof(bytes));
	sys_write(fd, &ring, 1);
}

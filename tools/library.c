/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "library.h"
#include "os/fd.h"
#include "os/sys.h"

#define WORD "SHUNT_LIBRARY_VERSION="

/* Chosen: with debugging information it has some 2 MiB. */
#define LIBRARY_BYTES_MAX (64u << 20)

static void find(const char *bytes, size_t len, char version[LIBRARY_VERSION_BYTES])
{
	const size_t word = strlen(WORD);
	const char *at = memmem(bytes, len, WORD, word);
	size_t n = 0, left;

	version[0] = '\0';
	if (!at)
		return;
	at += word;
	left = len - (size_t)(at - bytes);
	while (n < LIBRARY_VERSION_BYTES - 1 && n < left && isgraph((unsigned char)at[n])) {
		version[n] = at[n];
		n++;
	}
	version[n] = '\0';
}

int library_version(const char *path, char ret_version[LIBRARY_VERSION_BYTES])
{
	AUTO_FD int fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	struct stat st;
	void *bytes;
	int rc;

	if (fd < 0)
		return TAKE(fd, -1);
	rc = sys_fstat(fd, &st);
	if (rc < 0)
		return rc;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		return -EINVAL;
	if (st.st_size > (off_t)LIBRARY_BYTES_MAX)
		return -EFBIG;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	find(bytes, (size_t)st.st_size, ret_version);
	munmap(bytes, (size_t)st.st_size);
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include <linux/magic.h>
#include <linux/memfd.h>

#include "os/fd.h"
#include "os/memfd.h"
#include "os/sys.h"

/* Linux 6.3; without it newer kernels complain in their log, and some refuse. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

_Static_assert(MEMFD_SEALS_SIZE == (F_SEAL_SHRINK | F_SEAL_GROW), "as in linux/fcntl.h");
_Static_assert(MEMFD_SEALS_WRITERS == (MEMFD_SEALS_SIZE | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL),
	       "as in linux/fcntl.h");

#define MEMFD_BLOCK_BYTES 512 /* the unit of st_blocks, stat(2) */

int memfd_make(const char *name, uint64_t size_bytes)
{
	const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	AUTO_FD int fd = -1;
	int ret;

	if (size_bytes == 0 || size_bytes > INT64_MAX)
		return -EINVAL;
	fd = sys_memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd == -EINVAL)
		fd = sys_memfd_create(name, flags);
	if (fd < 0)
		return TAKE(fd, -1);
	/* A signal makes tmpfs undo the whole allocation. */
	do {
		ret = sys_fallocate(fd, 0, 0, (off_t)size_bytes);
	} while (ret == -EINTR);
	if (ret < 0)
		return ret;
	ret = sys_fcntl(fd, F_ADD_SEALS, MEMFD_SEALS_SIZE);
	if (ret < 0)
		return ret;
	return TAKE(fd, -1);
}

int memfd_seal_writers(int fd)
{
	return sys_fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

int memfd_check(int fd, uint64_t size_bytes, unsigned int seals)
{
	struct statfs fs;
	struct stat st;
	int ret;

	/* Seals first: what is looked at after them can not change any more. */
	ret = sys_fcntl(fd, F_GET_SEALS, 0);
	if (ret < 0)
		return ret;
	if (((unsigned int)ret & seals) != seals)
		return -EINVAL;
	ret = sys_fstatfs(fd, &fs);
	if (ret < 0)
		return ret;
	ret = sys_fstat(fd, &st);
	if (ret < 0)
		return ret;
	/* A link count of 0 and shmem: a memfd and no file of a mounted tmpfs; not hugetlb either,
	 * whose pages have another size. */
	if (fs.f_type != TMPFS_MAGIC || !S_ISREG(st.st_mode) || st.st_nlink != 0)
		return -EINVAL;
	if ((uint64_t)st.st_size != size_bytes)
		return -EINVAL;
	if ((uint64_t)st.st_blocks * MEMFD_BLOCK_BYTES < size_bytes)
		return -EINVAL;
	return 0;
}

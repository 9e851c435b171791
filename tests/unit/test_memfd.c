/* SPDX-License-Identifier: MIT */
/*
 * One writer: once a region is sealed, nobody gets another way to write it, whatever descriptor of
 * it he holds, while the mapping that its owner made before goes on writing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/fd.h"
#include "os/memfd.h"

#include "lib/child.h"
#include "lib/tap.h"

#define REGION_BYTES (16u * 4096u)

struct region {
	int fd;
	_Atomic uint32_t *owned; /* the owner's mapping */
	_Atomic uint32_t *turn;	 /* shared beside it: how many attackers are done */
};

static void *map_region(int fd, int prot)
{
	return mmap(NULL, REGION_BYTES, prot, MAP_SHARED, fd, 0);
}

/* Expect -1 with one of two errors. */
#define REFUSED(expr)                                                                              \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK((long)(expr) == -1);                                                         \
		CHECK(errno == EPERM || errno == EACCES);                                          \
	} while (0)

static void attack_mappings(int fd)
{
	char *view;

	REFUSED(map_region(fd, PROT_READ | PROT_WRITE));
	REFUSED(map_region(fd, PROT_WRITE));
	view = map_region(fd, PROT_READ);
	REQUIRE(view != MAP_FAILED);
	REFUSED(mprotect(view, REGION_BYTES, PROT_READ | PROT_WRITE));
	REFUSED(mprotect(view, 4096, PROT_WRITE));
	CHECK_EQ(madvise(view, REGION_BYTES, MADV_REMOVE), -1);
	munmap(view, REGION_BYTES);
	view = map_region(fd, PROT_NONE);
	REQUIRE(view != MAP_FAILED);
	REFUSED(mprotect(view, REGION_BYTES, PROT_WRITE));
	munmap(view, REGION_BYTES);
}

static void attack_file(int fd)
{
	static const char byte = 'x';
	struct iovec iov = {(void *)&byte, 1};

	REFUSED(pwrite(fd, &byte, 1, 0));
	REFUSED(write(fd, &byte, 1));
	REFUSED(pwritev2(fd, &iov, 1, 0, 0));
	REFUSED(ftruncate(fd, 0));
	REFUSED(ftruncate(fd, 2 * REGION_BYTES));
	REFUSED(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	REFUSED(fallocate(fd, 0, 0, 2 * REGION_BYTES));
	REFUSED(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
}

/* As a party that holds the very descriptor the region was made with. */
static void attack(void *arg)
{
	struct region *region = arg;
	int made_fd = region->fd;
	const _Atomic uint32_t *view;
	uint32_t seen;
	char path[64];
	char *copy;
	int fd;

	munmap((void *)region->owned, REGION_BYTES); /* fork gave us this one; exec would not */
	attack_mappings(made_fd);
	attack_file(made_fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", made_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		attack_mappings(fd);
		attack_file(fd);
		close(fd);
	} else {
		CHECK(errno == EACCES || errno == EPERM);
	}
	REFUSED(open(path, O_RDWR | O_TRUNC | O_CLOEXEC));
	/* A private copy may be scribbled on; the owner does not see it. */
	copy = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, made_fd, 0);
	CHECK(copy != MAP_FAILED);
	copy[REGION_BYTES - 1] = 'x';
	/* The owner still writes, and we see it. */
	view = map_region(made_fd, PROT_READ);
	REQUIRE(view != MAP_FAILED);
	seen = atomic_load(&view[0]);
	atomic_fetch_add(region->turn, 1);
	for (int i = 0; i < 10000 && atomic_load(&view[0]) == seen; i++)
		usleep(1000);
	CHECK(atomic_load(&view[0]) != seen);
}

static void attack_as(struct region *region, uid_t uid)
{
	uint32_t turn = atomic_load(region->turn);
	pid_t pid = child_start(uid, attack, region);

	for (int i = 0; i < 10000 && atomic_load(region->turn) == turn; i++)
		usleep(1000);
	atomic_fetch_add(&region->owned[0], 1);
	child_finish(pid);
	CHECK_EQ(((const char *)region->owned)[REGION_BYTES - 1], 0);
}

static int region_make(struct region *region)
{
	int ret;

	region->fd = memfd_make("unit", REGION_BYTES);
	if (region->fd < 0)
		return region->fd;
	region->owned = map_region(region->fd, PROT_READ | PROT_WRITE);
	region->turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (region->owned == MAP_FAILED || region->turn == MAP_FAILED)
		return -errno;
	ret = memfd_seal_writers(region->fd);
	CHECK_EQ(memfd_seal_writers(region->fd), -EPERM);
	return ret;
}

static void region_free(struct region *region)
{
	munmap((void *)region->owned, REGION_BYTES);
	munmap((void *)region->turn, 4096);
	fd_close(region->fd);
}

TAP_CASE(one_writer_against_the_same_user)
{
	struct region region;

	REQUIRE_OK(region_make(&region));
	attack_as(&region, CHILD_UID_SAME);
	CHECK_OK(memfd_check(region.fd, REGION_BYTES, MEMFD_SEALS_WRITERS));
	region_free(&region);
}

TAP_CASE(one_writer_against_another_user)
{
	struct region region;

	if (!child_can_switch())
		SKIP("needs root, to become another user");
	REQUIRE_OK(region_make(&region));
	attack_as(&region, CHILD_UID_OTHER);
	region_free(&region);
}

static void own_as_user(void *arg)
{
	struct region *region = arg;

	CHECK_OK(region_make(region));
	attack_as(region, CHILD_UID_SAME);
	region_free(region);
}

TAP_CASE(one_writer_as_an_ordinary_user)
{
	struct region region;

	if (!child_can_switch())
		SKIP("needs root, to become another user");
	child_run(CHILD_UID_OTHER, own_as_user, &region);
}

/* A user's region, attacked by root: the descriptor's owner on disk is the user. */
TAP_CASE(one_writer_against_root)
{
	struct region region;

	if (!child_can_switch())
		SKIP("needs root");
	REQUIRE_OK(seteuid(CHILD_UID_OTHER));
	CHECK_OK(region_make(&region));
	CHECK_OK(seteuid(0));
	attack_as(&region, CHILD_UID_SAME);
	attack_as(&region, CHILD_UID_THIRD);
	region_free(&region);
}

TAP_CASE(fresh_region_is_whole_zero_and_fixed)
{
	int fd = memfd_make("unit", REGION_BYTES);
	struct stat st;
	char *view;
	int sum = 0;

	REQUIRE_OK(fd);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(st.st_size, REGION_BYTES);
	CHECK(st.st_blocks * 512 >= REGION_BYTES);
	CHECK_EQ(ftruncate(fd, 0), -1);
	CHECK_EQ(ftruncate(fd, 2 * REGION_BYTES), -1);
	view = map_region(fd, PROT_READ | PROT_WRITE);
	REQUIRE(view != MAP_FAILED);
	for (size_t i = 0; i < REGION_BYTES; i++)
		sum |= view[i];
	CHECK_EQ(sum, 0);
	munmap(view, REGION_BYTES);
	fd_close(fd);
	CHECK_EQ(memfd_make("unit", 0), -EINVAL);
}

TAP_CASE(check_refuses_what_is_no_sealed_memfd)
{
	char path[] = "/dev/shm/shunt-unit-XXXXXX";
	int fd, file;

	fd = memfd_make("unit", REGION_BYTES);
	REQUIRE_OK(fd);
	CHECK_EQ(memfd_check(fd, REGION_BYTES, MEMFD_SEALS_SIZE), 0);
	CHECK_EQ(memfd_check(fd, REGION_BYTES, MEMFD_SEALS_WRITERS), -EINVAL);
	CHECK_EQ(memfd_check(fd, REGION_BYTES / 2, MEMFD_SEALS_SIZE), -EINVAL);
	CHECK_EQ(memfd_check(fd, 2 * REGION_BYTES, MEMFD_SEALS_SIZE), -EINVAL);
	/* Not whole any more. */
	CHECK_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096), 0);
	CHECK_EQ(memfd_check(fd, REGION_BYTES, MEMFD_SEALS_SIZE), -EINVAL);
	fd_close(fd);
	CHECK_EQ(memfd_check(-1, REGION_BYTES, MEMFD_SEALS_SIZE), -EBADF);
	CHECK_EQ(memfd_check(STDIN_FILENO, REGION_BYTES, MEMFD_SEALS_SIZE), -EINVAL);
	file = mkstemp(path);
	if (file < 0)
		SKIP("no tmpfs at /dev/shm");
	CHECK_EQ(fallocate(file, 0, 0, REGION_BYTES), 0);
	CHECK_EQ(memfd_check(file, REGION_BYTES, MEMFD_SEALS_SIZE), -EINVAL);
	CHECK_EQ(memfd_check(file, REGION_BYTES, 0), -EINVAL);
	unlink(path);
	fd_close(file);
}

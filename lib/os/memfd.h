/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * Sealed shared memory: the region of one writer.
 *
 * The maker creates it (memfd_make()), maps it read-write, and somebody then seals it against
 * writers (memfd_seal_writers()): the mapping that exists goes on writing, and from then on nobody,
 * not the same user and not root, can get another writable mapping, write, resize or punch a hole
 * through any descriptor of it. Only then may it be passed to a party that is not trusted.
 * Any thread, async-signal-safe, errno left alone.
 */

/* The seals of a fresh region, and of one without further writers (bits of F_GET_SEALS). */
#define MEMFD_SEALS_SIZE 0x0006u    /* F_SEAL_SHRINK | F_SEAL_GROW */
#define MEMFD_SEALS_WRITERS 0x0017u /* those, F_SEAL_FUTURE_WRITE and F_SEAL_SEAL */

/*
 * A new close-on-exec memfd of @size_bytes (a multiple of the page size, not 0), all zeros, whole
 * in memory from the start so that no reader is charged for it, and fixed in size. @name shows in
 * /proc. Returns the descriptor; -ENOMEM, -ENOSPC without memory; -EMFILE, -ENFILE; -EINVAL.
 */
int memfd_make(const char *name, uint64_t size_bytes);

/* Seal @fd against further writers and further seals. 0; -EPERM when it is sealed already;
 * -EINVAL when it is no memfd. */
int memfd_seal_writers(int fd);

/*
 * Whether @fd, received from a party that is not trusted, is a memfd of exactly @size_bytes, whole
 * in memory, with at least @seals (MEMFD_SEALS_…) set. Returns 0, -EINVAL when it is not, -EBADF.
 * Without the seals against writers, "whole" may change again behind the check: a mapping may then
 * fault; check again after sealing.
 */
int memfd_check(int fd, uint64_t size_bytes, unsigned int seals);

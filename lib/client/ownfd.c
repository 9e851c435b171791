/* SPDX-License-Identifier: MIT */
#include "client/ownfd.h"
#include "os/fd.h"

_Atomic uint64_t ownfd_words[FDTABLE_SIZE / OWNFD_WORD_BITS];

void ownfd_add(int fd)
{
	if ((unsigned int)fd < FDTABLE_SIZE)
		atomic_fetch_or(&ownfd_words[(unsigned int)fd / OWNFD_WORD_BITS],
				(uint64_t)1 << (unsigned int)fd % OWNFD_WORD_BITS);
}

void ownfd_remove(int fd)
{
	if ((unsigned int)fd < FDTABLE_SIZE)
		atomic_fetch_and(&ownfd_words[(unsigned int)fd / OWNFD_WORD_BITS],
				 ~((uint64_t)1 << (unsigned int)fd % OWNFD_WORD_BITS));
}

int ownfd_take(int fd)
{
	fd = fd_move_high(fd);
	ownfd_add(fd);
	return fd;
}

void ownfd_close(int fd)
{
	ownfd_remove(fd);
	fd_close(fd);
}

unsigned int ownfd_next(unsigned int from)
{
	while (from < FDTABLE_SIZE) {
		uint64_t word = atomic_load_explicit(&ownfd_words[from / OWNFD_WORD_BITS],
						     memory_order_relaxed) >>
				from % OWNFD_WORD_BITS;

		if (word)
			return from + (unsigned int)__builtin_ctzll(word);
		from = (from / OWNFD_WORD_BITS + 1) * OWNFD_WORD_BITS;
	}
	return FDTABLE_SIZE;
}

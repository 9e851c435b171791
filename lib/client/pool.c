/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/mman.h>

#include "client/pool.h"

int pool_init(struct pool *pool, size_t item_bytes, uint32_t capacity, int shared)
{
	int flags = MAP_ANONYMOUS | MAP_NORESERVE | (shared ? MAP_SHARED : MAP_PRIVATE);
	void *base = mmap(NULL, item_bytes * capacity, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (base == MAP_FAILED)
		return -ENOMEM;
	*pool = (struct pool){.base = base, .item_bytes = item_bytes, .capacity = capacity};
	return 0;
}

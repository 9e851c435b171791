/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>

#include "client/fault.h"
#include "client/io.h"

int io_init(struct io *io, const struct iovec *iov, size_t n)
{
	size_t left = 0;

	if (n > IOV_MAX)
		return -EMSGSIZE;
	for (size_t i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - left)
			return -EINVAL;
		left += iov[i].iov_len;
	}
	*io = (struct io){.iov = iov, .n = n, .left = left};
	return 0;
}

/* The contiguous piece at the position, at most @len bytes; advances behind it. */
static size_t io_piece(struct io *io, size_t len, uint8_t **ret_at)
{
	size_t room;

	while (io->iov->iov_len == io->off) {
		io->iov++;
		io->n--;
		io->off = 0;
	}
	room = io->iov->iov_len - io->off;
	if (room > len)
		room = len;
	*ret_at = (uint8_t *)io->iov->iov_base + io->off;
	io->off += room;
	io->left -= room;
	return room;
}

bool io_gather(struct io *io, uint8_t *dst, size_t len)
{
	uint8_t *at;

	while (len) {
		size_t n = io_piece(io, len, &at);

		if (!fault_copy(dst, at, n))
			return false;
		dst += n;
		len -= n;
	}
	return true;
}

bool io_scatter(struct io *io, const uint8_t *src, size_t len)
{
	uint8_t *at;

	while (len) {
		size_t n = io_piece(io, len, &at);

		if (!fault_copy(at, src, n))
			return false;
		src += n;
		len -= n;
	}
	return true;
}

void io_skip(struct io *io, size_t len)
{
	uint8_t *at;

	while (len)
		len -= io_piece(io, len, &at);
}

size_t io_rest(const struct io *io, struct iovec *ret_iov, size_t cap, uint64_t limit)
{
	size_t count = 0;
	size_t off = io->off;

	for (size_t i = 0; i < io->n && count < cap && limit; i++, off = 0) {
		size_t len = io->iov[i].iov_len - off;

		if (!len)
			continue;
		if (len > limit)
			len = limit;
		limit -= len;
		ret_iov[count++] = (struct iovec){(uint8_t *)io->iov[i].iov_base + off, len};
	}
	return count;
}

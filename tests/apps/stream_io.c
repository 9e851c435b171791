/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shunt/shunt.h"

#include "base/util.h"
#include "stream_io.h"

/* How often the rarer kinds of a receive are chosen, and how much a peek looks at. Chosen. */
#define PEEK_PCT 5
#define WAITALL_PCT 5
#define PEEK_BYTES 512u

/* Cut @buf into at most three pieces at random places; how many. */
static int cut(struct prng *prng, const void *buf, size_t len, struct iovec iov[3])
{
	char *p = (char *)(uintptr_t)buf;
	size_t part;
	int n = 0;

	while (n < 2 && len > 1) {
		part = prng_below(prng, len);
		iov[n++] = (struct iovec){p, part};
		p += part;
		len -= part;
	}
	iov[n++] = (struct iovec){p, len};
	return n;
}

static ssize_t plain_send(struct stream_io *io, unsigned int call, struct msghdr *msg)
{
	const struct iovec *iov = msg->msg_iov;
	ssize_t rc;

	switch (call) {
	case 0:
		rc = send(io->fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL);
		break;
	case 1:
		rc = write(io->fd, iov[0].iov_base, iov[0].iov_len);
		break;
	case 2:
		rc = writev(io->fd, iov, (int)msg->msg_iovlen);
		break;
	default:
		rc = sendmsg(io->fd, msg, MSG_NOSIGNAL);
		break;
	}
	return rc < 0 ? -errno : rc;
}

static ssize_t plain_recv(struct stream_io *io, unsigned int call, int flags, struct msghdr *msg)
{
	const struct iovec *iov = msg->msg_iov;
	ssize_t rc;

	switch (call) {
	case 0:
		rc = recv(io->fd, iov[0].iov_base, iov[0].iov_len, flags);
		break;
	case 1:
		rc = read(io->fd, iov[0].iov_base, iov[0].iov_len);
		break;
	case 2:
		rc = readv(io->fd, iov, (int)msg->msg_iovlen);
		break;
	default:
		rc = recvmsg(io->fd, msg, flags);
		break;
	}
	return rc < 0 ? -errno : rc;
}

static ssize_t native_send(struct stream_io *io, unsigned int call, struct msghdr *msg)
{
	const struct iovec *iov = msg->msg_iov;

	if (call < 2)
		return shunt_send(io->native, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL);
	return shunt_sendmsg(io->native, msg, MSG_NOSIGNAL);
}

static ssize_t native_recv(struct stream_io *io, unsigned int call, int flags, struct msghdr *msg)
{
	const struct iovec *iov = msg->msg_iov;

	if (call < 2)
		return shunt_recv(io->native, iov[0].iov_base, iov[0].iov_len, flags);
	return shunt_recvmsg(io->native, msg, flags);
}

static ssize_t native_produce(struct stream_io *io, uint64_t offset, size_t len,
			      stream_fill_fn *fill, void *ctx)
{
	struct iovec iov[2];
	ssize_t room = shunt_reserve(io->native, len, iov);
	int rc;

	if (room <= 0)
		return room ? room : -EAGAIN;
	fill(ctx, offset, iov[0].iov_base, iov[0].iov_len);
	if (iov[1].iov_len)
		fill(ctx, offset + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
	rc = shunt_commit(io->native, (size_t)room);
	return rc < 0 ? rc : room;
}

static ssize_t native_consume(struct stream_io *io, uint64_t offset, size_t len,
			      stream_check_fn *check, void *ctx)
{
	struct iovec iov[2];
	ssize_t there = shunt_peek(io->native, len, iov);
	int rc;

	if (there <= 0)
		return there ? there : -EAGAIN;
	if (!check(ctx, offset, iov[0].iov_base, iov[0].iov_len) ||
	    (iov[1].iov_len &&
	     !check(ctx, offset + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len)))
		return -EBADMSG;
	rc = shunt_consume(io->native, (size_t)there);
	return rc < 0 ? rc : there;
}

int stream_io_open(struct stream_io *io, int fd, bool native)
{
	*io = (struct stream_io){.fd = fd};
	return native ? shunt_attach(fd, &io->native) : 0;
}

ssize_t stream_io_send(struct stream_io *io, struct prng *prng, const void *buf, size_t len)
{
	unsigned int call = io->simple ? 0 : (unsigned int)prng_below(prng, 4);
	struct iovec iov[3] = {{(void *)(uintptr_t)buf, len}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 1};

	if (call >= 2)
		msg.msg_iovlen = (size_t)cut(prng, buf, len, iov);
	return io->native ? native_send(io, call, &msg) : plain_send(io, call, &msg);
}

/* Look before taking: what was seen must be what comes. */
static ssize_t recv_twice(struct stream_io *io, void *buf, size_t len)
{
	struct iovec iov = {buf, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	uint8_t seen[PEEK_BYTES];
	struct iovec peek_iov = {seen, size_min(len, sizeof(seen))};
	struct msghdr peek = {.msg_iov = &peek_iov, .msg_iovlen = 1};
	ssize_t n_seen, n;

	n_seen = io->native ? native_recv(io, 3, MSG_PEEK, &peek)
			    : plain_recv(io, 3, MSG_PEEK, &peek);
	if (n_seen <= 0)
		return n_seen;
	n = io->native ? native_recv(io, 0, 0, &msg) : plain_recv(io, 0, 0, &msg);
	if (n > 0 && memcmp(buf, seen, size_min((size_t)n, (size_t)n_seen)) != 0)
		return -EILSEQ;
	return n;
}

ssize_t stream_io_recv(struct stream_io *io, struct prng *prng, void *buf, size_t len)
{
	unsigned int call = io->simple ? 0 : (unsigned int)prng_below(prng, 4);
	struct iovec iov[3] = {{buf, len}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 1};
	int flags = 0;

	if (!io->simple && prng_chance(prng, PEEK_PCT))
		return recv_twice(io, buf, len);
	if (call >= 2)
		msg.msg_iovlen = (size_t)cut(prng, buf, len, iov);
	else if (!io->simple && prng_chance(prng, WAITALL_PCT))
		flags = MSG_WAITALL;
	return io->native ? native_recv(io, call, flags, &msg) : plain_recv(io, call, flags, &msg);
}

ssize_t stream_io_produce(struct stream_io *io, uint64_t offset, size_t len, stream_fill_fn *fill,
			  void *ctx)
{
	return io->native && !io->simple ? native_produce(io, offset, len, fill, ctx) : -EAGAIN;
}

ssize_t stream_io_consume(struct stream_io *io, uint64_t offset, size_t len, stream_check_fn *check,
			  void *ctx)
{
	return io->native && !io->simple ? native_consume(io, offset, len, check, ctx) : -EAGAIN;
}

void stream_io_look(struct stream_io *io)
{
	char byte;

	if (io->native)
		shunt_recv(io->native, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	else
		recv(io->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

int stream_io_finish(struct stream_io *io)
{
	if (io->native)
		return shunt_shutdown(io->native, SHUT_WR);
	return shutdown(io->fd, SHUT_WR) ? -errno : 0;
}

void stream_io_lanes(struct stream_io *io, struct stream_lanes *ret_lanes)
{
	struct shunt_info info = {.size = sizeof(info)};

	memset(ret_lanes, 0, sizeof(*ret_lanes));
	if (!io->native || shunt_get_info(io->native, &info) < 0)
		return;
	ret_lanes->epoch = info.epoch;
	ret_lanes->demotions = info.demotions;
	ret_lanes->tx_lane = info.tx_lane;
	ret_lanes->rx_lane = info.rx_lane;
	ret_lanes->lane_tx_bytes = info.lane_tx_bytes;
	ret_lanes->lane_rx_bytes = info.lane_rx_bytes;
	memcpy(ret_lanes->reason, info.reason, sizeof(ret_lanes->reason));
}

int stream_io_close(struct stream_io *io)
{
	if (io->native)
		return shunt_close(io->native);
	return close(io->fd) ? -errno : 0;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sim/kernel.h"
#include "sim/oracle.h"
#include "sim/sched.h"

struct kernel kernel;

void kernel_init(void)
{
	unsigned int s;

	for (s = 0; s < 2; s++) {
		struct pipe *pipe = &kernel.pipe[s];

		*pipe = (struct pipe){.data = pipe->data, .room = pipe->room};
		kernel.sock[s] = (struct sock){.holders = 1};
	}
}

void kernel_deinit(void)
{
	unsigned int s;

	for (s = 0; s < 2; s++) {
		free(kernel.pipe[s].data);
		kernel.pipe[s] = (struct pipe){0};
	}
}

static void pipe_append(struct pipe *pipe, const void *src, size_t len)
{
	if (pipe->written + len > pipe->room) {
		pipe->room = 2 * (pipe->written + len);
		pipe->data = realloc(pipe->data, pipe->room);
		if (!pipe->data)
			abort();
	}
	memcpy(pipe->data + pipe->written, src, len);
	pipe->written += len;
}

static uint64_t pipe_room(const struct pipe *pipe)
{
	uint64_t queued = pipe->written - pipe->delivered;

	return pipe->send_bytes > queued ? pipe->send_bytes - queued : 0;
}

/* --- resets ----------------------------------------------------------------------------------- */

/* @side closes without ceremony: what is queued is lost, and the peer will hear of it. */
static void sock_reset(unsigned int side)
{
	kernel.pipe[0].dead = kernel.pipe[1].dead = true;
	kernel.sock[side].closed = true;
	if (!kernel.sock[!side].closed)
		kernel.sock[!side].reset_on_its_way = true;
	oracle_reset_sent();
}

static void sock_reset_arrives(unsigned int side)
{
	struct sock *sock = &kernel.sock[side];

	sock->reset_on_its_way = false;
	sock->err = kernel.pipe[!side].fin_delivered ? EPIPE : ECONNRESET;
	sim_trace("RST arrives at side %u", side);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Whether @side may send; else -errno. */
static int send_check(unsigned int side)
{
	const struct sock *sock = &kernel.sock[side];

	if (sock->err)
		return -sock->err;
	return sock->shut || sock->closed ? -EPIPE : 0;
}

ssize_t kernel_send(unsigned int side, const void *src, size_t len)
{
	struct pipe *pipe = &kernel.pipe[side];
	size_t n = size_min(len, pipe_room(pipe));
	int rc = send_check(side);

	if (rc)
		return rc;
	if (n > 1 && sim_chance(20))
		n = 1 + sim_below(n);
	pipe_append(pipe, src, n);
	return (ssize_t)n;
}

ssize_t kernel_send_stream(unsigned int side, size_t len)
{
	struct pipe *pipe = &kernel.pipe[side];
	size_t n = size_min(len, pipe_room(pipe)), done, part;
	const uint8_t *bytes;
	int rc = send_check(side);

	if (rc)
		return rc;
	if (n > 1 && sim_chance(20))
		n = 1 + sim_below(n);
	oracle_tcp_send(side);
	for (done = 0; done < n; done += part) {
		part = n - done;
		bytes = oracle_bytes(side, oracle_sent(side), &part);
		pipe_append(pipe, bytes, part);
		pipe->stream_bytes += part;
	}
	return (ssize_t)n;
}

ssize_t kernel_receive(unsigned int side, void *dst, size_t len)
{
	struct pipe *pipe = &kernel.pipe[!side];
	size_t n = size_min(len, kernel_readable(side));

	if (n) {
		if (n > 1 && sim_chance(10))
			n = 1 + sim_below(n);
		memcpy(dst, pipe->data + pipe->consumed, n);
		oracle_received(side, dst, n);
		pipe->consumed += n;
		return (ssize_t)n;
	}
	if (!len || pipe->fin_delivered)
		return 0;
	return kernel.sock[side].err ? -kernel.sock[side].err : -EAGAIN;
}

void kernel_shutdown(unsigned int side)
{
	kernel.sock[side].shut = true;
	kernel.pipe[side].fin_queued = true;
}

void kernel_abort(unsigned int side)
{
	kernel.sock[side].err = ECONNRESET;
	sock_reset(side);
	kernel.sock[side].closed = false;
}

void kernel_close(unsigned int side)
{
	struct sock *sock = &kernel.sock[side];

	sim_trace("one holder of side %u fewer than %u", side, sock->holders);
	if (--sock->holders)
		return;
	if (sock->linger0 || kernel_readable(side)) {
		sock_reset(side);
		return;
	}
	kernel_shutdown(side);
	sock->closed = true;
}

unsigned int kernel_events(unsigned int side)
{
	const struct pipe *in = &kernel.pipe[!side];
	unsigned int events = 0;

	if (in->fin_delivered)
		events |= KERNEL_RDHUP | KERNEL_IN;
	if (kernel.sock[side].err)
		events |= KERNEL_ERR | KERNEL_IN | KERNEL_OUT;
	if (kernel_readable(side))
		events |= KERNEL_IN;
	if (pipe_room(&kernel.pipe[side]) || kernel.sock[side].shut)
		events |= KERNEL_OUT;
	return events;
}

struct tcp_count kernel_written(unsigned int side)
{
	return tcp_count(kernel.pipe[side].written);
}

int kernel_consumed(unsigned int side, struct tcp_count *ret_consumed)
{
	const struct sock *sock = &kernel.sock[side];

	if (sock->err || (sock->shut && kernel.pipe[!side].fin_delivered))
		return -ENOTCONN;
	*ret_consumed = tcp_count(kernel.pipe[!side].consumed);
	return 0;
}

uint64_t kernel_readable(unsigned int side)
{
	return kernel.pipe[!side].delivered - kernel.pipe[!side].consumed;
}

/* --- the network ------------------------------------------------------------------------------ */

static uint64_t pipe_movable(const struct pipe *pipe)
{
	uint64_t unread = pipe->delivered - pipe->consumed;
	uint64_t window = pipe->receive_bytes > unread ? pipe->receive_bytes - unread : 0;

	return pipe->dead ? 0 : u64_min(window, pipe->written - pipe->delivered);
}

static bool fin_movable(const struct pipe *pipe)
{
	return pipe->fin_queued && !pipe->fin_delivered && !pipe->dead &&
	       pipe->delivered == pipe->written;
}

static bool net_ready(void *arg)
{
	unsigned int s;

	(void)arg;
	for (s = 0; s < 2; s++)
		if (pipe_movable(&kernel.pipe[s]) || fin_movable(&kernel.pipe[s]) ||
		    kernel.sock[s].reset_on_its_way)
			return true;
	return false;
}

/* Move one thing from @side to the other. */
static void net_move(unsigned int side)
{
	struct pipe *pipe = &kernel.pipe[side];
	uint64_t n = pipe_movable(pipe);

	if (kernel.sock[side].reset_on_its_way && sim_chance(50)) {
		sock_reset_arrives(side);
		return;
	}
	if (n && kernel.sock[!side].closed) {
		/* Data for a socket that nobody has any more. */
		sock_reset(!side);
		return;
	}
	if (n) {
		pipe->delivered += sim_chance(60) ? n : 1 + sim_below(n);
	} else if (fin_movable(pipe)) {
		pipe->fin_delivered = true;
		sim_trace("FIN of side %u arrives", side);
	}
}

void kernel_net(void *arg)
{
	for (;;) {
		sim_wait(net_ready, NULL, SCHED_FOREVER);
		sim_pause(sim_below(kernel.delay_ticks + 1), false);
		net_move((unsigned int)sim_below(2));
	}
	(void)arg;
}

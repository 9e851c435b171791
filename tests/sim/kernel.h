/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/offset.h"

/*
 * TCP as a kernel does it: one socket per side, for each direction a send queue and a receive queue
 * with limits of their own, and a network in between that takes its time. FIN, RST and the payload
 * counters behave as Linux's do.
 */

enum kernel_events {
	KERNEL_IN = 1 << 0,    /* something to read, EOF and errors included */
	KERNEL_OUT = 1 << 1,   /* room to write, errors included */
	KERNEL_RDHUP = 1 << 2, /* the peer's FIN is here */
	KERNEL_ERR = 1 << 3,
	KERNEL_GONE = KERNEL_RDHUP | KERNEL_ERR,
};

/* The bytes that side s sends, as pipe[s]. Counts since the connection began. */
struct pipe {
	uint8_t *data; /* every byte ever written */
	size_t room;
	uint64_t written, delivered, consumed;
	uint64_t stream_bytes; /* of those written, bytes that were not on a ring before */
	uint32_t send_bytes, receive_bytes; /* limits of the two queues */
	bool fin_queued, fin_delivered;
	bool dead; /* reset: nothing moves any more */
};

struct sock {
	unsigned int holders;
	bool linger0; /* the last close resets */
	bool shut, closed;
	bool reset_on_its_way; /* a RST is coming in */
	int err;	       /* as errno, once it has come */
};

struct kernel {
	struct pipe pipe[2];
	struct sock sock[2];
	uint64_t delay_ticks; /* at most, of a delivery */
};

extern struct kernel kernel;

void kernel_init(void);
void kernel_deinit(void);
/* The network's task. */
void kernel_net(void *arg);

/* Without blocking, possibly less than asked: bytes; 0 for no room; -errno. */
ssize_t kernel_send(unsigned int side, const void *src, size_t len);
/* New bytes of the stream, made up as they go. */
ssize_t kernel_send_stream(unsigned int side, size_t len);
/* Bytes, 0 at a FIN, -EAGAIN, -errno. */
ssize_t kernel_receive(unsigned int side, void *dst, size_t len);
void kernel_shutdown(unsigned int side);
/* Reset the connection; the socket stays, with nothing but an error in it. */
void kernel_abort(unsigned int side);
/* One holder fewer; the last one closes. */
void kernel_close(unsigned int side);

unsigned int kernel_events(unsigned int side);
/* As lib/os/tcp.h counts. */
struct tcp_count kernel_written(unsigned int side);
/* 0; -ENOTCONN once both have shut, or after a reset: then the counters are gone. */
int kernel_consumed(unsigned int side, struct tcp_count *ret_consumed);
/* Bytes that @side could read at once. */
uint64_t kernel_readable(unsigned int side);

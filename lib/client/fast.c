/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/single_threaded.h>

#include "client/fault.h"
#include "client/io.h"
#include "client/session.h"
#include "client/signal.h"
#include "client/stream.h"
#include "core/lane_fast.h"

/*
 * One buffer on a running lane: what nearly every call of a program on a lane is. Everything that
 * is not that goes the way of sock_sendmsg() and sock_recvmsg().
 */

/* Flags that change nothing for a read that is covered. */
#define FAST_RX_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_WAITALL)

/* Nobody else can be in the socket: no lock is needed, only that signals are put off. */
static inline bool nobody_else(const struct sock *sock)
{
	return __libc_single_threaded && sock->alone;
}

/* Bytes, or 0: not here. */
static inline ssize_t send_fast(struct sock *sock, const void *buf, size_t len)
{
	struct lane_wake *wake = &sock->sh->lane.tx.wake;
	bool alone = nobody_else(sock);
	uint8_t *at = NULL;

	if (alone)
		section_enter();
	else
		sock_lock_tx(sock);
	if (sock->lane.peer && sock_stage(sock) == CONN_LANE)
		at = lane_tx_fast(&sock->lane, len);
	if (at && !fault_copy(at, buf, len))
		at = NULL;
	if (at) {
		lane_tx_commit(&sock->lane, len);
		if (!lane_wakes_nobody(&sock->lane, wake))
			sock_ring(sock, wake);
	}
	if (alone)
		section_leave();
	else
		sock_unlock_tx(sock);
	return at ? (ssize_t)len : 0;
}

static inline ssize_t recv_fast(struct sock *sock, void *buf, size_t len)
{
	struct lane_wake *wake = &sock->sh->lane.rx.wake;
	bool alone = nobody_else(sock);
	const uint8_t *at = NULL;

	if (alone)
		section_enter();
	else
		sock_lock_rx(sock);
	if (sock->lane.peer && sock_stage(sock) == CONN_LANE)
		at = lane_rx_fast(&sock->lane, len);
	if (at && !fault_copy(buf, at, len))
		at = NULL;
	if (at) {
		lane_rx_consume(&sock->lane, len);
		if (!lane_wakes_nobody(&sock->lane, wake))
			sock_ring(sock, wake);
	}
	if (alone)
		section_leave();
	else
		sock_unlock_rx(sock);
	return at ? (ssize_t)len : 0;
}

/* Whether a call may begin here at all. */
static inline bool is_fast(const struct sock *sock, size_t len)
{
	return sock_stage(sock) == CONN_LANE && len - 1 < IO_CHUNK_BYTES &&
	       !atomic_load_explicit(&sock->late_error, memory_order_relaxed) && !session_calls();
}

/* The long ways, apart, so that the short one builds no message. */
static __attribute__((noinline)) ssize_t send_slow(struct sock *sock, const void *buf, size_t len,
						   int flags)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return sock_sendmsg(sock, &msg, flags);
}

static __attribute__((noinline)) ssize_t recv_slow(struct sock *sock, void *buf, size_t len,
						   int flags)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return sock_recvmsg(sock, &msg, flags);
}

ssize_t sock_send(struct sock *sock, const void *buf, size_t len, int flags)
{
	if (!(flags & ~IO_TX_RING_FLAGS) && is_fast(sock, len) && send_fast(sock, buf, len))
		return (ssize_t)len;
	return send_slow(sock, buf, len, flags);
}

ssize_t sock_recv(struct sock *sock, void *buf, size_t len, int flags)
{
	if (!(flags & ~FAST_RX_FLAGS) && is_fast(sock, len) && recv_fast(sock, buf, len))
		return (ssize_t)len;
	return recv_slow(sock, buf, len, flags);
}

/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/single_threaded.h>

#include "client/fault.h"
#include "client/session.h"
#include "client/signal.h"
#include "client/stream.h"
#include "core/lane_fast.h"

/*
 * One buffer on a running lane: what nearly every call of a program on a lane is. Everything that
 * is not that goes the way of sock_sendmsg() and sock_recvmsg().
 */

/* Flags that change nothing for a message that finds room, or a read that is covered. */
#define FAST_TX_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR | MSG_DONTROUTE)
#define FAST_RX_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_WAITALL)
/* Largest message; copying a larger one in pieces lets both ends copy at the same time. */
#define FAST_BYTES_MAX 16384u

/* How far ahead of the producer ring lines are claimed: they were last in the reader's cache, and
 * the store of prod waits for the bytes before it. Chosen: 1, 8 and 32 lines were compared. */
#define CLAIM_AHEAD_BYTES 512u

static inline void claim(void *at)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : "+m"(*(char *)at));
#else
	__builtin_prefetch(at, 1);
#endif
}

/* Nobody else can be in the socket: no lock is needed, only that signals are put off. */
static inline bool nobody_else(const struct sock *sock)
{
	return __libc_single_threaded && sock->alone;
}

static inline void fast_lock(struct sock *sock, struct slock *lock, bool alone)
{
	if (alone)
		section_enter();
	else if (lock == &sock->sh->tx_lock)
		sock_lock_tx(sock);
	else
		sock_lock_rx(sock);
}

static inline void fast_unlock(struct slock *lock, bool alone)
{
	if (!alone)
		slock_unlock(lock);
	section_leave();
}

/* Bytes, or 0: not here. */
static inline ssize_t send_fast(struct sock *sock, const void *buf, size_t len)
{
	struct lane_wake *wake = &sock->sh->lane.tx.wake;
	bool alone = nobody_else(sock);
	uint8_t *at = NULL;

	fast_lock(sock, &sock->sh->tx_lock, alone);
	if (sock->lane.peer && sock_stage(sock) == CONN_LANE)
		at = lane_tx_fast(&sock->lane, len);
	if (at && !fault_copy(at, buf, len))
		at = NULL;
	if (at) {
		lane_tx_commit(&sock->lane, len);
		if (!lane_wakes_nobody(&sock->lane, wake))
			sock_ring(sock, wake);
		claim(half_ring(sock->lane.own) + ((sock->sh->lane.tx.prod.v + CLAIM_AHEAD_BYTES) &
						   (sock->lane.own_bytes - 1)));
	}
	fast_unlock(&sock->sh->tx_lock, alone);
	return at ? (ssize_t)len : 0;
}

static inline ssize_t recv_fast(struct sock *sock, void *buf, size_t len)
{
	struct lane_wake *wake = &sock->sh->lane.rx.wake;
	bool alone = nobody_else(sock);
	const uint8_t *at = NULL;

	fast_lock(sock, &sock->sh->rx_lock, alone);
	if (sock->lane.peer && sock_stage(sock) == CONN_LANE)
		at = lane_rx_fast(&sock->lane, len);
	if (at && !fault_copy(buf, at, len))
		at = NULL;
	if (at) {
		lane_rx_consume(&sock->lane, len);
		if (!lane_wakes_nobody(&sock->lane, wake))
			sock_ring(sock, wake);
	}
	fast_unlock(&sock->sh->rx_lock, alone);
	return at ? (ssize_t)len : 0;
}

/* Whether a call may begin here at all. */
static inline bool is_fast(const struct sock *sock, size_t len)
{
	return sock_stage(sock) == CONN_LANE && len - 1 < FAST_BYTES_MAX &&
	       !atomic_load_explicit(&sock->late_error, memory_order_relaxed) && !session_calls();
}

ssize_t sock_send(struct sock *sock, const void *buf, size_t len, int flags)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (!(flags & ~FAST_TX_FLAGS) && is_fast(sock, len) && send_fast(sock, buf, len))
		return (ssize_t)len;
	return sock_sendmsg(sock, &msg, flags);
}

ssize_t sock_recv(struct sock *sock, void *buf, size_t len, int flags)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (!(flags & ~FAST_RX_FLAGS) && is_fast(sock, len) && recv_fast(sock, buf, len))
		return (ssize_t)len;
	return sock_recvmsg(sock, &msg, flags);
}

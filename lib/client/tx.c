/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>

#include "client/cancel.h"
#include "client/demote.h"
#include "client/io.h"
#include "client/promote.h"
#include "client/remote.h"
#include "client/session.h"
#include "client/stream.h"
#include "client/turn.h"
#include "client/wait.h"
#include "os/clock.h"
#include "os/syswait.h"
#include "os/tcp.h"

/* Vectors of one kernel send of the covered path. */
#define TX_IOVS 64u

/* What an attempt came to, besides a byte count or -errno. */
#define TX_WAIT (-EINPROGRESS) /* wait as noted, then try again */
#define TX_RETRY (-ESTALE)     /* the stage changed: look again */
#define TX_SHUT (-ESHUTDOWN)   /* the direction is shut, and the kernel not told yet */

/* A call that has sent something reports that, and the kernel would have kept the error for the
 * next one. */
static void keep_error(struct sock *sock, ssize_t n, bool partial)
{
	if (partial && n < 0 && n != TX_RETRY && n != -EAGAIN && n != -EINTR && n != -EPIPE)
		atomic_store(&sock->late_error, (int)n);
}

/* Send the rest on TCP, without blocking; the caller is counted as busy. */
static ssize_t tx_kernel(struct sock *sock, struct io *io, int flags, bool partial)
{
	struct iovec iov[TX_IOVS];
	struct msghdr msg = {.msg_iov = iov};
	ssize_t n;

	msg.msg_iovlen = io_rest(io, iov, TX_IOVS, UINT64_MAX);
	/* A call that has sent something reports that; it raises no SIGPIPE. */
	n = sys_sendmsg(sock->fd, &msg, flags | MSG_DONTWAIT | (partial ? MSG_NOSIGNAL : 0));
	if (n > 0)
		io_skip(io, (size_t)n);
	keep_error(sock, n, partial);
	return n;
}

/* Copy into the ring what fits. Transmit lock. Bytes, or -EFAULT with nothing done. */
static ssize_t tx_ring(struct sock *sock, struct io *io, const struct lane_plan *plan)
{
	uint8_t *ring = half_ring(sock->lane.own);

	struct io begin = *io;

	if (!io_gather(io, ring + plan->spans.pos[0], plan->spans.len[0]) ||
	    !io_gather(io, ring + plan->spans.pos[1], plan->spans.len[1])) {
		*io = begin;
		return -EFAULT;
	}
	lane_tx_commit(&sock->lane, plan->limit);
	sock_ring(sock, &sock->sh->lane.tx.wake);
	return (ssize_t)plan->limit;
}

/* The peer was killed in its segment: nobody reads the ring. What follows meets the kernel. */
static bool tx_reader_gone(struct sock *sock)
{
	struct pollfd tcp = {.fd = sock->fd, .events = POLLRDHUP};

	if (sys_poll(&tcp, 1, 0) <= 0)
		return false;
	if (tcp.revents & (POLLHUP | POLLERR))
		return true;
	/* A FIN behind an announced end is a half-close: the peer still reads. */
	return (tcp.revents & POLLRDHUP) && atomic_load(&sock->lane.peer->tx_end) == OPT_NONE;
}

/* A FIN concerns a sender that waits for room, unless the peer's direction has ended in order. */
static short tx_watch(const struct sock *sock)
{
	if (sock->lane.remote && sock->sh->lane.tx.fin)
		return 0;
	return atomic_load(&sock->sh->ended) & SOCK_RX_ENDED ? 0 : POLLRDHUP;
}

/* One attempt of a call. */
struct tx_try {
	struct io *io;
	struct wait_for *wait; /* entered when the attempt ends with TX_WAIT */
	int flags;
	bool partial; /* the call has sent something already */
};

/*
 * Nothing can be put into the ring now. Whether to ask for the route again, since the reader is
 * gone. Between hosts a FIN says nothing of the ring, which the daemons see to: only an error of
 * the connection ends the wait for them (*@ret_tcp: TCP tells it). Transmit lock.
 */
static bool tx_no_room(struct sock *sock, bool *ret_tcp)
{
	struct pollfd tcp = {.fd = sock->fd, .events = POLLRDHUP};

	if (!sock->lane.remote || !sock->sh->lane.tx.fin) {
		if (!tx_reader_gone(sock))
			return false;
		lane_tx_fin(&sock->lane);
		return true;
	}
	*ret_tcp = sys_poll(&tcp, 1, 0) > 0 && (tcp.revents & (POLLHUP | POLLERR));
	return false;
}

/* Under the transmit lock. Bytes > 0, TX_WAIT, TX_RETRY, or -errno. *@ret_tcp with TX_RETRY: TCP is
 * to take the bytes. */
static ssize_t tx_locked(struct sock *sock, const struct tx_try *try, bool *ret_tcp)
{
	struct wait_for *ret_wait = try->wait;
	struct io *io = try->io;
	int flags = try->flags;
	struct lane_plan plan;
	size_t done = 0;
	ssize_t n;
	int route, rc;

	if (!sock->lane.peer || !stage_on_lane(sock_stage(sock)))
		return TX_RETRY;
	if (sock->lane.remote && atomic_load(&sock->sh->tx_shut))
		return TX_SHUT;
	for (;;) {
		size_t want = io->left < IO_CHUNK_BYTES ? io->left : IO_CHUNK_BYTES;

		ret_wait->mark = wake_mark(sock->lane.own, sock->lane.peer);
		route = lane_tx_route(&sock->lane, want, &plan);
		switch (route) {
		case TX_VIA_RING:
			n = tx_ring(sock, io, &plan);
			if (n < 0)
				return done ? (ssize_t)done : n;
			done += (size_t)n;
			if (!io->left)
				return (ssize_t)done;
			continue;
		case TX_VIA_START:
			if (turn_start(sock))
				continue;
			*ret_tcp = true;
			return done ? (ssize_t)done : TX_RETRY;
		case TX_VIA_TCP:
			remote_tx_over(sock);
			*ret_tcp = true;
			return done ? (ssize_t)done : TX_RETRY;
		case TX_VIA_STOP:
		case TX_VIA_BACKLOG:
			rc = turn_backlog(sock, route);
			if (!rc)
				continue;
			if (rc != -EAGAIN)
				return done ? (ssize_t)done : rc;
			sock_ring(sock, &sock->sh->lane.tx.wake);
			wait_enter(sock, ret_wait, WAKE_SPACE, POLLOUT, false);
			return TX_WAIT;
		case TX_VIA_WAIT:
			if (done)
				return (ssize_t)done;
			if (tx_no_room(sock, ret_tcp))
				continue;
			if (*ret_tcp)
				return TX_RETRY;
			remote_watch(sock);
			/* Looking for a route may have ended the segment: who is waited for has to
			 * know. */
			sock_ring(sock, &sock->sh->lane.tx.wake);
			wait_enter(sock, ret_wait, WAKE_SPACE, tx_watch(sock),
				   !(flags & MSG_DONTWAIT));
			return TX_WAIT;
		default:
			return -EBADMSG;
		}
	}
}

/* As the kernel does it. */
static ssize_t tx_broken_pipe(int flags)
{
	if (!(flags & MSG_NOSIGNAL))
		sys_tgkill(sys_getpid(), sys_gettid(), SIGPIPE);
	return -EPIPE;
}

static ssize_t tx_attempt(struct sock *sock, const struct tx_try *try, bool *ret_due)
{
	bool via_tcp = false;
	ssize_t n;

	sock_lock_tx(sock);
	n = tx_locked(sock, try, &via_tcp);
	*ret_due = sock->lane.peer && turn_due_tx(sock);
	if (via_tcp && n == TX_RETRY)
		atomic_fetch_add(&sock_holder(sock)->tx_busy, 1); /* before the lock is left */
	else
		via_tcp = false;
	sock_unlock_tx(sock);
	if (via_tcp) {
		n = tx_kernel(sock, try->io, try->flags, try->partial);
		atomic_fetch_sub(&sock_holder(sock)->tx_busy, 1);
		if (n == -EAGAIN) {
			*try->wait = (struct wait_for){.tcp_events = POLLOUT};
			n = TX_WAIT;
		}
	}
	if (n == -EBADMSG) {
		demote_reset(sock, REASON_LANE_CORRUPT);
		return TX_RETRY; /* the kernel tells */
	}
	return n == TX_SHUT ? tx_broken_pipe(try->partial ? MSG_NOSIGNAL : try->flags) : n;
}

static ssize_t tx_lane(struct sock *sock, const struct tx_try *try)
{
	bool due;
	ssize_t n = tx_attempt(sock, try, &due);

	if (!due)
		return n;
	if (n == TX_WAIT)
		wait_leave(sock, try->wait);
	sock_turn(sock);
	/* The turn may have made room. Once: one that cannot be completed now stays due. */
	return n == TX_WAIT ? tx_attempt(sock, try, &due) : n;
}

/* A lane is being set up: TCP, without blocking in it. */
static ssize_t tx_pending(struct sock *sock, struct io *io, int flags, bool partial,
			  struct wait_for *ret_wait)
{
	struct holder *holder = sock_holder(sock);
	ssize_t n = TX_RETRY;

	session_poll();
	/* Full fence; partner: the stage is stored before turn_start() sums up who is busy. */
	atomic_fetch_add(&holder->tx_busy, 1);
	if (stage_pending(sock_stage(sock)))
		n = tx_kernel(sock, io, flags, partial);
	atomic_fetch_sub(&holder->tx_busy, 1);
	if (n != -EAGAIN)
		return n;
	*ret_wait = (struct wait_for){.tcp_events = POLLOUT};
	return TX_WAIT;
}

/* The cheaper call where it says the same. */
static ssize_t send_plainly(int fd, const struct msghdr *msg, int flags)
{
	if (msg->msg_iovlen == 1 && !msg->msg_name && !msg->msg_controllen)
		return sys_sendto(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags, NULL,
				  0);
	return sys_sendmsg(fd, msg, flags);
}

/* Plain TCP: one kernel call, which blocks as the socket does. */
static ssize_t tx_plain(struct sock *sock, const struct msghdr *msg, int flags)
{
	struct holder *holder = sock_holder(sock);
	ssize_t n = TX_RETRY;
	uint32_t stage;

	/* Full fence; partner as in tx_pending(). */
	atomic_fetch_add(&holder->tx_busy, 1);
	stage = sock_stage(sock);
	if (!stage_pending(stage) && !stage_on_lane(stage))
		n = CANCELLABLE(send_plainly(sock->fd, msg, flags));
	atomic_fetch_sub(&holder->tx_busy, 1);
	if (n == -ENOTCONN && stage == CONN_RESET)
		n = -EPIPE;
	return n;
}

static bool tx_blocks(const struct sock *sock, int flags)
{
	int fl;

	if (flags & MSG_DONTWAIT)
		return false;
	fl = sys_fcntl(sock->fd, F_GETFL, 0);
	return fl < 0 || !(fl & O_NONBLOCK);
}

/* A set that watches the socket is to hear of the next room. True: there is some by now. */
static bool tx_arm(struct sock *sock, const struct wait_for *wait)
{
	if (!wait->kinds || !__atomic_load_n(&sock->entries, __ATOMIC_RELAXED))
		return false;
	wake_arm(sock->lane.own, WAKE_SPACE);
	return !wake_may_sleep(sock->lane.own, sock->lane.peer, WAKE_SPACE, &wait->mark);
}

/* The covered path: ring, or TCP step by step. */
static ssize_t tx_covered(struct sock *sock, struct io *io, int flags, struct sock_stay *stay)
{
	struct signal_mark since = signal_mark();
	size_t total = io->left;
	struct wait_for wait;
	ssize_t n;
	int rc;

	for (;;) {
		bool partial = io->left < total;
		uint32_t stage = sock_stage(sock);
		int step_flags = flags;

		wait.kinds = 0;
		if (atomic_load_explicit(&sock->sh->nonblock, memory_order_relaxed))
			step_flags |= MSG_DONTWAIT;
		if (stage_on_lane(stage))
			n = tx_lane(sock, &(struct tx_try){io, &wait, step_flags, partial});
		else if (stage_pending(stage))
			n = tx_pending(sock, io, flags, partial, &wait);
		else
			n = -ECANCELED; /* the rest is plain TCP's */
		if (n >= 0 && (!io->left || !tx_blocks(sock, flags)))
			break;
		if (n >= 0 || n == TX_RETRY)
			continue;
		if (n != TX_WAIT)
			break;
		if (!tx_blocks(sock, flags)) {
			bool again = tx_arm(sock, &wait);

			wait_leave(sock, &wait);
			if (again)
				continue;
			atomic_store(&sock->tx_again, 1);
			n = -EAGAIN;
			break;
		}
		if (!stay->deadline) {
			stay->deadline = sock->snd_timeout_ns
						 ? clock_now_ns() + sock->snd_timeout_ns
						 : WAIT_FOREVER;
			sock_stay(sock, stay);
		}
		rc = sock_wait(sock, &wait, stay->deadline, &since);
		if (rc == -EINTR && !sock->snd_timeout_ns && io->left == total &&
		    signal_restarts(&since)) {
			since = signal_mark();
			rc = 0;
		}
		if (rc) {
			n = rc;
			break;
		}
	}
	return io->left < total && n != -ECANCELED ? (ssize_t)(total - io->left) : n;
}

/* The lane ended in mid-call: plain TCP takes the rest, and blocks as the socket does. */
static __attribute__((noinline)) ssize_t tx_rest(struct sock *sock, struct io *io, int flags,
						 bool partial)
{
	struct iovec iov[IOV_MAX];
	struct msghdr msg = {.msg_iov = iov};
	ssize_t n;

	msg.msg_iovlen = io_rest(io, iov, IOV_MAX, UINT64_MAX);
	n = tx_plain(sock, &msg, partial ? flags | MSG_NOSIGNAL : flags);
	if (n > 0)
		io_skip(io, (size_t)n);
	keep_error(sock, n, partial);
	return n;
}

static ssize_t tx_on_lane(struct sock *sock, const struct msghdr *msg, int flags)
{
	struct sock_stay stay = {0};
	struct io io;
	size_t total;
	ssize_t n = io_init(&io, msg->msg_iov, msg->msg_iovlen);

	if (!n && !io.left && atomic_load(&sock->sh->tx_shut))
		return tx_broken_pipe(flags);
	if (n || !io.left)
		return n;
	total = io.left;
	do {
		n = tx_covered(sock, &io, flags, &stay);
		if (n == -ECANCELED)
			n = tx_rest(sock, &io, flags, io.left < total);
	} while (n == TX_RETRY);
	sock_leave(sock, &stay);
	return io.left < total ? (ssize_t)(total - io.left) : n;
}

ssize_t sock_sendmsg(struct sock *sock, const struct msghdr *msg, int flags)
{
	uint32_t stage = sock_stage(sock);
	ssize_t n = TX_RETRY;

	if (atomic_load_explicit(&sock->late_error, memory_order_relaxed)) {
		n = atomic_exchange(&sock->late_error, 0);
		if (n)
			return n;
		n = TX_RETRY;
	}
	if (session_calls())
		session_poll();
	if (!stage_on_lane(stage) && !stage_pending(stage)) {
		n = tx_plain(sock, msg, flags);
		if (n != TX_RETRY) {
			if (stage == CONN_TCP && session_count(&sock->policy))
				promote_try(sock);
			return n;
		}
	}
	if ((flags & ~IO_TX_RING_FLAGS) || msg->msg_controllen) {
		n = demote_unserved(sock, flags);
		return n ? n : sys_sendmsg(sock->fd, msg, flags);
	}
	return tx_on_lane(sock, msg, flags);
}

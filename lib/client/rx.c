/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/ioctl.h>

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

/* Flags that the ring can serve. */
#define RX_RING_FLAGS                                                                              \
	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_PEEK | MSG_WAITALL | MSG_TRUNC | MSG_CMSG_CLOEXEC)
#define RX_IOVS 64u

/* What an attempt came to, besides a byte count, 0 for EOF, or -errno. */
#define RX_WAIT (-EINPROGRESS)
#define RX_RETRY (-ESTALE)
#define RX_ENOUGH (-EALREADY) /* the call has bytes, and no more are ready */
#define RX_PLAIN (-ECANCELED) /* the rest is plain TCP's */
#define RX_FIN (-EOVERFLOW)   /* between hosts: TCP is ahead of the ring's words */

/* Receive at most @limit bytes from TCP without blocking. */
static ssize_t rx_kernel(struct sock *sock, struct io *io, int flags, uint64_t limit)
{
	struct iovec iov[RX_IOVS];
	struct msghdr msg = {.msg_iov = iov};
	ssize_t n;

	msg.msg_iovlen = io_rest(io, iov, RX_IOVS, limit);
	n = sys_recvmsg(sock->fd, &msg, (flags & ~MSG_WAITALL) | MSG_DONTWAIT);
	if (n > 0)
		io_skip(io, (size_t)n);
	return n;
}

/* Copy out what @plan names. Receive lock. Bytes, or -EFAULT with nothing done. */
static ssize_t rx_ring(struct sock *sock, struct io *io, int flags, const struct lane_plan *plan)
{
	const uint8_t *ring = half_ring_const(sock->lane.peer);
	struct io begin = *io;

	if (flags & MSG_TRUNC) { /* discard, as TCP does */
		io_skip(io, plan->limit);
	} else if (!io_scatter(io, ring + plan->spans.pos[0], plan->spans.len[0]) ||
		   !io_scatter(io, ring + plan->spans.pos[1], plan->spans.len[1])) {
		*io = begin;
		return -EFAULT;
	}
	if (!(flags & MSG_PEEK)) {
		lane_rx_consume(&sock->lane, plan->limit);
		sock_ring(sock, &sock->sh->lane.rx.wake);
	}
	return (ssize_t)plan->limit;
}

/* TCP showed its end, @n being 0 or its error: whose is it? Receive lock. */
static ssize_t rx_end(struct sock *sock, ssize_t n)
{
	switch (lane_rx_eof(&sock->lane)) {
	case LANE_EOF_NOT_YET:
		return RX_RETRY;
	case LANE_EOF_RESET:
		if (!atomic_exchange(&sock->sh->killed, 1))
			return -ECONNRESET;
		return 0;
	case LANE_EOF_KILLED:
		atomic_store(&sock->sh->killed, 1);
		return n;
	case LANE_EOF_TCP:
		return n;
	case LANE_EOF_WAIT:
		return n ? n : RX_FIN;
	default:
		return -EBADMSG;
	}
}

/* The ring is empty: has TCP ended? Receive lock. RX_WAIT if not. */
static ssize_t rx_probe(struct sock *sock)
{
	char byte;
	ssize_t n = sys_recvfrom(sock->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL);

	if (n == -EAGAIN)
		return RX_WAIT;
	if (n <= 0)
		return rx_end(sock, n);
	/* Bytes on TCP: the peer's end was announced before them, or somebody wrote to the fd
	 * without the library. Between hosts the announcement may still be on its way. */
	switch (lane_rx_eof(&sock->lane)) {
	case LANE_EOF_NOT_YET:
		return RX_RETRY;
	case LANE_EOF_WAIT:
		return RX_FIN;
	default:
		return -EBADMSG;
	}
}

/* If the last TCP bytes before the ring were read, say so: a sibling may sleep on TCP for what is
 * on the ring. Receive lock. */
static void rx_tail_read(struct sock *sock, int flags, const struct lane_plan *plan, uint64_t n)
{
	struct lane_plan next;
	uint64_t consumed;

	if ((flags & MSG_PEEK) || plan->limit == RX_NO_LIMIT)
		return;
	sock->sh->rx_count += n;
	if (n < plan->limit || turn_consumed(sock, &consumed))
		return;
	lane_rx_tail(&sock->lane, tcp_count(consumed), 0, &next);
	sock_ring(sock, &sock->sh->lane.rx.wake);
}

/* A read ends before urgent data; the next one skips it. */
static bool rx_at_mark(const struct sock *sock)
{
	int mark = 0;

	return sys_ioctl(sock->fd, SIOCATMARK, &mark) == 0 && mark;
}

/* One attempt of a call. */
struct rx_try {
	struct io *io;
	struct wait_for *wait; /* entered when the attempt ends with RX_WAIT */
	int flags;
	bool blocks;  /* the caller will wait, and has no news of TCP */
	bool partial; /* it has bytes already: only what is ready is taken, else RX_ENOUGH, and an
		       * error of TCP's is kept for the next call */
};

/* A look found bytes on the ring. Receive lock. */
static void rx_note_pace(struct sock *sock)
{
	const typeof(sock->sh->lane.rx) *rx = &sock->sh->lane.rx;
	uint64_t sent = atomic_load_explicit(&sock->lane.own->prod, memory_order_relaxed);

	pace_note(&sock->pace, ring_off_dist(rx->cons, rx->peer_prod), sent,
		  spin_was_quick(&sock->spin));
}

/* Under the receive lock. Bytes > 0, 0 for EOF, RX_WAIT, RX_RETRY, RX_ENOUGH, or -errno. */
static ssize_t rx_locked(struct sock *sock, const struct rx_try *try)
{
	struct wait_for *ret_wait = try->wait;
	struct io *io = try->io;
	bool partial = try->partial && !(try->flags & MSG_WAITALL);
	int flags = try->flags;
	struct lane_plan plan;
	/* Room is given back in pieces; a peek gives none back and shows all there is. */
	uint64_t want = io->left < IO_CHUNK_BYTES || (flags & MSG_PEEK) ? io->left : IO_CHUNK_BYTES;
	uint64_t consumed;
	ssize_t n = RX_WAIT;
	int route;

	if (!sock->lane.peer || !stage_on_lane(sock_stage(sock)))
		return RX_RETRY;
	ret_wait->mark = wake_mark(sock->lane.own, sock->lane.peer);
	route = lane_rx_route(&sock->lane, want, &plan);
	if (route == RX_VIA_COUNT) {
		if (turn_consumed(sock, &consumed))
			return RX_RETRY;
		route = lane_rx_tail(&sock->lane, tcp_count(consumed), want, &plan);
		sock_ring(sock, &sock->sh->lane.rx.wake);
	}
	if (partial && route == RX_VIA_WAIT)
		return RX_ENOUGH;
	switch (route) {
	case RX_VIA_RING:
		ret_wait->more = sock->sh->lane.rx.peer_tx_end != OPT_NONE;
		rx_note_pace(sock);
		return rx_ring(sock, io, flags, &plan);
	case RX_VIA_TCP:
		if (partial && rx_at_mark(sock))
			return RX_ENOUGH;
		n = rx_kernel(sock, io, flags, plan.limit);
		if (n > 0) {
			ret_wait->more = plan.limit == (uint64_t)n;
			rx_tail_read(sock, flags, &plan, (uint64_t)n);
			return n;
		}
		if (partial) {
			if (n < 0 && n != -EAGAIN)
				atomic_store(&sock->late_error, (int)n);
			return RX_ENOUGH;
		}
		if (n != -EAGAIN)
			return rx_end(sock, n);
		wait_enter(sock, ret_wait, WAKE_DATA, POLLIN | POLLRDHUP, false);
		return RX_WAIT;
	case RX_VIA_WAIT:
		if (atomic_load_explicit(&sock->sh->rx_shut, memory_order_relaxed))
			return 0;
		if (!try->blocks) {
			n = rx_probe(sock);
			if (n != RX_WAIT && n != RX_FIN)
				return n;
		}
		remote_watch(sock);
		wait_enter(sock, ret_wait, WAKE_DATA, n == RX_FIN ? 0 : POLLRDHUP, true);
		return RX_WAIT;
	default:
		return -EBADMSG;
	}
}

/* The stream has ended: what is sent from now on meets the kernel's own answer. */
static void rx_fin(struct sock *sock)
{
	sock_lock_tx(sock);
	if (sock->lane.peer && stage_on_lane(sock_stage(sock)))
		lane_tx_fin(&sock->lane);
	sock_unlock_tx(sock);
}

static ssize_t rx_attempt(struct sock *sock, const struct rx_try *try, bool *ret_due)
{
	ssize_t n;

	sock_lock_rx(sock);
	n = rx_locked(sock, try);
	*ret_due = sock->lane.peer && turn_due_rx(sock);
	sock_unlock_rx(sock);
	if (n == -EBADMSG) {
		demote_reset(sock, REASON_LANE_CORRUPT);
		return RX_RETRY; /* the kernel tells */
	}
	if (n == 0 || (n < 0 && n != RX_WAIT && n != RX_RETRY && n != RX_ENOUGH))
		rx_fin(sock);
	return n;
}

static ssize_t rx_lane(struct sock *sock, const struct rx_try *try)
{
	bool due;
	ssize_t n;

	if (try->blocks)
		pace_wait(&sock->pace);
	n = rx_attempt(sock, try, &due);
	if (!due)
		return n;
	if (n == RX_WAIT)
		wait_leave(sock, try->wait);
	sock_turn(sock);
	/* The turn may have brought something. Once: one that cannot be completed now, because of
	 * another reader, stays due. */
	return n == RX_WAIT ? rx_attempt(sock, try, &due) : n;
}

/* A lane is being set up: TCP, without blocking in it. */
static ssize_t rx_pending(struct sock *sock, struct io *io, int flags, struct wait_for *ret_wait)
{
	struct holder *holder = sock_holder(sock);
	ssize_t n = RX_RETRY;

	session_poll();
	/* Full fence; partner: the stage is stored before anyone sums up who is busy. */
	atomic_fetch_add(&holder->rx_busy, 1);
	if (stage_pending(sock_stage(sock)))
		n = rx_kernel(sock, io, flags, UINT64_MAX);
	atomic_fetch_sub(&holder->rx_busy, 1);
	if (n != -EAGAIN)
		return n;
	*ret_wait = (struct wait_for){.tcp_events = POLLIN | POLLRDHUP};
	return RX_WAIT;
}

/* The cheaper call where it says the same. */
static ssize_t receive_plainly(int fd, struct msghdr *msg, int flags)
{
	ssize_t n;

	if (msg->msg_iovlen != 1 || msg->msg_name || msg->msg_control ||
	    (flags & (MSG_OOB | MSG_ERRQUEUE | MSG_CMSG_CLOEXEC)))
		return sys_recvmsg(fd, msg, flags);
	n = sys_recvfrom(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags, NULL, NULL);
	if (n >= 0) {
		msg->msg_namelen = 0;
		msg->msg_controllen = 0;
		msg->msg_flags = 0;
	}
	return n;
}

/* Plain TCP: one kernel call, which blocks as the socket does. */
static ssize_t rx_plain(struct sock *sock, struct msghdr *msg, int flags)
{
	struct holder *holder = sock_holder(sock);
	ssize_t n = RX_RETRY;
	uint32_t stage;

	/* Full fence; partner as in rx_pending(). */
	atomic_fetch_add(&holder->rx_busy, 1);
	stage = sock_stage(sock);
	if (!stage_pending(stage) && !stage_on_lane(stage))
		n = CANCELLABLE(receive_plainly(sock->fd, msg, flags));
	atomic_fetch_sub(&holder->rx_busy, 1);
	if (n == -ENOTCONN && stage == CONN_RESET)
		n = 0;
	return n;
}

static bool rx_blocks(const struct sock *sock, int flags)
{
	int fl;

	if (flags & MSG_DONTWAIT)
		return false;
	fl = sys_fcntl(sock->fd, F_GETFL, 0);
	return fl < 0 || !(fl & O_NONBLOCK);
}

/* Wait after an attempt that found nothing. 0, or the error that ends the call. */
static int rx_wait(struct sock *sock, int flags, struct wait_for *wait, struct sock_stay *stay,
		   const struct signal_mark *since)
{
	/* Whether a call waits is decided once, as in the kernel. */
	if (!stay->deadline && !rx_blocks(sock, flags)) {
		wait_leave(sock, wait);
		return -EAGAIN;
	}
	if (!stay->deadline) {
		stay->deadline =
			sock->rcv_timeout_ns ? clock_now_ns() + sock->rcv_timeout_ns : WAIT_FOREVER;
		sock_stay(sock, stay);
	}
	return sock_wait(sock, wait, stay->deadline, since);
}

/* The covered path: ring, or TCP step by step. */
static ssize_t rx_covered(struct sock *sock, struct io *io, int flags, struct sock_stay *stay)
{
	struct signal_mark since = signal_mark();
	size_t total = io->left;
	struct wait_for wait = {0};
	ssize_t n;

	do {
		uint32_t stage = sock_stage(sock);
		bool blocks = !(flags & MSG_DONTWAIT) && !wait.tcp_moved &&
			      !atomic_load_explicit(&sock->sh->nonblock, memory_order_relaxed);

		wait = (struct wait_for){0};
		if (stage_on_lane(stage))
			n = rx_lane(sock,
				    &(struct rx_try){io, &wait, flags, blocks, io->left < total});
		else if (stage_pending(stage))
			n = rx_pending(sock, io, flags, &wait);
		else
			n = RX_PLAIN;
		if (n == RX_WAIT && io->left < total && !(flags & MSG_WAITALL)) {
			wait_leave(sock, &wait);
			n = RX_ENOUGH;
		} else if (n == RX_WAIT) {
			n = rx_wait(sock, flags, &wait, stay, &since);
			if (n == -EINTR && !sock->rcv_timeout_ns && io->left == total &&
			    signal_restarts(&since)) {
				since = signal_mark();
				n = 0;
			}
			if (n == 0)
				n = RX_RETRY;
		} else if (n > 0 && io->left && !(flags & MSG_PEEK) &&
			   ((flags & MSG_WAITALL) || (size_t)n == IO_CHUNK_BYTES || wait.more)) {
			/* More may be there: a large read is one call, as with TCP. */
			n = RX_RETRY;
		}
	} while (n == RX_RETRY);
	return n;
}

/* A call that waits goes on although somebody has set O_NONBLOCK since. */
static ssize_t rx_wait_plain(struct sock *sock)
{
	struct signal_mark since = signal_mark();
	struct pollfd tcp = {.fd = sock->fd, .events = POLLIN | POLLRDHUP};
	int rc = signal_ppoll(&tcp, 1, NULL, NULL, &since);

	return rc > 0 || (rc == -EINTR && signal_restarts(&since)) ? RX_RETRY : rc;
}

static ssize_t rx_on_lane(struct sock *sock, struct msghdr *msg, int flags)
{
	struct iovec iov;
	struct msghdr tail = {.msg_iov = &iov, .msg_iovlen = 1};
	struct io io;
	struct sock_stay stay = {0};
	size_t total;
	ssize_t n = io_init(&io, msg->msg_iov, msg->msg_iovlen);

	if (n)
		return n;
	if (!io.left) { /* waits for something to read, and reads nothing */
		char byte;

		n = sock_recv(sock, &byte, 1, MSG_PEEK | (flags & MSG_DONTWAIT));
		return n > 0 ? 0 : n;
	}
	total = io.left;
	do {
		n = rx_covered(sock, &io, flags, &stay);
		if (n != RX_PLAIN)
			break;
		if (io.left == total) {
			n = rx_plain(sock, msg, flags);
			if (n == -EAGAIN && stay.deadline == WAIT_FOREVER)
				n = rx_wait_plain(sock);
			if (n != RX_RETRY)
				break;
		} else if (!(flags & MSG_WAITALL)) {
			break;
		} else { /* the lane ended in mid-call */
			io_rest(&io, &iov, 1, UINT64_MAX);
			n = rx_plain(sock, &tail, flags);
			if (n > 0)
				io_skip(&io, (size_t)n);
			if (n > 0 && io.left)
				n = RX_RETRY;
		}
	} while (n == RX_RETRY);
	sock_leave(sock, &stay);
	return io.left < total ? (ssize_t)(total - io.left) : n;
}

static ssize_t receive(struct sock *sock, struct msghdr *msg, int flags)
{
	uint32_t stage = sock_stage(sock);
	ssize_t n = RX_RETRY;

	if (session_calls())
		session_poll();
	if (!stage_on_lane(stage) && !stage_pending(stage)) {
		n = rx_plain(sock, msg, flags);
		if (n != RX_RETRY) {
			if (stage == CONN_TCP && session_count(&sock->policy))
				promote_try(sock);
			return n;
		}
	}
	if (flags & MSG_ERRQUEUE)
		return sys_recvmsg(sock->fd, msg, flags);
	if (flags & ~RX_RING_FLAGS) {
		n = demote_unserved(sock, flags);
		return n ? n : sys_recvmsg(sock->fd, msg, flags);
	}
	n = rx_on_lane(sock, msg, flags);
	if (n >= 0) {
		msg->msg_namelen = 0;
		msg->msg_controllen = 0;
		msg->msg_flags = 0;
	}
	return n;
}

ssize_t sock_recvmsg(struct sock *sock, struct msghdr *msg, int flags)
{
	ssize_t n = receive(sock, msg, flags);

	/* An end by a reset that nobody has been told of. */
	if (n == 0 && atomic_load_explicit(&sock->late_error, memory_order_relaxed))
		n = atomic_exchange(&sock->late_error, 0);
	return n;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include <shunt/shunt.h>

#include "client/demote.h"
#include "client/fdtable.h"
#include "client/stream.h"
#include "core/lane_fast.h"
#include "os/sys.h"
#include "os/tcp.h"

/* The native API: handles are sockets under another name. */

#define EXPORT __attribute__((visibility("default")))

static struct sock *sock_of(struct shunt_stream *stream)
{
	return (struct sock *)stream;
}

EXPORT int shunt_attach(int fd, struct shunt_stream **ret_stream)
{
	struct sock *sock;
	int rc = stream_library_init();

	if (!rc)
		rc = tcp_check(fd);
	if (rc)
		return rc;
	if (fdtable_get(fd))
		return -EEXIST;
	sock = stream_track(fd);
	if (!sock)
		return -ENOMEM;
	*ret_stream = (struct shunt_stream *)sock;
	return 0;
}

EXPORT int shunt_detach(struct shunt_stream *stream)
{
	int rc = demote_handover(sock_of(stream), REASON_REQUESTED);

	if (!rc)
		stream_untrack(sock_of(stream)->fd);
	return rc;
}

EXPORT int shunt_close(struct shunt_stream *stream)
{
	int fd = sock_of(stream)->fd;

	stream_untrack(fd);
	return sys_close(fd);
}

EXPORT ssize_t shunt_send(struct shunt_stream *stream, const void *buf, size_t len, int flags)
{
	return sock_send(sock_of(stream), buf, len, flags);
}

EXPORT ssize_t shunt_recv(struct shunt_stream *stream, void *buf, size_t len, int flags)
{
	return sock_recv(sock_of(stream), buf, len, flags);
}

EXPORT ssize_t shunt_sendmsg(struct shunt_stream *stream, const struct msghdr *msg, int flags)
{
	return sock_sendmsg(sock_of(stream), msg, flags);
}

EXPORT ssize_t shunt_recvmsg(struct shunt_stream *stream, struct msghdr *msg, int flags)
{
	return sock_recvmsg(sock_of(stream), msg, flags);
}

EXPORT int shunt_shutdown(struct shunt_stream *stream, int how)
{
	return sock_shutdown(sock_of(stream), how);
}

EXPORT int shunt_fd(const struct shunt_stream *stream)
{
	return ((const struct sock *)stream)->fd;
}

/* The piece at @at, if that is known: what the plan of a route would be. */
static bool plan_fast(const uint8_t *at, const uint8_t *ring, size_t len,
		      struct lane_plan *ret_plan)
{
	if (at)
		*ret_plan = (struct lane_plan){
			.limit = len,
			.spans = {.pos = {(size_t)(at - ring)}, .len = {len}},
		};
	return at;
}

static ssize_t spans_to_iov(const struct lane_plan *plan, const uint8_t *ring,
			    struct iovec *ret_iov)
{
	for (int i = 0; i < 2; i++)
		ret_iov[i] = (struct iovec){
			.iov_base = (uint8_t *)(uintptr_t)ring + plan->spans.pos[i],
			.iov_len = plan->spans.len[i],
		};
	return (ssize_t)plan->limit;
}

/* An open reservation or peek keeps the halves mapped, as a wait does. Under the direction's lock.
 */
static void hold(struct sock *sock, uint64_t *held_bytes, uint64_t bytes)
{
	if (!*held_bytes)
		atomic_fetch_add(&sock->waiters, 1);
	*held_bytes = bytes;
}

static void unhold(struct sock *sock, uint64_t *held_bytes)
{
	if (*held_bytes)
		atomic_fetch_sub(&sock->waiters, 1);
	*held_bytes = 0;
}

static bool on_lane(const struct sock *sock)
{
	return sock->lane.peer && stage_on_lane(sock_stage(sock));
}

EXPORT ssize_t shunt_reserve(struct shunt_stream *stream, size_t len, struct iovec ret_iov[2])
{
	struct sock *sock = sock_of(stream);
	struct lane_plan plan;
	ssize_t n = -EAGAIN;

	sock_lock_tx(sock);
	if (len && on_lane(sock) && sock->sh->lane.tx.phase == TX_RING &&
	    (plan_fast(lane_tx_fast(&sock->lane, len), half_ring(sock->lane.own), len, &plan) ||
	     lane_tx_route(&sock->lane, len, &plan) == TX_VIA_RING)) {
		n = spans_to_iov(&plan, half_ring(sock->lane.own), ret_iov);
		sock->reserved_epoch = sock->sh->lane.epoch;
		hold(sock, &sock->reserved_bytes, (uint64_t)n);
	}
	sock_unlock_tx(sock);
	return n;
}

EXPORT int shunt_commit(struct shunt_stream *stream, size_t len)
{
	struct sock *sock = sock_of(stream);
	int rc = 0;

	sock_lock_tx(sock);
	if (len > sock->reserved_bytes) {
		rc = -EINVAL;
	} else if (!on_lane(sock) || sock->sh->lane.tx.phase != TX_RING ||
		   sock->reserved_epoch != sock->sh->lane.epoch) {
		rc = -EAGAIN;
	} else {
		lane_tx_commit(&sock->lane, len);
		sock_ring(sock, &sock->sh->lane.tx.wake);
	}
	unhold(sock, &sock->reserved_bytes);
	sock_unlock_tx(sock);
	return rc;
}

EXPORT ssize_t shunt_peek(struct shunt_stream *stream, size_t len, struct iovec ret_iov[2])
{
	struct sock *sock = sock_of(stream);
	struct lane_plan plan;
	ssize_t n = -EAGAIN;

	sock_lock_rx(sock);
	if (len && on_lane(sock) &&
	    (plan_fast(lane_rx_fast(&sock->lane, len), half_ring_const(sock->lane.peer), len,
		       &plan) ||
	     lane_rx_route(&sock->lane, len, &plan) == RX_VIA_RING)) {
		n = spans_to_iov(&plan, half_ring_const(sock->lane.peer), ret_iov);
		sock->peeked_epoch = sock->sh->lane.epoch;
		hold(sock, &sock->peeked_bytes, (uint64_t)n);
	}
	sock_unlock_rx(sock);
	return n;
}

EXPORT int shunt_consume(struct shunt_stream *stream, size_t len)
{
	struct sock *sock = sock_of(stream);
	int rc = 0;

	sock_lock_rx(sock);
	if (len > sock->peeked_bytes) {
		rc = -EINVAL;
	} else if (!on_lane(sock) || sock->sh->lane.rx.phase != RX_RING ||
		   sock->sh->lane.rx.frozen || sock->peeked_epoch != sock->sh->lane.epoch) {
		rc = -EAGAIN;
	} else {
		lane_rx_consume(&sock->lane, len);
		sock_ring(sock, &sock->sh->lane.rx.wake);
	}
	unhold(sock, &sock->peeked_bytes);
	sock_unlock_rx(sock);
	return rc;
}

EXPORT int shunt_get_info(struct shunt_stream *stream, struct shunt_info *info)
{
	struct sock *sock = sock_of(stream);
	const struct sock_shared *sh = sock->sh;

	if (info->size != sizeof(*info))
		return -EINVAL;
	*info = (struct shunt_info){.size = sizeof(*info)};
	sock_lock_tx(sock);
	sock_lock_rx(sock);
	info->lane_tx_bytes = sh->lane_tx_bytes;
	info->lane_rx_bytes = sh->lane_rx_bytes;
	if (on_lane(sock)) {
		info->lane_tx_bytes += sh->lane.tx.prod.v;
		info->lane_rx_bytes += sh->lane.rx.cons.v;
		info->tx_lane = sh->lane.tx.phase == TX_RING ? SHUNT_LANE_RING : SHUNT_LANE_TCP;
		info->rx_lane = sh->lane.rx.phase == RX_RING ? SHUNT_LANE_RING : SHUNT_LANE_TCP;
	}
	info->epoch = sh->epochs;
	info->demotions = sh->demotions;
	info->pinned = sh->conn.pin != REASON_NONE;
	snprintf(info->reason, sizeof(info->reason), "%s", reason_name(sh->conn.reason));
	sock_unlock_rx(sock);
	sock_unlock_tx(sock);
	return 0;
}

EXPORT int shunt_demote(struct shunt_stream *stream)
{
	struct sock *sock = sock_of(stream);

	if (!stage_on_lane(sock_stage(sock)))
		return -EALREADY;
	demote_leave(sock, REASON_REQUESTED);
	return 0;
}

EXPORT int shunt_pin(struct shunt_stream *stream)
{
	demote_pin(sock_of(stream), REASON_REQUESTED);
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "os/bell.h"
#include "client/demote.h"
#include "client/epset.h"
#include "client/promote.h"
#include "client/remote.h"
#include "client/session.h"
#include "client/turn.h"
#include "os/clock.h"
#include "os/sys.h"
#include "os/tcp.h"

bool turn_start(struct sock *sock)
{
	unsigned int busy = sock_tx_busy(sock); /* before the count is read */
	uint64_t written;

	if (busy || tcp_written(sock->fd, sock->syn_bias, &written))
		return false;
	/* Between hosts: if this end and its daemon die together, the stream is not to look whole.
	 */
	if (sock->lane.remote && !demote_guard(sock, true))
		return false;
	return lane_tx_start(&sock->lane, tcp_count(written), busy);
}

static ssize_t turn_send_spans(struct sock *sock, const struct lane_plan *plan)
{
	uint8_t *ring = half_ring(sock->lane.own);
	struct iovec iov[2] = {
		{.iov_base = ring + plan->spans.pos[0], .iov_len = plan->spans.len[0]},
		{.iov_base = ring + plan->spans.pos[1], .iov_len = plan->spans.len[1]},
	};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = plan->spans.len[1] ? 2 : 1};

	return sys_sendmsg(sock->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int turn_backlog(struct sock *sock, int route)
{
	struct lane_plan plan;
	uint64_t written;
	ssize_t n;
	int rc;

	if (route == TX_VIA_STOP) {
		demote_guard(sock, true);
		return lane_tx_stop(&sock->lane);
	}
	rc = tcp_written(sock->fd, sock->syn_bias, &written);
	if (rc)
		return rc == -EAGAIN ? rc : -ECONNRESET; /* it has been closed under us */
	rc = lane_tx_backlog(&sock->lane, tcp_count(written), &plan);
	if (rc == TX_VIA_TCP)
		demote_guard(sock, false);
	if (rc != TX_VIA_BACKLOG)
		return rc == TX_VIA_TCP ? 0 : rc;
	n = turn_send_spans(sock, &plan);
	return n < 0 ? (int)n : 0;
}

int turn_consumed(struct sock *sock, uint64_t *ret_count)
{
	struct sock_shared *sh = sock->sh;
	int unread = 0;
	int rc = tcp_consumed(sock->fd, &sh->rx_count);

	if (rc == -EAGAIN)
		return rc;
	/* Until rx_seen is published only bytes before the ring are on TCP, and afterwards the
	 * count goes on from what it was then. */
	if (rc && !atomic_load(&sock->lane.own->rx_seen)) {
		uint64_t start = opt_value(atomic_load(&sock->lane.peer->tx_start));

		if (sys_ioctl(sock->fd, SIOCINQ, &unread) || unread < 0)
			unread = 0;
		sh->rx_count = start > (uint64_t)unread ? start - (uint64_t)unread : 0;
	}
	*ret_count = sh->rx_count;
	return 0;
}

/* The route that the own direction has now, or -EBADMSG. */
static int turn_tx(struct sock *sock)
{
	struct lane_plan plan;
	int rc;

	for (;;) {
		rc = lane_tx_route(&sock->lane, 0, &plan);
		if (rc == TX_VIA_START && turn_start(sock))
			continue;
		if ((rc == TX_VIA_STOP || rc == TX_VIA_BACKLOG) && turn_backlog(sock, rc) == 0)
			continue;
		if (rc == TX_VIA_TCP)
			remote_tx_over(sock);
		return rc;
	}
}

int turn_rx(struct sock *sock)
{
	struct lane_plan plan;
	uint64_t consumed;
	int rc;

	lane_rx_ready(&sock->lane, sock_rx_busy(sock));
	rc = lane_rx_route(&sock->lane, 0, &plan);
	if (rc == RX_VIA_COUNT && turn_consumed(sock, &consumed) == 0)
		rc = lane_rx_tail(&sock->lane, tcp_count(consumed), 0, &plan);
	return rc < 0 ? rc : 0;
}

/* Why a lane is over that nobody has asked to leave: it was lost, or both streams ended on it. Who
 * has left has said why (REASON_NONE). Both locks. */
static enum reason end_reason(const struct sock_shared *sh)
{
	if (sh->conn.stage != CONN_LANE)
		return REASON_NONE;
	return sh->lane.tx.lost || sh->lane.rx.peer_lost ? REASON_LANE_LOST : REASON_CLOSED;
}

/* The epoch is over: note what it carried, and let go of it. Both locks. */
static void finish(struct sock *sock)
{
	struct sock_shared *sh = sock->sh;
	uint64_t tx = sh->lane.tx.prod.v, rx = sh->lane.rx.cons.v;
	enum reason reason = end_reason(sh);
	bool started = atomic_load(&sock->lane.peer->tx_start) != OPT_NONE;

	remote_tx_over(sock);
	bell_ring(sock->bell_own); /* sleepers go on to TCP */
	if (!promote_unmap(sock))
		return; /* the last of them makes the next turn */
	sh->lane_tx_bytes += tx;
	sh->lane_rx_bytes += rx;
	sh->rx_changes += started ? 2 : 0; /* onto the ring and back */
	atomic_store(&sh->ended, 0);
	sh->demotions += reason == REASON_LANE_LOST;
	sock_apply(sock, CONN_EV_DRAIN, reason);
	promote_put_off(sock);
	sock->report_due = true;
}

/* What a turn does under both locks. */
static int turn_locked(struct sock *sock)
{
	struct sock_shared *sh = sock->sh;
	uint64_t seq = atomic_load(&sock->lane.peer->state_seq);
	int route = turn_tx(sock);
	int rc = route < 0 ? route : turn_rx(sock);

	if (!rc && sh->lane.tx.peer_leave && sh->conn.stage == CONN_LANE) {
		sock_apply(sock, CONN_EV_LEAVE, REASON_PEER_ASKED);
		sh->demotions++;
	}
	if (rc)
		return rc;
	sock->turn_seq = sh->lane.rx.rx_ready ? seq : UINT64_MAX;
	turn_due_tx(sock);
	turn_due_rx(sock);
	if (route == TX_VIA_TCP && atomic_load(&sh->ended) == SOCK_BOTH_ENDED)
		epset_sock_tcp(sock);
	sock_ring(sock, &sh->lane.tx.wake);
	sock_ring(sock, &sh->lane.rx.wake);
	rc = lane_is_done(&sock->lane);
	if (rc > 0)
		finish(sock);
	return rc < 0 ? rc : 0;
}

int sock_turn(struct sock *sock)
{
	int rc = 0;

	sock_lock_tx(sock);
	sock_lock_rx(sock);
	if (sock->lane.peer && stage_on_lane(sock_stage(sock)))
		rc = turn_locked(sock);
	if (rc == -EBADMSG)
		demote_reset_locked(sock, REASON_LANE_CORRUPT);
	sock_unlock_rx(sock);
	sock_unlock_tx(sock);
	if (sock->report_due)
		promote_report(sock);
	return rc;
}

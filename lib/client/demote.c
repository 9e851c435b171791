/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/socket.h>

#include "client/demote.h"
#include "client/promote.h"
#include "client/remote.h"
#include "client/session.h"
#include "client/turn.h"
#include "client/wait.h"
#include "os/clock.h"
#include "os/syswait.h"

void demote_leave(struct sock *sock, enum reason reason)
{
	sock_lock_tx(sock);
	if (sock->lane.peer && sock_stage(sock) == CONN_LANE) {
		sock_apply(sock, CONN_EV_LEAVE, reason);
		sock->sh->demotions++;
		lane_leave(&sock->lane);
		sock->turn_seq = UINT64_MAX;
		sock_ring(sock, &sock->sh->lane.tx.wake);
		sock->report_due = true;
	}
	sock_unlock_tx(sock);
}

void demote_pin(struct sock *sock, enum reason reason)
{
	sock_lock_tx(sock);
	sock_pin(sock, reason);
	sock_unlock_tx(sock);
	demote_leave(sock, reason);
}

/* The other end may be a socket of this very process, and nobody else makes its turns now. */
static void turn_all(void)
{
	struct sock *sock;

	for (uint32_t i = 0; (sock = sock_at(i)); i++)
		if (sock->live && stage_on_lane(sock_stage(sock)))
			sock_turn(sock);
}

/* One look at how far the way back is. 1: there, 0: wait with @ret_wait, or -errno. */
typedef int (*demote_step)(struct sock *sock, struct wait_for *ret_wait);

static int step_tx(struct sock *sock, struct wait_for *ret_wait)
{
	struct lane_plan plan;
	int route, rc;

	do
		route = lane_tx_route(&sock->lane, 0, &plan);
	while ((route == TX_VIA_STOP || route == TX_VIA_BACKLOG) && turn_backlog(sock, route) == 0);
	/* The caller, or whoever gets the socket, sends on TCP without asking again. */
	rc = route < 0 ? route : lane_tx_leave(&sock->lane);
	if (rc == 1)
		remote_tx_over(sock);
	if (rc)
		return rc;
	wait_enter(sock, ret_wait, WAKE_ALL, route == TX_VIA_BACKLOG ? POLLOUT : 0, true);
	return 0;
}

static int step_handover(struct sock *sock, struct wait_for *ret_wait)
{
	int tx, rx;

	if (sock->peeked_bytes) /* the program still looks at what would have to move */
		return -EBUSY;
	tx = step_tx(sock, ret_wait);
	rx = lane_rx_stop(&sock->lane);

	sock_ring(sock, &sock->sh->lane.rx.wake);
	if (tx == 1 && rx == 0)
		wait_enter(sock, ret_wait, WAKE_ALL, 0, true);
	if (tx == 0 && rx < 0)
		wait_leave(sock, ret_wait);
	if (tx < 0 || rx < 0)
		return tx < 0 ? tx : rx == -EAGAIN ? -EBUSY : rx;
	return tx && rx;
}

/* Step until there, or until the time is up. */
static int step_until(struct sock *sock, demote_step step)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)session_settings.demote_wait_ms * 1000000u;
	struct signal_mark since;
	struct wait_for wait;
	int rc;

	for (;;) {
		wait.kinds = 0;
		sock_lock_tx(sock);
		sock_lock_rx(sock);
		rc = 1;
		if (sock->lane.peer && stage_on_lane(sock_stage(sock))) {
			wait.mark = wake_mark(sock->lane.own, sock->lane.peer);
			rc = step(sock, &wait);
			sock_ring(sock, &sock->sh->lane.tx.wake);
		}
		sock_unlock_rx(sock);
		sock_unlock_tx(sock);
		if (rc == -EBADMSG)
			demote_reset(sock, REASON_LANE_CORRUPT);
		if (rc)
			return rc == -EBADMSG || rc == 1 ? 0 : rc;
		turn_all();
		since = signal_mark();
		rc = sock_wait(sock, &wait, deadline, &since);
		if (rc == -EAGAIN)
			return -ETIMEDOUT;
		if (rc && rc != -EINTR)
			return rc;
	}
}

static void cancel_pending(struct sock *sock, enum reason reason)
{
	if (!stage_pending(sock_stage(sock)))
		return;
	session_lock();
	promote_cancel(sock, reason);
	session_unlock();
}

int demote_tx_wait(struct sock *sock, enum reason reason)
{
	demote_pin(sock, reason);
	cancel_pending(sock, reason);
	return step_until(sock, step_tx);
}

int demote_unserved(struct sock *sock, int flags)
{
	enum reason reason = REASON_UNSERVED_CALL;

	if (flags & MSG_OOB)
		reason = REASON_MSG_OOB;
	else if (flags & MSG_ZEROCOPY)
		reason = REASON_ZEROCOPY;
	return demote_tx_wait(sock, reason);
}

/*
 * Pin for a hand-over. Between hosts nobody is asked to leave: the peer would end on the ring, with
 * its daemon's word that all has arrived, while we want the rest of it on TCP.
 */
static void pin_for_handover(struct sock *sock, enum reason reason)
{
	if (!sock->lane.remote) {
		demote_pin(sock, reason);
		return;
	}
	sock_lock_tx(sock);
	sock_pin(sock, reason);
	if (sock->lane.peer && sock_stage(sock) == CONN_LANE) {
		sock_apply(sock, CONN_EV_LEAVE, reason);
		sock->sh->demotions++;
		sock->report_due = true;
	}
	sock_unlock_tx(sock);
}

int demote_handover(struct sock *sock, enum reason reason)
{
	int rc;

	pin_for_handover(sock, reason);
	cancel_pending(sock, reason);
	rc = step_until(sock, step_handover);
	if (rc && rc != -EBUSY) { /* the peer's answer is not waited for any more */
		sock_lock_rx(sock);
		if (sock->lane.peer && stage_on_lane(sock_stage(sock)) &&
		    lane_rx_resume(&sock->lane) == 1)
			rc = 0;
		sock_unlock_rx(sock);
	}
	if (!rc)
		sock_turn(sock); /* over at once if the peer has drained us too */
	return rc;
}

void demote_reset_locked(struct sock *sock, enum reason reason)
{
	struct sockaddr unspec = {.sa_family = AF_UNSPEC};

	if (!sock_apply(sock, CONN_EV_CORRUPT, reason))
		return;
	/* Sends RST, wakes every sleeper, and leaves ECONNRESET on the socket. */
	sys_connect(sock->fd, &unspec, sizeof(unspec));
	demote_guard(sock, false); /* the program may connect it again */
	sock_ring_all(sock);
	sock->report_due = true;
}

void demote_reset(struct sock *sock, enum reason reason)
{
	sock_lock_tx(sock);
	sock_lock_rx(sock);
	demote_reset_locked(sock, reason);
	sock_unlock_rx(sock);
	sock_unlock_tx(sock);
	if (sock->report_due)
		promote_report(sock);
}

bool demote_guard(struct sock *sock, bool on)
{
	const struct linger guard = {.l_onoff = 1, .l_linger = 0};
	struct sock_shared *sh = sock->sh;
	socklen_t len = sizeof(sh->linger);

	if (on == (bool)sh->linger_guarded)
		return true;
	if (on && sys_getsockopt(sock->fd, SOL_SOCKET, SO_LINGER, &sh->linger, &len))
		return false;
	/* A sibling that takes over from here finds the program's value in its place. */
	if (on)
		sh->linger_guarded = true;
	if (sys_setsockopt(sock->fd, SOL_SOCKET, SO_LINGER, on ? &guard : &sh->linger,
			   sizeof(guard))) {
		sh->linger_guarded = !on;
		return false;
	}
	sh->linger_guarded = on;
	return true;
}

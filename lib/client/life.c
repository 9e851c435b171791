/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "client/demote.h"
#include "client/epset.h"
#include "client/fdtable.h"
#include "client/process.h"
#include "client/promote.h"
#include "client/remote.h"
#include "client/session.h"
#include "client/stream.h"
#include "client/turn.h"
#include "client/wait.h"
#include "os/clock.h"
#include "os/syswait.h"

/* How long a close waits for other threads that still look at the halves before it leaves them
 * mapped. Chosen: they only have to be scheduled. */
#define LIFE_LEAVE_NS 100000000u

int stream_library_init(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static int state = 1;

	pthread_mutex_lock(&mutex);
	if (state == 1) {
		process_note_self();
		session_init();
		wait_init();
		state = fdtable_init();
		if (!state)
			state = sock_pool_init();
		if (!state)
			state = epset_init();
	}
	pthread_mutex_unlock(&mutex);
	return state;
}

struct sock *stream_track(int fd)
{
	struct sock *sock;

	if (!fdtable_slots || (unsigned int)fd >= FDTABLE_SIZE)
		return NULL;
	sock = sock_new(fd);
	if (sock)
		fdtable_set(fd, sock);
	return sock;
}

/* Bytes of the own ring that were promised to TCP go there first, within the limit. */
static void flush_backlog(struct sock *sock)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)session_settings.demote_wait_ms * 1000000u;
	struct pollfd tcp = {.fd = sock->fd, .events = POLLOUT};
	struct lane_plan plan;
	int rc;

	for (;;) {
		rc = lane_tx_route(&sock->lane, 0, &plan);
		if (rc != TX_VIA_STOP && rc != TX_VIA_BACKLOG)
			return;
		rc = turn_backlog(sock, rc);
		if (rc == -EAGAIN && clock_now_ns() < deadline)
			sys_poll(&tcp, 1, 10);
		else if (rc)
			return; /* SO_LINGER is {1, 0} still: the peer sees a reset */
	}
}

int sock_shutdown(struct sock *sock, int how)
{
	int rc;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	session_lock();
	if (how != SHUT_RD)
		atomic_store(&sock->sh->tx_shut, 1);
	promote_cancel(sock, REASON_FIN_SEEN);
	session_unlock();
	sock_lock_tx(sock);
	sock_lock_rx(sock);
	if (how != SHUT_WR)
		atomic_store(&sock->sh->rx_shut, 1);
	if (sock->lane.peer && stage_on_lane(sock_stage(sock)) && how != SHUT_RD) {
		lane_tx_close(&sock->lane);
		/* A start that the peer has made is acknowledged before the FIN. */
		if (turn_rx(sock))
			demote_reset_locked(sock, REASON_LANE_CORRUPT);
		else if (!sock->lane.remote)
			flush_backlog(sock);
	}
	if (sock->lane.remote && sock->lane.peer && stage_on_lane(sock_stage(sock)))
		rc = remote_shutdown(sock, how);
	else
		rc = sys_shutdown(sock->fd, how);
	if (sock->lane.peer && stage_on_lane(sock_stage(sock))) {
		sock->turn_seq = UINT64_MAX;
		sock_ring(sock, &sock->sh->lane.tx.wake);
		sock_ring_all(sock);
	} else {
		sock_pin(sock, REASON_FIN_SEEN);
	}
	sock_unlock_rx(sock);
	sock_unlock_tx(sock);
	return rc;
}

/* The last holder closes a promoted socket. Both locks. */
static void close_lane(struct sock *sock)
{
	struct linger reset = {.l_onoff = 1, .l_linger = 0};
	int unread = lane_close(&sock->lane);

	if (sock->lane.remote) {
		remote_close(sock, unread);
	} else {
		flush_backlog(sock);
		if (unread)
			sys_setsockopt(sock->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	sock->sh->lane_tx_bytes += sock->sh->lane.tx.prod.v;
	sock->sh->lane_rx_bytes += sock->sh->lane.rx.cons.v;
	if (atomic_load(&sock->lane.peer->tx_start) != OPT_NONE)
		sock->sh->rx_changes++;
}

/* Let go of the halves; others may be in a wait that reads them, and go on in the kernel then. */
static void let_go(struct sock *sock)
{
	uint64_t deadline = 0;
	bool is_free;

	for (;;) {
		sock_lock_tx(sock);
		sock_lock_rx(sock);
		sock_ring_all(sock);
		is_free = promote_unmap(sock);
		sock_unlock_rx(sock);
		sock_unlock_tx(sock);
		if (is_free && sock_stayers_settled(sock))
			return;
		if (!deadline)
			deadline = clock_now_ns() + LIFE_LEAVE_NS;
		if (clock_now_ns() >= deadline)
			return;
		sched_yield();
	}
}

void stream_untrack(int fd)
{
	int last = 0;
	struct sock *sock = fdtable_remove(fd, &last);
	bool sole;

	if (!sock || !last)
		return;
	epset_sock_closed(sock);
	if (sock_stage(sock) == CONN_TCP && !sock->sh->conn.epoch && !sock->lane.own) {
		sock_free(sock); /* it was never promoted: nobody has to be told */
		return;
	}
	/* What kind of lane it is stands since before the stage said that there is one. */
	if (stage_on_lane(sock_stage(sock)) && sock->lane.remote && sock_sole_holder(sock))
		remote_close_wait(sock);
	session_lock();
	promote_cancel(sock, REASON_CLOSED);
	sole = sock_sole_holder(sock);
	sock_lock_tx(sock);
	sock_lock_rx(sock);
	if (sole && sock->lane.peer && stage_on_lane(sock_stage(sock)))
		close_lane(sock);
	if (sole)
		sock_apply(sock, CONN_EV_CLOSE, REASON_CLOSED);
	if (sock->lane.peer)
		sock_ring(sock, &sock->sh->lane.tx.wake);
	sock_unlock_rx(sock);
	sock_unlock_tx(sock);
	if (sole)
		promote_closed(sock);
	session_unlock();
	let_go(sock);
	sock_free(sock);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>

#include "os/bell.h"
#include "client/demote.h"
#include "client/epset.h"
#include "client/options.h"
#include "client/ownfd.h"
#include "client/promote.h"
#include "client/remote.h"
#include "client/session.h"
#include "os/clock.h"
#include "os/sys.h"
#include "os/memfd.h"
#include "os/tcp.h"

/*
 * What went over which lane. TCP's share is the kernel's own count; a lane's is its ring offsets,
 * so that counting costs the data path nothing. Both locks.
 */
static struct ctl_totals totals_of(const struct sock *sock)
{
	const struct sock_shared *sh = sock->sh;
	const struct half_ctl *own = sock->lane.own;
	struct ctl_totals totals = {
		.lane_tx = sh->lane_tx_bytes,
		.lane_rx = sh->lane_rx_bytes,
		.rx_changes = sh->rx_changes,
	};

	tcp_written(sock->fd, sock->syn_bias, &totals.tcp_tx);
	tcp_consumed(sock->fd, &totals.tcp_rx);
	if (own && stage_on_lane(sock_stage(sock))) {
		totals.lane_tx += atomic_load(&own->prod);
		totals.lane_rx += atomic_load(&own->cons);
	}
	return totals;
}

static void lock_both(struct sock *sock)
{
	sock_lock_tx(sock);
	sock_lock_rx(sock);
}

static void unlock_both(struct sock *sock)
{
	sock_unlock_rx(sock);
	sock_unlock_tx(sock);
}

/* A daemon that does not read would go on with a wrong picture: let it start afresh. */
static void send_or_drop(const struct ctl_msg *msg)
{
	if (session_send_locked(msg, -1) == -EAGAIN)
		session_drop_locked();
}

static void failed(struct sock *sock, uint32_t retry_ms)
{
	const struct policy policy = session_policy();

	policy_failed(&policy, &sock->policy, clock_coarse_ns(), retry_ms);
}

/* Whether this socket may have a lane at all; on false it was pinned. Session lock. */
static bool eligible(struct sock *sock)
{
	static int rule = -1;
	struct tcp_facts facts;
	enum reason reason = REASON_NONE;
	int rc;

	if (rule < 0)
		rule = tcp_rule_selfcheck();
	rc = tcp_facts_read(sock->fd, &facts);
	if (rule)
		reason = REASON_RULE_UNPROVED;
	else if (rc == -EAGAIN || rc == -ENOTCONN)
		return false; /* another time */
	else if (rc)
		reason = REASON_NOT_TCP;
	else if (facts.state != TCP_STATE_ESTABLISHED || facts.fin_sent || facts.fin_received)
		reason = REASON_FIN_SEEN;
	else if (facts.has_ulp)
		reason = REASON_KTLS;
	else if (tcp_name_is_self(&facts.name))
		reason = REASON_SELF_CONNECT;
	else
		reason = options_in_force(sock->fd);
	if (reason != REASON_NONE) {
		sock_lock_tx(sock);
		sock_pin(sock, reason);
		sock_unlock_tx(sock);
		return false;
	}
	sock->syn_bias = facts.syn_bias;
	return true;
}

static uint64_t timeout_ns(int fd, int option)
{
	struct timeval tv = {0};
	socklen_t len = sizeof(tv);

	if (sys_getsockopt(fd, SOL_SOCKET, option, &tv, &len))
		return 0;
	return (uint64_t)tv.tv_sec * 1000000000u + (uint64_t)tv.tv_usec * 1000u;
}

/* What the kernel did for the program so far and the library has to do from now on. */
static void take_over_options(struct sock *sock)
{
	int flags = sys_fcntl(sock->fd, F_GETFL, 0);

	atomic_store(&sock->sh->nonblock, flags >= 0 && (flags & O_NONBLOCK));
	sock->rcv_timeout_ns = timeout_ns(sock->fd, SO_RCVTIMEO);
	sock->snd_timeout_ns = timeout_ns(sock->fd, SO_SNDTIMEO);
}

static void report_locked(struct sock *sock);

void promote_put_off(struct sock *sock)
{
	/* A lane that lasted says nothing against the next one. */
	if (clock_coarse_ns() - sock->began_ns >=
	    (uint64_t)session_settings.backoff_max_ms * 1000000u)
		policy_succeeded(&sock->policy);
	failed(sock, 0);
}

void promote_try(struct sock *sock)
{
	struct ctl_msg msg = {.type = CTL_REGISTER};

	if (atomic_load(&sock_pending) >= PROMOTE_PENDING_MAX)
		return; /* at its next operation */
	if (sock_stage(sock) != CONN_TCP || !policy_may_try(&sock->policy, clock_coarse_ns()))
		return;
	if (session_ensure()) {
		sock->policy.not_before_ns = atomic_load(&session_view.next_try_ns);
		return;
	}
	if (!sock_sole_holder(sock)) {
		failed(sock, 0);
		return;
	}
	session_lock();
	sock_lock_tx(sock);
	/* Another thread may have registered it meanwhile. */
	if (sock_stage(sock) != CONN_TCP || sock->sh->tx_shut || sock->lane.own)
		failed(sock, 0);
	else
		msg.token = promote_token(sock);
	sock_unlock_tx(sock);
	report_locked(sock);
	if (msg.token && eligible(sock)) {
		take_over_options(sock);
		msg.u.reg.fd = sock->fd;
		msg.u.reg.epoch = sock->sh->conn.epoch + 1;
		sock_lock_tx(sock);
		if (session_send_locked(&msg, sock->fd) == 0)
			sock_apply(sock, CONN_EV_REGISTER, REASON_PROMOTE_WAIT);
		else
			failed(sock, 0);
		sock_unlock_tx(sock);
		if (stage_pending(sock_stage(sock)) && epset_sock_pending(sock))
			promote_cancel(sock, REASON_NO_DESCRIPTORS);
	} else {
		failed(sock, 0);
	}
	session_unlock();
}

bool promote_unmap(struct sock *sock)
{
	if (atomic_load(&sock->waiters))
		return false;
	epset_sock_tcp(sock);
	if (sock->lane.own)
		munmap(sock->lane.own, half_bytes(sock->lane.own_bytes));
	if (sock->lane.peer)
		munmap((void *)(uintptr_t)sock->lane.peer, half_bytes(sock->lane.peer_bytes));
	sock->lane = (struct lane){.st = &sock->sh->lane};
	ownfd_close(sock->bell_own);
	ownfd_close(sock->bell_peer);
	ownfd_close(sock->half_own);
	ownfd_close(sock->half_peer);
	sock->bell_own = sock->bell_peer = -1;
	sock->half_own = sock->half_peer = -1;
	atomic_store(&sock->still_ns, 0);
	return true;
}

static void back_to_tcp(struct sock *sock, enum conn_event event, enum reason reason,
			uint32_t retry_ms)
{
	lock_both(sock);
	if (sock_apply(sock, event, reason)) {
		promote_unmap(sock);
		failed(sock, retry_ms);
	}
	unlock_both(sock);
}

void promote_cancel(struct sock *sock, enum reason reason)
{
	struct ctl_msg msg = {.type = CTL_CANCEL, .token = promote_token(sock)};

	if (!stage_pending(sock_stage(sock)))
		return;
	back_to_tcp(sock, CONN_EV_CANCEL, reason, 0);
	session_send_locked(&msg, -1);
}

static void on_pair(struct sock *sock, const struct ctl_pair *pair, struct fd_bag *bag)
{
	struct ctl_msg reply = {.type = CTL_MAPPED, .token = promote_token(sock)};
	size_t bytes = half_bytes(pair->own_ring_bytes);
	bool remote = pair->flags & CTL_LANE_REMOTE;
	int bell_own, bell_peer, half_own;
	void *own;

	if (sock_stage(sock) != CONN_REGISTERED || !ring_size_ok(pair->own_ring_bytes) ||
	    !ring_size_ok(pair->peer_ring_bytes) || pair->epoch <= sock->sh->conn.epoch ||
	    memfd_check(bag->fds[0], bytes, MEMFD_SEALS_SIZE) || bell_check(bag->fds[1]) ||
	    bell_check(bag->fds[2]))
		goto refuse;
	own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bag->fds[0], 0);
	bell_own = ownfd_take(fd_bag_take(bag, 1));
	bell_peer = ownfd_take(fd_bag_take(bag, 2));
	half_own = remote ? ownfd_take(fd_bag_take(bag, 0)) : -1;
	if (own == MAP_FAILED || bell_own < 0 || bell_peer < 0 || (remote && half_own < 0)) {
		if (own != MAP_FAILED)
			munmap(own, bytes);
		ownfd_close(bell_own);
		ownfd_close(bell_peer);
		ownfd_close(half_own);
		goto refuse;
	}
	lock_both(sock);
	sock->lane.own = own;
	sock->lane.own_bytes = pair->own_ring_bytes;
	sock->lane.peer_bytes = pair->peer_ring_bytes;
	sock->lane.remote = remote;
	sock->half_own = half_own;
	atomic_store(&sock->held_by, atomic_load(&session_view.serial));
	sock->bell_own = bell_own;
	sock->bell_peer = bell_peer;
	sock_apply(sock, CONN_EV_PAIR, REASON_NONE);
	sock->sh->conn.epoch = pair->epoch;
	unlock_both(sock);
	if (epset_sock_watch(sock)) {
		promote_cancel(sock, REASON_NO_DESCRIPTORS);
		return;
	}
	reply.u.mapped.epoch = pair->epoch;
	session_send_locked(&reply, -1);
	return;
refuse:
	promote_cancel(sock, REASON_NO_DESCRIPTORS);
}

static void on_peer(struct sock *sock, const struct ctl_epoch *epoch, struct fd_bag *bag)
{
	size_t bytes = half_bytes(sock->lane.peer_bytes);
	int half_peer = -1, zero = 0;
	void *peer;

	if (sock_stage(sock) != CONN_MAPPED || epoch->epoch != sock->sh->conn.epoch)
		return;
	/* Between hosts it is the daemon's, and its successor has to write there, too. */
	if (memfd_check(bag->fds[0], bytes,
			sock->lane.remote ? MEMFD_SEALS_SIZE : MEMFD_SEALS_WRITERS)) {
		promote_cancel(sock, REASON_PROTOCOL);
		return;
	}
	peer = mmap(NULL, bytes, PROT_READ, MAP_SHARED, bag->fds[0], 0);
	if (peer != MAP_FAILED && sock->lane.remote) {
		half_peer = ownfd_take(fd_bag_take(bag, 0));
		if (half_peer < 0) {
			munmap(peer, bytes);
			peer = MAP_FAILED;
		}
	}
	if (peer == MAP_FAILED) {
		promote_cancel(sock, REASON_NO_MEMORY);
		return;
	}
	/* What the program corked must not wait under a lane. */
	sys_setsockopt(sock->fd, IPPROTO_TCP, TCP_CORK, &zero, sizeof(zero));
	lock_both(sock);
	sock->lane.peer = peer;
	sock->half_peer = half_peer;
	lane_begin(&sock->lane, epoch->epoch);
	sock->turn_seq = UINT64_MAX;
	sock->began_ns = clock_coarse_ns();
	if (sock->sh->tx_shut)
		lane_tx_close(&sock->lane);
	sock_apply(sock, CONN_EV_PEER, REASON_NONE);
	sock->sh->epochs++;
	sock->alone = sock_sole_holder(sock);
	/* Waiters in epoll sets see the bell before rx_ready lets the peer start. */
	epset_sock_lane(sock);
	lane_rx_ready(&sock->lane, sock_rx_busy(sock));
	sock_ring(sock, &sock->sh->lane.tx.wake);
	sock_ring(sock, &sock->sh->lane.rx.wake);
	unlock_both(sock);
	sock->report_due = true;
}

/* The other end is not in this epoch. If it never said ready, nothing is on the ring. */
static void on_unpair(struct sock *sock, const struct ctl_unpair *unpair)
{
	if (unpair->epoch != sock->sh->conn.epoch)
		return;
	if (sock_stage(sock) == CONN_MAPPED) {
		back_to_tcp(sock, CONN_EV_UNPAIR, unpair->reason, 0);
		return;
	}
	lock_both(sock);
	if (sock->lane.peer && !atomic_load(&sock->lane.peer->ready) &&
	    stage_on_lane(sock_stage(sock))) {
		/* No daemon will ever vouch for it: TCP goes on, with a FIN that waited. */
		remote_tx_over(sock);
		sock->lane.remote = false;
		bell_ring(sock->bell_own);
		if (promote_unmap(sock)) {
			sock_apply(sock, CONN_EV_DRAIN, unpair->reason);
			failed(sock, 0);
		}
	}
	unlock_both(sock);
}

void promote_message(const struct ctl_msg *msg, struct fd_bag *bag)
{
	struct sock *sock = promote_find(msg->token);

	/* Answers come in order: the daemon knows all that it was told of. */
	if (msg->token && msg->token == atomic_load(&session_view.adopt_last))
		atomic_store(&session_view.adopt_last, 0);
	if (!sock)
		return; /* closed meanwhile */
	switch (msg->type) {
	case CTL_PAIR:
		on_pair(sock, &msg->u.pair, bag);
		break;
	case CTL_PEER:
		on_peer(sock, &msg->u.peer, bag);
		break;
	case CTL_UNPAIR:
		on_unpair(sock, &msg->u.unpair);
		break;
	case CTL_REFUSED:
		if (!msg->u.refused.retry_ms && stage_pending(sock_stage(sock)) &&
		    !reason_passes(msg->u.refused.reason)) {
			sock_lock_tx(sock);
			sock_pin(sock, msg->u.refused.reason);
			sock_unlock_tx(sock);
		}
		back_to_tcp(sock, CONN_EV_REFUSE, msg->u.refused.reason, msg->u.refused.retry_ms);
		break;
	case CTL_DEMOTE:
		demote_leave(sock, msg->u.demote.reason);
		break;
	case CTL_REGISTERED:
		/* The answer to ADOPT, of a lane between hosts: the daemon has all that it needs.
		 */
		if (msg->u.registered.held && sock->lane.remote &&
		    msg->u.registered.epoch == sock->sh->conn.epoch)
			atomic_store(&sock->held_by, atomic_load(&session_view.serial));
		break;
	default:
		break;
	}
}

static void fill_state(const struct sock *sock, struct ctl_msg *msg)
{
	static const uint8_t states[CONN_STAGE_COUNT] = {
		[CONN_TCP] = CTL_STATE_TCP,	    [CONN_REGISTERED] = CTL_STATE_REGISTERED,
		[CONN_MAPPED] = CTL_STATE_MAPPED,   [CONN_LANE] = CTL_STATE_RING,
		[CONN_LEAVING] = CTL_STATE_LEAVING, [CONN_PINNED] = CTL_STATE_PINNED,
		[CONN_RESET] = CTL_STATE_RESET,	    [CONN_CLOSED] = CTL_STATE_RESET,
	};

	msg->type = CTL_STATE;
	msg->u.state.state = states[sock_stage(sock)];
	msg->u.state.reason = sock->sh->conn.reason;
	msg->u.state.fd = sock->fd;
	msg->u.state.epoch = sock->sh->conn.epoch;
	msg->u.state.totals = totals_of(sock);
}

static void fill_drained(const struct sock *sock, struct ctl_msg *msg)
{
	msg->type = CTL_DRAINED;
	msg->u.drained.epoch = sock->sh->conn.epoch;
	msg->u.drained.reason = sock->sh->conn.reason;
	msg->u.drained.totals = totals_of(sock);
}

/* What is due to be told, told. Session lock, so that it comes before what happens next. */
static void report_locked(struct sock *sock)
{
	struct ctl_msg msg = {.token = promote_token(sock)};

	if (!atomic_exchange(&sock->report_due, false) || !atomic_load(&session_view.page))
		return;
	/* Between hosts a lane that is closed is not drained: the daemon goes on with it. */
	if (sock->lane.remote && sock_stage(sock) == CONN_CLOSED)
		return;
	lock_both(sock);
	if (!stage_on_lane(sock_stage(sock)) && sock->sh->conn.epoch)
		fill_drained(sock, &msg);
	else
		fill_state(sock, &msg);
	unlock_both(sock);
	send_or_drop(&msg);
}

void promote_report(struct sock *sock)
{
	session_lock();
	report_locked(sock);
	session_unlock();
}

void promote_closed(struct sock *sock)
{
	struct ctl_msg msg = {.type = CTL_CLOSED, .token = promote_token(sock)};

	report_locked(sock);
	lock_both(sock);
	msg.u.closed.reason = sock->sh->conn.reason;
	msg.u.closed.epochs = sock->sh->epochs;
	msg.u.closed.demotions = sock->sh->demotions;
	msg.u.closed.totals = totals_of(sock);
	unlock_both(sock);
	send_or_drop(&msg);
}

uint32_t promote_adopt(uint32_t from)
{
	struct sock *sock;

	for (uint32_t i = from; (sock = sock_at(i)); i++) {
		struct ctl_msg msg = {.type = CTL_ADOPT, .token = promote_token(sock)};
		bool remote = sock->lane.remote;
		int fds[5] = {sock->fd};

		if (!sock->live || !sock->lane.own || !stage_on_lane(sock_stage(sock))) {
			sock->report_due = false; /* this daemon has not heard of it */
			continue;
		}
		lock_both(sock);
		msg.u.adopt.fd = sock->fd;
		msg.u.adopt.epoch = sock->sh->conn.epoch;
		msg.u.adopt.totals = totals_of(sock);
		if (remote) {
			msg.u.adopt.flags = CTL_LANE_REMOTE;
			fds[1] = sock->half_own;
			fds[2] = sock->half_peer;
			fds[3] = sock->bell_own;
			fds[4] = sock->bell_peer;
		}
		unlock_both(sock);
		if (session_send_fds_locked(&msg, fds, remote ? 5 : 1))
			return i;
		atomic_store(&session_view.adopt_last, msg.token);
	}
	return PROMOTE_ADOPTED;
}

int promote_session_lost(void)
{
	struct sock *sock;
	int lanes = 0;

	for (uint32_t i = 0; (sock = sock_at(i)); i++) {
		if (!sock->live)
			continue;
		/* What is not on a lane may be locked by the caller. */
		if (stage_on_lane(sock_stage(sock))) {
			sock_lock_tx(sock);
			lanes |= sock->lane.own != NULL;
			if (atomic_load(&sock->held_by) == atomic_load(&session_view.serial))
				remote_watch(sock);
			bell_ring(sock->bell_own); /* nobody may sleep for long now */
			sock_unlock_tx(sock);
		}
		if (stage_pending(sock_stage(sock)))
			back_to_tcp(sock, CONN_EV_CANCEL, REASON_DAEMON_GONE, 0);
	}
	return lanes;
}

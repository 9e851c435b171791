/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/socket.h>

#include "base/util.h"
#include "client/demote.h"
#include "client/promote.h"
#include "client/remote.h"
#include "client/session.h"
#include "os/clock.h"
#include "os/syswait.h"
#include "os/tcp.h"

/* Between two looks for a daemon, while a lane has none. Chosen: as often as one is tried for. */
#define LOOK_AGAIN_NS 100000000u
/* The same in a close, which somebody waits for. */
#define CLOSE_LOOK_MS 1

/* When the first lane that stands still will have done so for too long; UINT64_MAX: none does. */
static _Atomic uint64_t alarm_ns = UINT64_MAX;

bool remote_is_held(const struct sock *sock)
{
	const struct notice_page *page = atomic_load(&session_view.page);

	return page && notice_alive(page) &&
	       atomic_load(&sock->held_by) == atomic_load(&session_view.serial);
}

static bool on_remote_lane(const struct sock *sock)
{
	return sock->lane.remote && sock->lane.peer && stage_on_lane(sock_stage(sock));
}

/* --- the end of the own direction ------------------------------------------------------------- */

void remote_tx_over(struct sock *sock)
{
	struct sock_shared *sh = sock->sh;
	uint32_t wanted = 1;

	if (!sock->lane.remote || sh->lane.tx.phase != TX_ENDED)
		return;
	demote_guard(sock, false);
	if (atomic_compare_exchange_strong(&sh->tx_shut, &wanted, 2))
		sys_shutdown(sock->fd, SHUT_WR);
}

/* Whether nothing stands in the way of TCP. Transmit lock. */
static bool tx_is_over(struct sock *sock)
{
	struct lane_plan plan;

	return lane_tx_route(&sock->lane, 0, &plan) == TX_VIA_TCP;
}

int remote_shutdown(struct sock *sock, int how)
{
	enum tcp_state state;

	if (tcp_state_read(sock->fd, &state) == 0 && state == TCP_STATE_CLOSE)
		return -ENOTCONN;
	if (how != SHUT_WR)
		sys_shutdown(sock->fd, SHUT_RD); /* tells the other end nothing */
	if (how != SHUT_RD && tx_is_over(sock))
		remote_tx_over(sock);
	return 0;
}

void remote_close(struct sock *sock, bool unread)
{
	const struct linger reset = {.l_onoff = 1, .l_linger = 0};
	const struct sockaddr unspec = {.sa_family = AF_UNSPEC};
	const struct linger *linger = &sock->sh->linger;

	if (sock->sh->linger_guarded && linger->l_onoff && !linger->l_linger) {
		/* The program wants a reset, and the duplicate must not put it off. */
		sys_connect(sock->fd, &unspec, sizeof(unspec));
		return;
	}
	if (!tx_is_over(sock))
		return; /* the daemon goes on; if there is none, the guard makes it a reset */
	remote_tx_over(sock);
	if (unread)
		sys_setsockopt(sock->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

void remote_close_wait(struct sock *sock)
{
	uint64_t deadline = 0, now;
	bool waits;

	for (;;) {
		sock_lock_tx(sock);
		sock_lock_rx(sock);
		waits = on_remote_lane(sock) && !remote_is_held(sock) &&
			lane_close(&sock->lane) >= 0 && !tx_is_over(sock);
		sock_unlock_rx(sock);
		sock_unlock_tx(sock);
		now = clock_now_ns();
		if (!deadline)
			deadline = now + (uint64_t)session_settings.demote_wait_ms * 1000000u;
		if (!waits || now >= deadline)
			return;
		session_ensure();
		session_poll();
		if (!remote_is_held(sock))
			sys_poll(NULL, 0, CLOSE_LOOK_MS);
	}
}

/* --- lanes that stand still ------------------------------------------------------------------- */

/* Whether the lane waits for the daemons: for ours to be there, or for both to replay. */
static bool stands_still(const struct sock *sock)
{
	const struct lane_state *st = sock->lane.st;

	if (!on_remote_lane(sock))
		return false;
	if (!remote_is_held(sock))
		return true;
	if (!atomic_load(&sock->lane.peer->lost))
		return false;
	return st->rx.phase != RX_ENDED || st->tx.phase != TX_ENDED ||
	       atomic_load(&sock->lane.peer->replayed) != opt_some(st->tx.end.v);
}

static uint64_t limit_ns(void)
{
	return (uint64_t)session_settings.resume_timeout_s * 1000000000u;
}

static void set_alarm(uint64_t at_ns)
{
	uint64_t known = atomic_load(&alarm_ns);

	while (at_ns < known && !atomic_compare_exchange_weak(&alarm_ns, &known, at_ns))
		;
}

void remote_note(struct sock *sock)
{
	uint64_t since = atomic_load(&sock->still_ns);

	if (!stands_still(sock)) {
		if (since)
			atomic_store(&sock->still_ns, 0);
		return;
	}
	if (!since) {
		since = clock_now_ns();
		atomic_store(&sock->still_ns, since);
	}
	set_alarm(since + limit_ns());
	if (!atomic_load(&session_view.page))
		atomic_store(&session_view.lost, 1); /* so that a daemon is looked for */
}

uint64_t remote_sleep_ns(void)
{
	uint64_t at = atomic_load_explicit(&alarm_ns, memory_order_relaxed);
	uint64_t now, left;

	if (at == UINT64_MAX)
		return UINT64_MAX;
	now = clock_now_ns();
	left = at > now ? at - now : 1;
	return atomic_load(&session_view.page) ? left : u64_min(left, LOOK_AGAIN_NS);
}

/* Look at @sock when the time may be up for it. */
static void check(struct sock *sock, uint64_t now)
{
	uint64_t since;
	bool over;

	sock_lock_tx(sock);
	sock_lock_rx(sock);
	if (sock->live)
		remote_watch(sock);
	since = atomic_load(&sock->still_ns);
	over = sock->live && on_remote_lane(sock) && since && now - since >= limit_ns();
	if (over)
		demote_reset_locked(sock, REASON_RESUME_TIMEOUT);
	sock_unlock_rx(sock);
	sock_unlock_tx(sock);
	if (over)
		promote_report(sock);
}

void remote_check(void)
{
	uint64_t at = atomic_load_explicit(&alarm_ns, memory_order_relaxed), now;
	struct sock *sock;

	if (at == UINT64_MAX)
		return;
	if (session_calls())
		session_poll();
	now = clock_now_ns();
	if (now < at || !atomic_compare_exchange_strong(&alarm_ns, &at, UINT64_MAX))
		return;
	/* Those that still stand still set it again. */
	for (uint32_t i = 0; (sock = sock_at(i)); i++)
		if (sock->live && atomic_load(&sock->still_ns))
			check(sock, now);
}

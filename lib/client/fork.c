/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>

#include "client/demote.h"
#include "client/epset.h"
#include "client/fdtable.h"
#include "client/fork.h"
#include "client/process.h"
#include "client/promote.h"
#include "client/session.h"
#include "client/signal.h"
#include "client/wait.h"
#include "os/syswait.h"

/* Which fork a place was taken for, while the child has not put its name there. */
static uint64_t ticket;
static __thread uint64_t own_ticket __attribute__((tls_model("initial-exec")));
static __thread uint32_t own_depth __attribute__((tls_model("initial-exec")));
static void (*after_fork)(void);

static struct sock *next_live(uint32_t *index)
{
	struct sock *sock;

	while ((sock = sock_at((*index)++)))
		if (sock->live)
			return sock;
	return NULL;
}

/* A free place among the holders, plus one; 0 if there is none. */
static uint32_t free_place(const struct sock *sock)
{
	for (uint32_t i = 0; i < SOCK_HOLDERS; i++)
		if (!atomic_load(&sock->sh->holder[i].taken))
			return i + 1;
	return 0;
}

/* Sockets with no room for another holder go to TCP for good: the child can't sign there. */
static void leave_crowded(void)
{
	struct sock *sock;

	for (uint32_t i = 0; (sock = next_live(&i));) {
		sock_sole_holder(sock); /* frees the places of the dead */
		if (free_place(sock))
			continue;
		if (demote_handover(sock, REASON_SEVERAL_HOLDERS))
			demote_reset(sock, REASON_HANDOVER_FAILED);
	}
}

static void take_place(struct sock *sock)
{
	struct sock_shared *sh = sock->sh;

	sock->fork_place = 0;
	sock->alone = false;
	for (uint32_t i = 0; i < SOCK_HOLDERS; i++) {
		struct holder *holder = &sh->holder[i];
		uint32_t free = 0;

		if (!atomic_compare_exchange_strong(&holder->taken, &free, 1))
			continue;
		atomic_store(&holder->tx_busy, 0);
		atomic_store(&holder->rx_busy, 0);
		holder->id = (struct proc_id){.pid = (uint32_t)sys_getpid(), .start_ticks = ticket};
		sock->fork_place = i + 1;
		return;
	}
	atomic_store(&sh->crowded, 1);
}

void fork_prepare(void)
{
	struct sock *sock;

	leave_crowded();
	own_depth = signal_local.depth;
	session_lock();
	fdtable_lock();
	sock_pool_lock();
	own_ticket = ++ticket;
	for (uint32_t i = 0; (sock = next_live(&i));) {
		promote_cancel(sock, REASON_FORKED);
		take_place(sock);
	}
	/* What is mapped where must not change while it is copied. Only now: a session that ends
	 * locks one socket after the other. */
	for (uint32_t i = 0; (sock = next_live(&i));) {
		sock_lock_tx(sock);
		sock_lock_rx(sock);
	}
	epset_lock();
}

static void unlock_socks(void)
{
	struct sock *sock;

	for (uint32_t i = 0; (sock = next_live(&i));) {
		sock_unlock_rx(sock);
		sock_unlock_tx(sock);
	}
}

void fork_in_parent(void)
{
	epset_unlock();
	unlock_socks();
	sock_pool_unlock();
	fdtable_unlock();
	session_unlock();
}

/* The child has no place at @sock: it uses the descriptors as plain TCP. */
static void forget(struct sock *sock)
{
	for (unsigned int fd = 0; fd < fdtable_top(); fd++)
		if (fdtable_get((int)fd) == sock)
			fdtable_set((int)fd, NULL);
	sock->live = false;
}

/* The places that the parent took become ours. The parent leaves the locks, which it signed. */
static void settle(struct sock *sock)
{
	struct holder *holder;

	if (!sock->fork_place) {
		forget(sock);
		return;
	}
	sock->place = sock->fork_place;
	sock->fork_place = 0;
	atomic_store(&sock->waiters, 0);
	sock->reserved_bytes = sock->peeked_bytes = 0;
	sock->report_due = false;
	if (!process_id()->pid)
		return; /* unnamed, so that others take it for alive */
	holder = sock_holder(sock);
	holder->id = *process_id();
	atomic_store(&holder->taken, 2);
}

void fork_in_child(void)
{
	struct sock *sock;

	process_note_self();
	for (uint32_t i = 0; (sock = next_live(&i));)
		settle(sock);
	epset_unlock();
	sock_pool_fork();
	fdtable_unlock();
	session_forked();
	atomic_store(&sock_pending, 0);
	session_unlock();
	wait_forked();
	/* The sockets' locks were left by the parent. */
	signal_forked(own_depth);
	if (after_fork)
		after_fork();
}

void fork_failed(void)
{
	struct sock *sock;

	session_lock();
	for (uint32_t i = 0; (sock = next_live(&i));) {
		for (uint32_t k = 0; k < SOCK_HOLDERS; k++) {
			struct holder *holder = &sock->sh->holder[k];

			if (atomic_load(&holder->taken) == 1 &&
			    holder->id.start_ticks == own_ticket &&
			    holder->id.pid == (uint32_t)sys_getpid())
				atomic_store(&holder->taken, 0);
		}
	}
	session_unlock();
}

int fork_init(void (*in_child)(void))
{
	after_fork = in_child;
	return -pthread_atfork(fork_prepare, fork_in_parent, fork_in_child);
}

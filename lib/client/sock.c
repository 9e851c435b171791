/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "os/bell.h"
#include "client/pool.h"
#include "client/process.h"
#include "client/signal.h"
#include "client/sock.h"
#include "os/fd.h"

/* Sockets per process. Chosen: above the usual hard limit of descriptors of a service; only what
 * is used takes memory. */
#define SOCK_POOL_PLACES 131072u

static struct pool sock_pool;
static struct pool shared_pool;	  /* this process's own; inherited sockets lie in the parent's */
static _Atomic uint32_t sock_top; /* places below were used at least once */
static _Atomic uint32_t shared_top;
static _Atomic uint32_t sock_free_head; /* index + 1 of the first free place; a lock guards it */
static struct slock pool_lock;

/* Within one process nobody dies alone. */
static bool pool_holder_dead(void *arg, uint32_t place)
{
	(void)arg;
	(void)place;
	return false;
}

void sock_pool_lock(void)
{
	section_enter();
	slock_lock(&pool_lock, 1, pool_holder_dead, NULL);
}

void sock_pool_unlock(void)
{
	slock_unlock(&pool_lock);
	section_leave();
}

int sock_pool_init(void)
{
	int rc = pool_init(&sock_pool, sizeof(struct sock), SOCK_POOL_PLACES, 0);

	return rc ? rc : pool_init(&shared_pool, sizeof(struct sock_shared), SOCK_POOL_PLACES, 1);
}

/* A forked child puts what it creates itself into memory of its own. */
int sock_pool_fork(void)
{
	pool_lock.word = 0;
	atomic_store(&shared_top, 0);
	return pool_init(&shared_pool, sizeof(struct sock_shared), SOCK_POOL_PLACES, 1);
}

/* Places below the top that the other holders have given back, or the next fresh one. */
static struct sock_shared *shared_take(void)
{
	static uint32_t cursor;
	uint32_t top = atomic_load(&shared_top);

	for (uint32_t i = 0; i < top && i < 16; i++) {
		struct sock_shared *sh = pool_at(&shared_pool, cursor++ % top);
		uint32_t free = 0;

		if (atomic_compare_exchange_strong(&sh->used, &free, 1))
			return sh;
	}
	if (top == shared_pool.capacity)
		return NULL;
	atomic_store(&shared_top, top + 1);
	atomic_store(&((struct sock_shared *)pool_at(&shared_pool, top))->used, 1);
	return pool_at(&shared_pool, top);
}

static struct sock *place_take(void)
{
	uint32_t index = atomic_load(&sock_free_head);
	struct sock *sock;

	if (index) {
		sock = pool_at(&sock_pool, index - 1);
		atomic_store(&sock_free_head, sock->next_free);
		return sock;
	}
	index = atomic_load(&sock_top);
	if (index == sock_pool.capacity)
		return NULL;
	sock = pool_at(&sock_pool, index);
	sock->index = index;
	atomic_store(&sock_top, index + 1);
	return sock;
}

/* Of an object that nobody has yet: who gets it, gets it through a store that releases (its `live`,
 * its place in the table). Short connections pay for each locked instruction. */
#define set_quietly(obj, val) atomic_store_explicit(obj, val, memory_order_relaxed)

static void shared_reset(struct sock_shared *sh)
{
	memset((uint8_t *)sh + sizeof(sh->used), 0, sizeof(*sh) - sizeof(sh->used));
	conn_init(&sh->conn);
	set_quietly(&sh->stage, CONN_TCP);
	sh->holder[0].id = *process_id();
	set_quietly(&sh->holder[0].taken, process_id()->pid ? 2 : 1);
}

struct sock *sock_new(int fd)
{
	struct sock_shared *sh;
	struct sock *sock = NULL;

	if (!sock_pool.base)
		return NULL;
	sock_pool_lock();
	sh = shared_take();
	if (sh)
		sock = place_take();
	sock_pool_unlock();
	if (!sock) {
		if (sh)
			atomic_store(&sh->used, 0);
		return NULL;
	}
	shared_reset(sh);
	sock->sh = sh;
	sock->lane = (struct lane){.st = &sh->lane};
	sock->place = 1;
	sock->n_fds = 1;
	sock->fd = fd;
	sock->bell_own = sock->bell_peer = -1;
	sock->half_own = sock->half_peer = -1;
	set_quietly(&sock->held_by, 0);
	set_quietly(&sock->still_ns, 0);
	set_quietly(&sock->turn_seq, 0);
	sock->entries = NULL;
	set_quietly(&sock->tx_again, 0);
	set_quietly(&sock->late_error, 0);
	sock->rcv_timeout_ns = sock->snd_timeout_ns = 0;
	sock->policy = (struct policy_state){0};
	sock->spin = (struct spin_memory){0};
	sock->pace = (struct pace){0};
	set_quietly(&sock->report_due, false);
	sock->reserved_bytes = sock->peeked_bytes = 0;
	set_quietly(&sock->waiters, 0);
	set_quietly(&sock->stayers, 0);
	sock->alone = false;
	sock->live = true;
	return sock;
}

void sock_free(struct sock *sock)
{
	struct sock_shared *sh = sock->sh;
	bool last = true;

	atomic_fetch_add(&sock->gen, 1);
	atomic_store(&sock_holder(sock)->taken, 0);
	for (uint32_t i = 0; i < SOCK_HOLDERS; i++)
		if (atomic_load(&sh->holder[i].taken))
			last = false;
	if (last && !atomic_load(&sh->crowded))
		atomic_store(&sh->used, 0);
	sock_pool_lock();
	sock->live = false;
	sock->next_free = atomic_load(&sock_free_head);
	atomic_store(&sock_free_head, sock->index + 1);
	sock_pool_unlock();
}

struct sock *sock_at(uint32_t index)
{
	return index < atomic_load(&sock_top) ? pool_at(&sock_pool, index) : NULL;
}

struct sock *sock_find(uint32_t index, uint32_t gen)
{
	struct sock *sock = sock_at(index);

	return sock && atomic_load(&sock->gen) == gen ? sock : NULL;
}

_Atomic uint32_t sock_pending;

/* Take over the stage of conn. */
static void sock_staged(struct sock *sock)
{
	uint32_t before = atomic_exchange(&sock->sh->stage, sock->sh->conn.stage);

	if (stage_pending(before) && !stage_pending(sock->sh->conn.stage))
		atomic_fetch_sub(&sock_pending, 1);
	else if (!stage_pending(before) && stage_pending(sock->sh->conn.stage))
		atomic_fetch_add(&sock_pending, 1);
}

bool sock_apply(struct sock *sock, enum conn_event event, enum reason reason)
{
	bool applied = conn_apply(&sock->sh->conn, event, reason);

	sock_staged(sock);
	return applied;
}

void sock_pin(struct sock *sock, enum reason reason)
{
	conn_pin(&sock->sh->conn, reason);
	sock_staged(sock);
}

static bool holder_dead(void *arg, uint32_t place)
{
	struct sock *sock = arg;
	struct holder *holder = &sock->sh->holder[(place - 1) % SOCK_HOLDERS];
	struct proc_id id = holder->id;

	if (atomic_load(&holder->taken) != 2)
		return !atomic_load(&holder->taken);
	return !proc_is_alive(&id);
}

bool sock_sole_holder(struct sock *sock)
{
	struct sock_shared *sh = sock->sh;
	bool sole = !atomic_load(&sh->crowded);

	for (uint32_t i = 0; i < SOCK_HOLDERS; i++) {
		if (i == sock->place - 1 || !atomic_load(&sh->holder[i].taken))
			continue;
		if (holder_dead(sock, i + 1))
			atomic_store(&sh->holder[i].taken, 0);
		else
			sole = false;
	}
	return sole;
}

static unsigned int busy_sum(struct sock *sock, bool tx)
{
	unsigned int sum = 0;

	for (uint32_t i = 0; i < SOCK_HOLDERS; i++) {
		struct holder *holder = &sock->sh->holder[i];
		uint32_t busy = atomic_load(tx ? &holder->tx_busy : &holder->rx_busy);

		if (busy && (i == sock->place - 1 || !holder_dead(sock, i + 1)))
			sum += busy;
	}
	return sum;
}

unsigned int sock_tx_busy(struct sock *sock)
{
	return busy_sum(sock, true);
}

unsigned int sock_rx_busy(struct sock *sock)
{
	return busy_sum(sock, false);
}

bool sock_tcp_wait_begin(struct sock *sock)
{
	/* Full fence; partner: the stage is stored before anyone sums up who is busy. */
	atomic_fetch_add(&sock_holder(sock)->rx_busy, 1);
	if (!stage_on_lane(sock_stage(sock)))
		return true;
	atomic_fetch_sub(&sock_holder(sock)->rx_busy, 1);
	return false;
}

void sock_tcp_wait_end(struct sock *sock, uint32_t gen)
{
	/* A socket that was closed meanwhile has begun to count anew. */
	if (atomic_load(&sock->gen) == gen)
		atomic_fetch_sub(&sock_holder(sock)->rx_busy, 1);
}

void sock_stay(struct sock *sock, struct sock_stay *stay)
{
	atomic_fetch_add(&sock->stayers, 1);
	stay->gen = atomic_load(&sock->gen);
}

void sock_leave(struct sock *sock, const struct sock_stay *stay)
{
	/* As above. */
	if (stay->deadline && atomic_load(&sock->gen) == stay->gen)
		atomic_fetch_sub(&sock->stayers, 1);
}

bool sock_stayers_settled(struct sock *sock)
{
	const struct holder *holder = sock_holder(sock);

	return atomic_load(&sock->stayers) <=
	       atomic_load(&holder->rx_busy) + atomic_load(&holder->tx_busy);
}

void sock_lock_tx(struct sock *sock)
{
	section_enter();
	if (slock_lock(&sock->sh->tx_lock, sock->place, holder_dead, sock) && sock->lane.own) {
		lane_tx_recover(&sock->lane);
		sock_ring_all(sock);
	}
}

void sock_lock_rx(struct sock *sock)
{
	section_enter();
	if (slock_lock(&sock->sh->rx_lock, sock->place, holder_dead, sock) && sock->lane.own) {
		lane_rx_recover(&sock->lane);
		sock_ring_all(sock);
	}
}

bool sock_trylock_tx(struct sock *sock)
{
	section_enter();
	if (slock_try(&sock->sh->tx_lock, sock->place))
		return true;
	section_leave();
	return false;
}

bool sock_trylock_rx(struct sock *sock)
{
	section_enter();
	if (slock_try(&sock->sh->rx_lock, sock->place))
		return true;
	section_leave();
	return false;
}

void sock_unlock_tx(struct sock *sock)
{
	slock_unlock(&sock->sh->tx_lock);
	section_leave();
}

void sock_unlock_rx(struct sock *sock)
{
	slock_unlock(&sock->sh->rx_lock);
	section_leave();
}

void sock_ring(struct sock *sock, struct lane_wake *wake)
{
	struct lane_bells bells;

	if (!lane_bells_due(&sock->lane, wake, &bells))
		return;
	if (bells.peer)
		bell_ring(sock->bell_peer);
	if (bells.self)
		bell_ring(sock->bell_own);
	lane_rung(wake, &bells);
}

void sock_ring_all(const struct sock *sock)
{
	bell_ring(sock->bell_own);
	bell_ring(sock->bell_peer);
}

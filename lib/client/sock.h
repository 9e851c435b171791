/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "client/pace.h"
#include "client/slock.h"
#include "client/spin.h"
#include "core/conn.h"
#include "core/lane.h"
#include "core/policy.h"
#include "os/proc.h"

/*
 * A tracked TCP socket.
 *
 * Two objects per socket: struct sock is this process's own (where things are mapped here, which
 * descriptors it has here); struct sock_shared lies in memory that a fork shares (locks, the lane
 * switch, who holds the socket), so that parent and child go on with the same stream. Neither is
 * ever unmapped: a thread that looked a socket up just before another one closed it still finds
 * its locks, takes one, and sees by `gen` that the socket is not there any more.
 *
 * Locks, in this order: the session's, then tx_lock, then rx_lock. tx_lock guards the transmit
 * side of the lane, conn, and, together with rx_lock, the mappings. None is held across a wait.
 */

/* Processes that can hold one socket and still be told apart. Chosen: prefork servers hand a
 * connection to one child; a socket with more holders stays on TCP. */
#define SOCK_HOLDERS 8u

/* Directions that have ended, noted under their own lock and read without. */
#define SOCK_TX_ENDED 1u
#define SOCK_RX_ENDED 2u
#define SOCK_BOTH_ENDED (SOCK_TX_ENDED | SOCK_RX_ENDED)

struct holder {
	_Atomic uint32_t taken;	  /* 0: free; 1: held by somebody not named yet; 2: by id */
	_Atomic uint32_t tx_busy; /* kernel sends under way outside tx_lock */
	_Atomic uint32_t rx_busy; /* kernel receives under way outside rx_lock */
	uint32_t unused;
	struct proc_id id; /* valid when taken is 2 */
};

struct sock_shared {
	_Atomic uint32_t used;	   /* 0: the place is free */
	_Atomic uint32_t crowded;  /* 1: more processes than places may hold it */
	_Atomic uint32_t stage;	   /* copy of conn.stage that may be read without a lock */
	_Atomic uint32_t nonblock; /* O_NONBLOCK as last seen: a hint for spinning only */
	struct slock tx_lock, rx_lock;
	struct conn conn;
	struct lane_state lane;
	/* Of the lanes that have ended; both locks. */
	uint64_t lane_tx_bytes, lane_rx_bytes, rx_changes;
	uint64_t rx_count; /* TCP bytes consumed, as last known in RX_TAIL; rx_lock */
	uint32_t epochs, demotions;
	_Atomic uint32_t ended;	  /* SOCK_TX_ENDED, SOCK_RX_ENDED; both: is the epoch over? */
	_Atomic uint32_t rx_shut; /* SHUT_RD: an empty ring is EOF */
	_Atomic uint32_t tx_shut; /* SHUT_WR: no start any more; 2: we have shut TCP ourselves */
	_Atomic uint32_t killed;  /* the peer died in its segment; its reset was reported */
	uint32_t linger_guarded;  /* SO_LINGER is {1, 0}, see demote_guard(); tx_lock */
	struct linger linger;	  /* what the program had set */
	struct holder holder[SOCK_HOLDERS];
};

struct epentry;

struct sock {
	struct sock_shared *sh;
	struct lane lane;	  /* own == NULL: nothing mapped here */
	_Atomic uint32_t gen;	  /* moves when the object is freed */
	_Atomic uint32_t waiters; /* threads that read the halves without a lock: no unmapping */
	_Atomic uint32_t stayers; /* threads in a call that has waited: see sock_stay() */
	uint32_t index;		  /* place in the pool */
	uint32_t place;		  /* our place in sh->holder, plus one: how we sign locks */
	uint32_t fork_place;	  /* the one taken for a child, while a fork is under way */
	uint32_t next_free;	  /* while not live: the next free place, plus one */
	_Atomic bool live;	  /* may be asked by anyone who visits all */
	bool alone;		  /* no other process holds it, since the lane began */
	uint32_t n_fds; /* descriptors of this socket in this process; under the table lock */
	int fd;		/* one of them */
	int bell_own, bell_peer;
	int half_own, half_peer;   /* of a lane between hosts, for a daemon to come; else -1 */
	_Atomic uint32_t held_by;  /* serial of the session whose daemon has a duplicate of fd */
	_Atomic uint64_t still_ns; /* since when such a lane stands still; 0: it does not */
	uint32_t syn_bias;
	struct epentry *entries;		 /* epoll sets that have it; under their mutex */
	_Atomic int late_error;			 /* of a send that had sent something: to be told */
	_Atomic uint32_t tx_again;		 /* a send got EAGAIN: the next space is news */
	_Atomic uint64_t turn_seq;		 /* the peer's state_seq at the last turn */
	uint64_t rcv_timeout_ns, snd_timeout_ns; /* 0: none */
	struct policy_state policy;
	uint64_t began_ns; /* when the lane began; both locks */
	struct spin_memory spin __attribute__((aligned(8)));
	struct pace pace; /* rx_lock */
	/* An open reservation (tx_lock) and an open peek (rx_lock) of the native API. */
	uint64_t reserved_bytes, peeked_bytes;
	uint32_t reserved_epoch, peeked_epoch;
	_Atomic bool report_due; /* the daemon has not been told of the last change yet */
};

/* Reserve the memory for sockets, at the start and (for what a child creates) after a fork. 0 or
 * -ENOMEM. */
int sock_pool_init(void);
int sock_pool_fork(void);

/* Around a fork, so that the child finds the pool at rest. The child calls sock_pool_fork(). */
void sock_pool_lock(void);
void sock_pool_unlock(void);

/* Create the object for @fd (not in any table yet), held by this process alone. NULL without
 * memory. Does no system call in the common case. */
struct sock *sock_new(int fd);

/* Give up this process's hold and free the object. The descriptor is not closed. */
void sock_free(struct sock *sock);

/* The object at @index if it is still of generation @gen, else NULL. */
struct sock *sock_find(uint32_t index, uint32_t gen);

/* The object at @index, used or not, or NULL behind the last: to visit all of them. */
struct sock *sock_at(uint32_t index);

static inline uint32_t sock_stage(const struct sock *sock)
{
	return atomic_load(&sock->sh->stage);
}

static inline bool stage_on_lane(uint32_t stage)
{
	return stage == CONN_LANE || stage == CONN_LEAVING;
}

static inline bool stage_pending(uint32_t stage)
{
	return stage == CONN_REGISTERED || stage == CONN_MAPPED;
}

/* Sockets of this process whose registration is under way. */
extern _Atomic uint32_t sock_pending;

/* conn_apply() plus the copy of the stage; tx_lock. */
bool sock_apply(struct sock *sock, enum conn_event event, enum reason reason);

/* conn_pin() plus the copy of the stage; tx_lock. */
void sock_pin(struct sock *sock, enum reason reason);

/* Whether no process but this one can hold the socket. Frees the places of dead processes. */
bool sock_sole_holder(struct sock *sock);

/* Kernel sends, or receives, under way in any living holder. */
unsigned int sock_tx_busy(struct sock *sock);
unsigned int sock_rx_busy(struct sock *sock);

/*
 * Count a wait that sees TCP only: until it is over no byte may come by a ring, since nothing would
 * wake it. False: there is a lane already, look at that. @gen: of the socket, when the wait began.
 */
bool sock_tcp_wait_begin(struct sock *sock);
void sock_tcp_wait_end(struct sock *sock, uint32_t gen);

/*
 * A call that has waited goes on with the socket that it began with, as in the kernel, also when
 * that is closed under it: it is counted from its first wait to its end, so that who closes the
 * last descriptor lets it get into the kernel first. A thread that is cancelled in its wait stays
 * counted: closing takes longer then, by a bounded time.
 */
struct sock_stay {
	uint64_t deadline; /* clock_now_ns(); 0: the call has not waited */
	uint32_t gen;
};
void sock_stay(struct sock *sock, struct sock_stay *stay);
void sock_leave(struct sock *sock, const struct sock_stay *stay);

/* Whether all of these are in a kernel call on the socket. */
bool sock_stayers_settled(struct sock *sock);

/*
 * Take or leave a direction's lock. Taking it over from a process that died in it mends the lane
 * state and rings both bells.
 */
void sock_lock_tx(struct sock *sock);
void sock_unlock_tx(struct sock *sock);
void sock_lock_rx(struct sock *sock);
void sock_unlock_rx(struct sock *sock);
bool sock_trylock_tx(struct sock *sock);
bool sock_trylock_rx(struct sock *sock);

/* Ring what is due for a direction; its lock is held. */
void sock_ring(struct sock *sock, struct lane_wake *wake);

/* Ring both bells, whatever is armed. */
void sock_ring_all(const struct sock *sock);

/* The own entry of sh->holder. */
static inline struct holder *sock_holder(const struct sock *sock)
{
	return &sock->sh->holder[sock->place - 1];
}

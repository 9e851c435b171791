/* SPDX-License-Identifier: MIT */
#pragma once

#include "core/lane.h"
#include "sim/kernel.h"
#include "sim/sched.h"

/*
 * One end of the connection as a client library holds it: the state that the processes of the side
 * share, the lane of the current epoch, two locks, a bell, and the in-flight slots of its threads.
 * The lane functions are called here in the way that lane.h asks for, and nowhere else.
 */

#define SIDE_THREADS_MAX 5
#define SIDE_PROCS_MAX 2
#define THREAD_BUFFER_BYTES (64u << 10)

struct side_lock {
	const struct task *owner;
};

/* A thread of a program. */
struct thread {
	struct side *side;
	struct task *task; /* NULL: there is none */
	unsigned int proc;
	bool alive;
	bool writes, reads; /* it has still to do so */
	bool blocking;	    /* its kernel calls may block */
	uint64_t bell_seen;
	/* The truth behind the slots below, for the oracle alone. */
	bool sending, deaf;
	bool in_send;		  /* in-flight slot: a kernel send */
	bool uncovered;		  /* in-flight slot: a receive or wait that can't see the bell */
	unsigned int wants;	  /* KERNEL_IN, KERNEL_OUT: what it waits for while it is blocked */
	unsigned int wake_events; /* while asleep */
	uint8_t *buffer;	  /* THREAD_BUFFER_BYTES to receive into */
};

struct side {
	unsigned int id;
	struct lane_state state[2]; /* by epoch, in turn: a new one is prepared aside */
	struct lane lane;
	bool lane_on;	  /* the lane is in use: begun and not put away */
	uint32_t drained; /* the last epoch that it told the daemon to be over */
	struct side_lock tx_lock, rx_lock;
	struct tcp_count consumed; /* of TCP, as counted last… */
	uint32_t counted;	   /* … in the tail of this epoch */
	uint64_t bell;
	bool ringing; /* about to write the peer's bell, for the killer */
	struct thread thread[SIDE_THREADS_MAX];
	bool proc_alive[SIDE_PROCS_MAX];
	uint64_t stopped; /* the whole side is stopped until this tick */
	bool shut;	  /* no byte follows from here */
	bool fin_seen;	  /* TCP has shown a FIN or an error */
	bool pinned;	  /* a hand-over is under way: no new epoch */
	bool bare;	  /* handed over to a program that does not know the ring */
	/* Mail from the daemon: halves for a new epoch. */
	bool mail;
	struct lane mail_lane;
	uint32_t mail_epoch;
};

/* How things stood before an attempt. */
struct mark {
	const struct half_ctl *own; /* of the lane in use, if any */
	struct wake_mark words;
};

/* What an attempt that gave -EAGAIN waits for. */
struct need {
	unsigned int kinds;  /* wake_kinds */
	unsigned int events; /* kernel_events */
};

extern struct side sides[2];

static inline struct side *side_peer(const struct side *side)
{
	return &sides[!side->id];
}

void side_init(struct side *side, unsigned int id);
bool side_is_alive(const struct side *side);
void side_ring(struct side *side);

void side_lock_tx(struct side *side);
void side_lock_rx(struct side *side);
/* Ring what is due, then unlock. */
void side_unlock_tx(struct side *side);
void side_unlock_rx(struct side *side);

unsigned int side_sends_in_flight(const struct side *side);
unsigned int side_uncovered(const struct side *side);

/* Take up new halves, if the daemon sent some. */
void side_read_mail(struct thread *thread);

/* A lane call returned -EBADMSG: the connection is reset. */
void side_broken(struct side *side);
/* TCP has shown a FIN or an error. */
void side_saw_fin(struct side *side);

struct mark thread_mark(const struct thread *thread);
/* Sleep until something of @need may have changed since @mark, or for no reason. */
void thread_sleep(struct thread *thread, const struct mark *mark, const struct need *need,
		  uint64_t ticks);
/* Block in the kernel, deaf to the bell: true, or false for a signal. */
bool thread_block(struct thread *thread, unsigned int events);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * What a run is made of, drawn from its seed before it begins.
 */

#define PLAN_THREADS_MAX 3
#define PLAN_EPOCHS_MAX 4
#define PLAN_ROUNDS_MAX 24
#define PLAN_RING_MAX_BYTES 16384u

enum role {
	ROLE_WRITE, /* sends its share, blocking */
	ROLE_READ,  /* receives to the end, blocking */
	ROLE_LOOP,  /* an event loop: both, without blocking */
	ROLE_TURNS, /* question and answer */
};

/* When a process is killed, once its time has come. */
enum moment {
	MOMENT_ANY,
	MOMENT_LOCK,   /* while it holds a lock */
	MOMENT_UNTOLD, /* … and has changed a word, but not told so */
	MOMENT_RINGING,
};

/* When a side is through with the connection. */
enum finish {
	FINISH_SHUT,  /* shuts its direction when all is sent, and reads to EOF */
	FINISH_COUNT, /* closes when all is sent and all that it expects has come */
	FINISH_EOF,   /* closes when all is sent and EOF was read */
};

struct side_plan {
	unsigned int threads, procs;
	enum role role[PLAN_THREADS_MAX];
	unsigned int proc[PLAN_THREADS_MAX];
	enum finish finish;
	bool blocking; /* kernel calls before promotion block, and sends after it */
	uint64_t total_bytes;
	uint64_t send_lo, send_hi, receive_lo, receive_hi; /* sizes of operations */
	unsigned int pause_pct;				   /* chance of a pause between them */
	uint64_t pause_ticks;
	uint64_t quit_bytes; /* closes after having received so many; UINT64_MAX never */
	bool on_ring; /* does what follows when bytes go over the ring, and not just at any time */
	unsigned int leaves, stops, freezes; /* how often it asks for an end, a hand-over, and how
						often all of it is stopped for a while */
	bool bare;			     /* after a hand-over nobody looks at the lane again */
	uint64_t event_ticks;		     /* longest time between such events */
	uint64_t kill_tick;		     /* 0 never */
	unsigned int kill_proc;
	enum moment kill_moment;
	bool shut_at_start;  /* shuts about when an epoch begins */
	bool stop_late;	     /* asks for hand-overs of what a peer left that has shut */
	uint64_t stop_ticks; /* how long it waits for their answer, at most */
};

struct plan {
	uint64_t seed;
	bool turns;
	unsigned int rounds;
	uint64_t round_bytes[PLAN_ROUNDS_MAX];
	struct side_plan side[2];
	uint64_t ring_bytes[2];
	unsigned int epochs;
	uint64_t promote_ticks, again_ticks; /* longest time to the first epoch, to the next */
	unsigned int daemon_deaths;
	bool daemon_leaves; /* for good, after the first epoch was handed out */
	bool mail_rings; /* programs are woken for its mail; else they find it at their next call */
	bool remote;	 /* the two sides are on two hosts */
	uint64_t link_ticks;	 /* longest way of a word between them */
	uint64_t link_loss_tick; /* after the first start; 0 never */
	unsigned int host_deaths;
	uint64_t host_death_ticks; /* longest time to the next one */
	bool hostile;		   /* side 1 writes what it likes into its half */
};

extern struct plan plan;

/* Draw the plan of @seed; also sets what the scheduler and the kernel take from it. */
void plan_draw(uint64_t seed);
void plan_print(void);

/* --- coverage: what the runs have seen ------------------------------------------------------- */

enum cover {
	COVER_PROMOTED,	  /* an epoch begun on both sides */
	COVER_RING_BYTES, /* bytes went over a ring */
	COVER_FAST,	  /* … by core/lane_fast.h */
	COVER_BOTH_LANES, /* … and over TCP too, one way */
	COVER_EPOCHS,	  /* a second epoch */
	COVER_DRAINED,	  /* a side found an epoch over */
	COVER_LEAVE,	  /* a side asked for the end */
	COVER_STOP_ASKED, /* hand-overs */
	COVER_STOP_ANSWERED,
	COVER_STOP_REFUSED,
	COVER_STOP_RESUMED, /* taken back */
	COVER_BACKLOG,
	COVER_BARE,
	COVER_SHUTDOWN,
	COVER_CLOSE_UNREAD,
	COVER_KILL_PROC,     /* one process of two */
	COVER_KILL_SIDE,     /* the last one */
	COVER_RECOVERED,     /* a lock taken from the dead */
	COVER_RESET_VERDICT, /* told by the lane, not by the kernel */
	COVER_FREEZE,
	COVER_DAEMON_DEATH,
	COVER_DAEMON_LEFT,
	COVER_REMOTE,
	COVER_LOST, /* the link between two hosts */
	COVER_REPLAY,
	COVER_HOST_DEATH,
	COVER_EOF,
	COVER_RESET,
	COVER_BROKEN, /* a hostile peer was found out */
	COVER_COUNT,
};

void cover(enum cover what);
extern bool covered[COVER_COUNT]; /* in the run under way */
const char *cover_name(enum cover what);

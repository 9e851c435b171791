/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "remote_words.h"

/*
 * What a daemon does for its end of a lane between hosts, besides carrying words and bytes: vouch
 * for what has arrived, shut TCP when all of it has, and when the lane is lost freeze the half with
 * which it feeds its client, and replay what the other reader has not got over TCP.
 *
 * Nothing is kept but in the halves and in the kernel, and a few facts that the other daemon tells
 * again: remote_next() looks, remote_do() acts, a death may come between any two stores, and a
 * successor that is given the halves and the socket again sees the same. The simulator's
 * tests/sim/remote_host.c is the model that was proved.
 *
 * One thread per end. The client's half is hostile: each word is read once and checked before
 * memory depends on it; words of our own half may have been written by a hostile client too (it
 * holds a descriptor for a successor), and what that can do is to spoil its own connection.
 */
struct remote_end {
	const struct half_ctl *half; /* the client's, with its ring */
	struct half_ctl *fed;	     /* ours, with its ring: what the client reads */
	uint64_t half_ring_bytes, fed_ring_bytes;
	int sock; /* duplicate of the client's TCP socket; -1: we have none (yet, or any more) */
	unsigned int syn_bias; /* of it, for tcp_written() */
	bool lost;    /* the link is gone, or the other daemon is: nothing comes or goes any more */
	bool gone;    /* no process of the client is left that could use the lane */
	bool drained; /* the client is through with the epoch */
	bool shut;    /* we have sent the FIN */
	/* Told by the other daemon. */
	struct remote_words acked; /* the last of our client's words that stand in its half */
	uint64_t wanted;	   /* opt ring offset: from here on it wants our bytes over TCP */
	bool settled;	 /* it has recorded the same of its client's, or that one is through */
	bool can_replay; /* it has the socket, and has not vouched for its client's bytes: asked
			  * anew for each REMOTE_DO_FREEZE, and true until that is done */
};

enum remote_task {
	REMOTE_DO_NOTHING,
	REMOTE_DO_FREEZE,    /* lost: no byte is added to the half any more */
	REMOTE_DO_RECORD,    /* keep what the other daemon wants, for a successor */
	REMOTE_DO_SETTLE,    /* tell the client that it may be through with the lane */
	REMOTE_DO_HAND_OVER, /* the client wants the rest on TCP: lose the lane. The caller's to do
			      */
	REMOTE_DO_REPLAY,    /* send some bytes, as many as TCP takes */
	REMOTE_DO_VOUCH,     /* tell the client that TCP may go on */
	REMOTE_DO_SHUT,	     /* all has arrived: send the FIN */
	REMOTE_DO_CLOSE,   /* the client is gone and all has arrived, or nothing can: the last close
			    */
	REMOTE_DO_RELEASE, /* the epoch is over: close the duplicate */
};

/* What is to be done next for @end; after it has been done, ask again. */
enum remote_task remote_next(const struct remote_end *end);

/*
 * Do @task; for REMOTE_DO_CLOSE and REMOTE_DO_RELEASE end->sock is closed and becomes -1. Never
 * blocks. Returns 1 if the client's bell is to be rung, 0, or -EBADMSG if a half holds nonsense:
 * then remote_abort().
 */
int remote_do(struct remote_end *end, enum remote_task task);

/*
 * How far our client comes, or came, with the other end's bytes on the ring, once that is certain:
 * what the other daemon is to be told as its `wanted`. False before.
 */
bool remote_reached(const struct remote_end *end, uint64_t *ret_offset);

/* Whether we have recorded what the other daemon wants: its `settled`. Before that its client must
 * not be through with the lane, for nobody could tell us again. It may use TCP all the same as soon
 * as its own bytes are through: the other client may be one that never got the lane, and asks for
 * no other, and then nobody ever settles. */
bool remote_has_recorded(const struct remote_end *end);

/* Whether we could replay our client's bytes still: what the other daemon asks before it freezes.
 */
bool remote_can_replay(const struct remote_end *end);

/* Give the lane up: the connection is reset. The duplicate is closed. */
void remote_abort(struct remote_end *end);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <sys/epoll.h>

#include "client/sock.h"

/*
 * The program's epoll sets, as far as tracked sockets are in them.
 *
 * A socket on TCP is in the program's set as the program put it there; all that is kept here is
 * what it asked for. When the socket gets a lane, its descriptor leaves the program's set (TCP is
 * idle under a lane and would be reported writable for ever) and is watched, with the lane's bell,
 * by the set's inner epoll: edge-triggered, and itself a member of the program's set. So a thread
 * that sleeps in the program's set sleeps on the bells too. When the lane is over the descriptor
 * goes back. A set without a socket that has, or waits for, a lane has no inner epoll and costs
 * nothing.
 *
 * An edge puts the socket's entry on the set's ready list; whoever takes it off looks at the lane
 * and decides. A level-triggered entry stays on the list until it is found not ready; it is armed
 * then. So a round of epoll_wait() costs what is ready, not what is watched.
 *
 * One mutex guards all of it. It comes after the session's and the sockets' locks: nothing here
 * takes one of those while holding it.
 */

struct epset;

/* One socket in one set. Lies in a pool: a stale reference is recognised by its generation. */
struct epentry {
	struct epset *set; /* NULL: the place is free */
	struct sock *sock;
	struct epentry *sock_next;		 /* other sets of the same socket */
	struct epentry *ready_next, *ready_prev; /* set's ready list, if `listed` */
	struct epoll_event user;		 /* what the program asked for, and its data */
	int fd;
	uint32_t index, gen;
	bool watched;  /* bell and TCP are in the inner epoll */
	bool inner;    /* … and the descriptor is not in the program's set */
	bool absent;   /* neither: a one-shot that has fired, after the lane ended */
	bool parked;   /* removed by the program while inner: kept, for it may come back */
	bool disabled; /* a one-shot that has fired */
	bool listed;
	bool tcp_moved; /* an edge of TCP was taken: ask the kernel */
	/* Edge-triggered: what was there when the program was told last. */
	uint64_t told_prod;
	bool told_out;
};

struct epset {
	int epfd;	  /* one of the program's descriptors of it */
	uint32_t n_fds;	  /* how many of them there are */
	int inner;	  /* inner epoll, -1: none */
	int nudge;	  /* eventfd in it: something is on the ready list */
	uint32_t watched; /* serial of the kick that the inner epoll watches */
	uint32_t covered; /* … and under which all entries have been looked at */
	int session;	  /* session socket that is being watched, or -1 */
	bool outer;	  /* the set is polled, or in a set itself: it must look ready when it is */
	_Atomic uint32_t n_inner; /* entries that are watched */
	_Atomic uint32_t waiters; /* threads in epoll_wait */
	struct epentry *ready_head, *ready_tail;
	struct epset *next_free;
};

int epset_init(void);
void epset_lock(void);
void epset_unlock(void);

/* The set of @epfd, or NULL if it has no tracked socket. One load. */
struct epset *epset_get(int epfd);

/* The entry of a reference that came out of the inner epoll, or NULL. Locked. */
struct epentry *epset_entry(uint64_t tag, bool *ret_tcp);

/* What the inner epoll's events are tagged with, besides entries. */
#define EPSET_TAG_NUDGE UINT64_MAX
#define EPSET_TAG_SESSION (UINT64_MAX - 1)
#define EPSET_TAG_KICK ((uint64_t)0xfffffffe << 32) /* and the serial */
#define EPSET_TAG_LEAST EPSET_TAG_KICK

/* epoll_ctl(2) for a tracked socket: 0 or -errno. */
int epset_add(int epfd, int fd, struct sock *sock, const struct epoll_event *event);
int epset_mod(int epfd, int fd, struct sock *sock, const struct epoll_event *event);
int epset_del(int epfd, int fd, struct sock *sock);

/* Another descriptor of a set; a descriptor of a set that is about to be closed. */
void epset_dup(int epfd, int new_fd);
void epset_closed(int epfd);

/*
 * The set is polled, or put into another set. Whether it is ready is then asked without a call that
 * could look at the lanes: its sockets are handed over to TCP, and those that come are pinned
 * there. May wait, demote_wait_ms a socket. No lock may be held.
 */
void epset_outer(struct epset *set);

/* Put @entry on, or take it off, its set's ready list. Locked. */
void epset_list(struct epentry *entry);
void epset_unlist(struct epentry *entry);

/* Put all entries of @set whose sockets are on lanes on its ready list. */
void epset_list_all(struct epset *set);

/*
 * Before anything is armed: watch the present kick. Whether @set may sleep for as long as it likes
 * (see session_covers()); when that begins, all entries are looked at once more.
 */
bool epset_cover(struct epset *set);

/* Wake a thread that sleeps in @set: its ready list has something. Locked. */
void epset_nudge(struct epset *set);

/*
 * What the life of a socket does to its entries:
 * a registration was sent: watch the daemon's answer in every set of @sock; 0 or -errno;
 * the bells are there: watch them, 0 or -errno (then there can be no lane);
 * the lane begins: leave the program's sets;
 * the lane is over, before its bells are closed: go back;
 * the socket is closed: forget its entries.
 */
int epset_sock_pending(struct sock *sock);
int epset_sock_watch(struct sock *sock);
void epset_sock_lane(struct sock *sock);
void epset_sock_tcp(struct sock *sock);
void epset_sock_closed(struct sock *sock);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "client/epset.h"

/*
 * What epset.c and epentry.c share with each other and with nobody else: the life of one entry, and
 * the inner epoll that it is watched by. All locked.
 */

int entry_pool_init(void);

/* A new entry of @sock in @set, linked to the socket; NULL when there are too many. */
struct epentry *entry_make(struct epset *set, struct sock *sock, int fd);
struct epentry *entry_find(int epfd, int fd, struct sock *sock);
void entry_drop(struct epentry *entry);

/* Every entry of @set: drop it; put it on the ready list if its socket is on a lane. */
void entry_drop_all(struct epset *set);
void entry_list_all(struct epset *set);

/* Watch bell and TCP in the set's inner epoll, which is opened if need be. 0 or -errno. */
int entry_watch(struct epentry *entry);

/* Asked for, or asked for anew: all that is ready is news. */
void entry_want(struct epentry *entry, const struct epoll_event *event);

/* Back to the program's set. */
void entry_leave(struct epentry *entry);

/* Do what the stage of the entry's socket demands. 0 or -errno. */
int entry_settle(struct epentry *entry);

/* The set's inner epoll, and the daemon's answers in it. 0 or -errno. */
int set_open_inner(struct epset *set);
int set_watch_session(struct epset *set);

int inner_add(int inner, int fd, uint32_t events, uint64_t tag);
void ctl_del(int epfd, int fd);

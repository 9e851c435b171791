/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "board.h"
#include "config.h"
#include "devices.h"
#include "loop.h"
#include "peers.h"
#include "quota.h"
#include "registry.h"
#include "os/log.h"
#include "tally.h"

/*
 * The daemon as a whole: what its parts share, and the socket on which clients arrive.
 */
struct server {
	struct conf conf;
	struct loop loop;
	struct board board;
	struct quota quota;
	struct registry registry;
	struct tally tally;
	struct devices *devices;	 /* NULL: none */
	struct peers *peers;		 /* NULL: none */
	struct links *links;		 /* NULL: none */
	const struct remote_ops *remote; /* NULL: no lanes between hosts */

	bool serve_all;	 /* users */
	bool rule_holds; /* TCP's counters were checked on this kernel */
	uid_t uid;	 /* our own */
	uint64_t netns_cookie;
	uint32_t mapped_pages; /* of halves */
	int fd_limit; /* descriptors with this number or above are not accepted from clients */
	uint64_t started_ns;

	int listen_fd;
	struct source listener;
	struct timer relisten;
	struct list sessions, couplings;
	uint32_t session_count;
	uint64_t session_serial;
	uint64_t demote_serial; /* of the last request to demote */

	uint64_t end_by_ns; /* an end in order is under way, and waits until then at most; 0: not */
	struct timer ending;
	uint32_t exit_idle_s; /* 0: never */
	struct timer idle;
	struct log_limit turned_away;
};

/* Descriptors kept free for the daemon's own work. Chosen: a lane needs six while it is made. */
#define SERVER_FD_RESERVE 64

/*
 * Most pages of halves that are mapped for the figures; lanes beyond it show what their clients
 * tell. Chosen: half of the kernel's usual vm.max_map_count, the rest is for everything else.
 */
#define SERVER_PAGES_MAX 32768u

/*
 * Serve clients that arrive on @listen_fd, a listening SEQPACKET unix socket (taken over).
 * @server: with conf and serve_all set, the rest zero. @exit_idle_s: end the loop when there has
 * been no client for that long; 0: never. 0, or -errno.
 */
int server_init(struct server *server, int listen_fd, uint32_t exit_idle_s);

/*
 * End the loop in order: lanes between hosts go back to TCP first, for stop_wait_ms at most. Asked
 * for again, at once.
 */
void server_end(struct server *server);

/* Cut off all clients and release everything. */
void server_deinit(struct server *server);

/* A session has ended: to be told by its destructor. */
void server_session_gone(struct server *server);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/cm.h"
#include "fabric/link.h"
#include "rig.h"

/*
 * One of two hosts of the verbs double that make links to each other: a device with its control
 * thread, a pool, a connection manager, and links that post one receive and send one message.
 */

#define PEER_LINKS 64
#define PEER_MESSAGE_BYTES 32

/* What the two processes of a case tell each other. */
struct peer_board {
	atomic_int port;     /* where the answering side listens; 0: not yet */
	atomic_int up, down; /* links of the answering side */
	atomic_int received; /* messages that it got */
	atomic_int taken;    /* queue pairs that it took from its pool */
	atomic_int closed;   /* links that are over there */
	atomic_bool leave;   /* it may end */
	atomic_bool refill;  /* creating works again */
	atomic_int ready;    /* queue pairs in its pool */
};

struct peer_link {
	struct link link;
	struct peer *peer;
	bool is_up, is_down, is_closed;
	int index;
	char why[LINK_WHY_BYTES];
};

struct peer {
	struct rig rig;
	struct qp_pool pool;
	struct cm cm;
	struct ibv_mr *region;
	uint8_t *memory; /* PEER_LINKS messages to receive, then one to send */
	struct peer_link links[PEER_LINKS];
	int n_links;
	uint32_t known[256]; /* numbers of the queue pairs that were ready before the first link */
	uint32_t n_known;
	struct peer_board *board; /* NULL: the dialling side */
	int admit_max;		  /* so many nonces are known: 0… */
};

/* The nonce of dial @i. */
void peer_nonce(int i, uint8_t ret_nonce[LINK_NONCE_BYTES]);

/* Open @name of @host with a pool of @pool_size, filled. False: the case has failed. */
bool peer_open(struct peer *peer, struct verbs_host *host, const char *name, uint32_t pool_size);

/* Close all links, the manager, the pool, the device; nothing may be left. */
void peer_close(struct peer *peer);

/* One turn of the loop: waits at most @timeout_ms. */
void peer_turn(struct peer *peer, int timeout_ms);

/* Turns until @cond, within RIG_WAIT_MS. */
#define PEER_AWAIT(peer, cond)                                                                     \
	do {                                                                                       \
		for (int turn = 0; !(cond) && turn < RIG_WAIT_MS / 10; turn++)                     \
			peer_turn(peer, 10);                                                       \
		CHECK(cond);                                                                       \
	} while (0)

/* A link that has not begun, or NULL. */
struct peer_link *peer_link(struct peer *peer);

/* Dial @target, port @port, from @source, with the nonce of @i. The link, or NULL. */
struct peer_link *peer_dial(struct peer *peer, const char *source, const char *target, int port,
			    int i);

/* Send a message over @link; whether it was posted. */
bool peer_send(struct peer *peer, struct peer_link *link);

/* Messages that came in, counted once each. */
int peer_receive(struct peer *peer);

/* Whether @qp_num was ready before the first link. */
bool peer_knew(const struct peer *peer, uint32_t qp_num);

/* "10.0.0.1" as an address with @port. */
union gid_address peer_address(const char *text, int port);

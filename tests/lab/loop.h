/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/*
 * Both ends of a connection in one process, by librdmacm from a device's address to itself, for
 * programs of the lab that look at what a device does. Errors are printed and -1.
 */
#define LOOP_BYTES 4096u
/* Above what any answer takes that comes at all: the longest, 655 ms, is for a missing receive. */
#define LOOP_WAIT_MS 2000

struct loop_end {
	struct rdma_cm_id *id;
	struct ibv_cq *sent, *received; /* completions; they outlive the queue pair */
	struct ibv_mr *mr;		/* of data: local and remote write */
	uint8_t data[LOOP_BYTES];
};

struct loop {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	const char *address;
	struct loop_end a, b; /* a dialled */
};

/* Print why. Returns -1. */
int loop_fail(const char *what);

/* Open what connections of @address, IPv4, are made from. The kernel chooses the port. */
int loop_open(struct loop *loop, const char *address);
void loop_close(struct loop *loop);

/* Connect; both queue pairs are made by @cap. Short retries: a silent peer is given up in a second.
 */
int loop_join(struct loop *loop, const struct ibv_qp_cap *cap);

/* Destroy the connection; its events are dropped. */
void loop_part(struct loop *loop);

/* The next event within @wait_ms: its type, and its id in @ret_id (may be NULL); -1 if there is
 * none. */
int loop_event(struct loop *loop, int wait_ms, struct rdma_cm_id **ret_id);

/* Post the receive of @bytes. Returns what ibv_post_recv() does. */
int loop_receive(struct loop_end *end, uint32_t bytes);

/* Post a SEND of @bytes with @lkey. Returns what ibv_post_send() does. */
int loop_send(struct loop_end *end, uint32_t bytes, uint32_t lkey, unsigned int flags);

/* The next completion of @cq within LOOP_WAIT_MS. Returns whether there was one. */
bool loop_completion(struct ibv_cq *cq, struct ibv_wc *ret_wc);

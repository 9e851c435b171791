/* SPDX-License-Identifier: MIT */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

/*
 * Plain verbs for tests of the double: an end with everything it needs, and pairs of them.
 */

/* Bytes of memory of an end. */
#define END_BYTES 65536

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_qp_cap cap; /* as granted */
	unsigned char *memory;
	unsigned char gid[16];
	int gid_index;
	unsigned depth;
};

/* What another process has to know of an end. */
struct end_name {
	uint32_t qpn, rkey;
	uint64_t addr;
	uint16_t lid;
	unsigned char gid[16];
};

/* Open the device @name; NULL with errno. */
struct ibv_context *pair_open(const char *name);

/* An end on device @name, its QP in INIT. 0 or -errno. */
int pair_end(struct end *end, const char *name, unsigned depth, unsigned inline_bytes);
/* The same, with a completion queue of @cqe entries instead of enough. */
int pair_end_cqe(struct end *end, const char *name, unsigned depth, unsigned inline_bytes,
		 unsigned cqe);
void pair_close(struct end *end);

void pair_name(const struct end *end, struct end_name *ret_name);

/* Timeouts and retries of the RTS transition; as chosen by tests. */
struct pair_patience {
	uint8_t timeout, retry, rnr_retry;
};

/* Go to RTR and RTS, towards @peer. 0 or an errno value. */
int pair_connect(struct end *end, const struct end_name *peer, struct pair_patience patience);

/* Two ends on devices of this process, connected. 0 or an errno value. */
int pair_make(struct end ends[2], const char *first, const char *second);

/* Post: @bytes at offset @from of the end's memory, by reference or inline. */
int pair_send(struct end *end, unsigned from, unsigned bytes, unsigned flags);
int pair_write(struct end *end, const struct end_name *peer, unsigned bytes, unsigned flags);
int pair_recv(struct end *end, unsigned to, unsigned bytes);

/* The next completion, within @timeout_ms; false if there is none. */
bool pair_poll(struct end *end, struct ibv_wc *ret_wc, unsigned timeout_ms);

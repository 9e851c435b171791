/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "personality.h"
#include "state.h"

/*
 * A stand-in for libibverbs and librdmacm, at their ABI.
 *
 * Theory of operation
 * -------------------
 * libibverbs.so.1 and librdmacm.so.1 of this folder carry the symbols and symbol versions that
 * programs link against. With LD_LIBRARY_PATH pointing here, the very binaries that drive real
 * devices find these, and see the devices of a text file instead (state.h) — without a kernel
 * module, without privileges, in any network namespace.
 *
 * *The state folder*, $VERBS_DOUBLE_DIR, is one host:
 *
 *	host		its devices, ports, GIDs and addresses; tests rewrite it at
 *			run time
 *	faults		faults to inject (fault.h); tests rewrite it, and the double
 *			counts it down
 *	refs/NAME.INDEX/ of each device: a locked file for each open context, that
 *			is, whether anyone still holds it (host.h)
 *	sys/		what sysfs would say of the devices: name, GUID, firmware,
 *			driver
 *	fabric		the network: a folder, or a symlink to that of another host
 *
 * Hosts that share a `fabric` folder reach each other. Network namespaces play no part, since unix
 * sockets in a folder cross them; a host is a state folder, in whatever namespace it runs.
 *
 *	fabric/hosts/	  a link to every host's state folder: who has which GID and address
 *	fabric/sock/	  the listening socket of every process
 *	fabric/qp/	  a link for every queue pair, GUID-QPN → socket
 *	fabric/cm/	  a link for every listener of the CM, HOST-ADDRESS-PORT → socket
 *
 * *The engine* (engine.h) is one thread in every process that has a device open. It owns the
 * sockets, watches the state folder and carries out work requests. All state of a process is under
 * one mutex, `dbl_lock`: latency is no aim here. The mutex is never held while waiting.
 *
 * *A message's way.* ibv_post_send() checks what a provider checks, copies inline data, puts the
 * request in the send queue and wakes the engine. The engine reads the memory of the request when
 * it gets to it (as hardware does: too early a reuse of a buffer corrupts the message), and writes
 * header and payload to the socket of the process that has the other queue pair. The engine there
 * checks state, PSN, keys, bounds and access rights, writes into memory or into a posted receive,
 * and answers with an acknowledgement or the reason against it; that completes the request. One
 * request of a QP is on its way at a time. What gets no answer (the peer is gone, its port is down,
 * a fault swallowed the message) is repeated and given up as the QP's attributes say.
 *
 * *Personalities.* What distinguishes one provider from another is data: see personality.h.
 *
 * *What it is not.* SRQs, memory windows, XRC, UD traffic, multicast and atomics are not there;
 * functions for them fail with EOPNOTSUPP and say so on stderr. Nothing here measures anything.
 *
 * Files: state (host file), personality and rules (providers), device, port, resource, cq, async,
 * qp, modify, post (verbs), requester and responder (the transport), engine, conn, fabric (network
 * of processes), fault; cm_* make librdmacm. host.h and ../verbs_host.py are for tests. One process
 * is on one host at a time: to move on, all must be closed, what librdmacm keeps included.
 */

/* Everything below is under this. */
extern DBL_API pthread_mutex_t dbl_lock;

/* A device as a process knows it: one for each incarnation, kept while anything refers to it. */
struct dbl_device {
	struct ibv_device ibv; /* first: what programs see */
	const struct personality *p;
	struct state_device desc;
	bool gone; /* no longer in the host file */
	unsigned refs;
	struct list link;
};

/* A queued event of an eventfd in semaphore mode: one count of the descriptor for each. */
struct dbl_event {
	struct list link;
	struct ibv_async_event async;
	struct dbl_cq *cq;
};

struct dbl_context {
	struct dbl_device *device;
	int ref_fd; /* locked file that says that the device is held */
	uint64_t ref_name;
	uint32_t next_handle;
	unsigned qps, cqs, mrs, pds;
	struct list async; /* of struct dbl_event */
	struct list link;
	struct verbs_context verbs; /* last: ends in the ibv_context that programs see */
};

struct dbl_pd {
	struct ibv_pd ibv;
	unsigned users;
};

struct dbl_mr {
	struct ibv_mr ibv;
	unsigned access;
	uint64_t iova, pinned;
	struct list link;
};

struct dbl_channel {
	struct ibv_comp_channel ibv;
	struct list events;
};

struct dbl_wc {
	struct ibv_wc wc;
	struct dbl_qp *qp; /* NULL if it is gone */
	bool send;
	bool solicited;
	uint64_t slot; /* count of the queue that the completion frees up to */
};

struct dbl_cq {
	struct ibv_cq ibv;
	struct dbl_wc *ring;
	uint32_t head, count, size;
	bool dead; /* overrun */
	enum { CQ_IDLE, CQ_ARMED_SOLICITED, CQ_ARMED } armed;
	unsigned users, events_reported, async_reported;
	uint64_t pinned;
	struct list link;
};

#define DBL_SGE_MAX 96

struct dbl_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint32_t imm, rkey;
	uint64_t remote_addr;
	unsigned sge_count;
	struct ibv_sge *sges;
	void *data; /* inline: the bytes */
	uint32_t length;
};

struct dbl_recv {
	uint64_t wr_id;
	unsigned sge_count;
	struct ibv_sge *sges;
};

struct conn;

/* What the requester waits for. */
enum dbl_wait {
	WAIT_NOTHING,
	WAIT_ACK,
	WAIT_RNR,   /* the time that the responder asked for */
	WAIT_DELAY, /* a fault that delays */
};

struct dbl_qp {
	struct ibv_qp ibv;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr; /* as set by modify */
	uint32_t inline_limit;	 /* what a post is measured by */
	uint64_t pinned;
	struct list link;
	struct dbl_device *device;

	/*
	 * Queues: counts that never wrap; slots through dbl_send_slot(), dbl_recv_slot(). A slot
	 * is free again when a completion of it or of a later one has been polled.
	 */
	struct dbl_send *sq;
	struct dbl_recv *rq;
	uint32_t sq_size, rq_size;
	uint64_t sq_head, sq_next, sq_tail;
	uint64_t rq_head, rq_next, rq_tail;

	/* Requester. */
	uint64_t peer_guid;
	bool has_peer;
	struct conn *conn;
	enum dbl_wait wait;
	uint64_t deadline_ns;
	unsigned retries, rnr_retries;
	uint32_t send_psn;
	bool completed_early;
	bool must_listen; /* iWARP, passive: the first word is the other's */

	/* Responder. */
	uint32_t expect_psn;
	bool any_received;

	unsigned async_reported;
	bool broken;  /* its CQ overran */
	bool settled; /* in ERR, and flushed once */
	bool told;    /* iWARP: the CM knows that it is over */
};

/*
 * The slot of a count. There is one more than the queue is deep: an iWARP request may have been
 * completed, and its place be taken, while it is still on its way.
 */
static inline struct dbl_send *dbl_send_slot(const struct dbl_qp *qp, uint64_t count)
{
	return &qp->sq[count % (qp->sq_size + 1u)];
}

static inline struct dbl_recv *dbl_recv_slot(const struct dbl_qp *qp, uint64_t count)
{
	return &qp->rq[count % (qp->rq_size + 1u)];
}

static inline struct dbl_device *dbl_device(struct ibv_device *ibv)
{
	return (struct dbl_device *)ibv;
}

static inline struct dbl_context *dbl_context(struct ibv_context *ibv)
{
	return container_of(ibv, struct dbl_context, verbs.context);
}

static inline struct dbl_cq *dbl_cq(struct ibv_cq *ibv)
{
	return (struct dbl_cq *)ibv;
}

static inline struct dbl_qp *dbl_qp(struct ibv_qp *ibv)
{
	return (struct dbl_qp *)ibv;
}

/* Monotonic time. */
uint64_t dbl_now_ns(void);

/* The state folder, or NULL: then there are no devices. */
const char *dbl_dir(void);

/* Say on stderr that @what is not supported, and return EOPNOTSUPP (also in errno). */
int dbl_unsupported(const char *what);

/* Count one more in, or take one out of, an eventfd in semaphore mode. take: 0 or an errno. */
void dbl_count_up(int fd);
int dbl_count_down(int fd);

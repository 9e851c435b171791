/* SPDX-License-Identifier: MIT */
#pragma once

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/link_hello.h"
#include "fabric/cm.h"
#include "fabric/control.h"
#include "fabric/gid.h"
#include "fabric/qp_pool.h"

/*
 * A link: one reliable connection between two daemons, made by the connection manager around a
 * queue pair from a pool. Making one creates nothing on the device.
 *
 *   dialling   IDLE ─> ADDRESS ─> ROUTE ─> QP ─> CONNECT ─> CONFIRM ─> UP
 *   answering  IDLE ──────────────────────> QP ─> ACCEPT ────────────> UP
 *   from everywhere                                    ─> CLOSING ─> CLOSED
 *
 *   ADDRESS   the peer's address is resolved, from an explicit source address
 *   ROUTE     and the way to it
 *   QP        wait for a queue pair, if the pool has none ready
 *   CONNECT   the request is on its way, with our queue pair's number and the nonce
 *   CONFIRM   InfiniBand, RoCE: the answer came; we move the queue pair to RTS, then confirm.
 *             iWARP: the kernel has moved it, nothing is to be confirmed
 *   ACCEPT    InfiniBand, RoCE: we move the queue pair to RTS, then accept. iWARP: it is in INIT,
 *             the kernel moves it; nothing may be posted before the dialer's first message
 *   UP        both ends can send
 *   CLOSING   disconnected, the queue pair in ERR, the id destroyed; the queue pair goes back to
 * the pool, which destroys it
 *
 * The queue pair is no id's: librdmacm, which has a context of its own, is only told its number.
 *
 * The state machine is the loop's; each step that calls librdmacm or moves the queue pair is a job
 * on the control thread (link_steps.c), one at a time. What comes meanwhile waits for the step's
 * end.
 */

/* Longest time from the dial or the request to UP. Chosen: above what librdmacm's own steps take
 * together (two seconds for the address, two for the route, some for the request's repeats). */
#define LINK_MAKE_NS 15000000000ull

/* Of librdmacm's own steps: a route, which InfiniBand asks its subnet manager for. Chosen. */
#define LINK_ROUTE_MS 2000
/* An address, and how often it is asked for. An answer that comes before the
 * kernel waits for it is seen only when that time is up (drivers/infiniband/core/addr.c: the event
 * finds no request yet), so it is short; all together are twice what a neighbour takes that has to
 * be looked up. */
#define LINK_RESOLVE_MS 250
#define LINK_RESOLVE_TRIES 8u

/* How a queue pair of InfiniBand or RoCE waits for the peer: 4.096 us * 2^14 = 67 ms, five times.
 * Not 7 retries: those are endless on rxe. */
#define LINK_ACK_TIMEOUT 14u
#define LINK_RETRIES 5u
/* Receiver not ready is an error of our protocol, which counts credits; a few tries make it visible
 * without a hang: 3 times after 0.64 ms. */
#define LINK_RNR_RETRIES 3u
#define LINK_RNR_TIMER 12u

enum link_state {
	LINK_IDLE,
	LINK_ADDRESS,
	LINK_ROUTE,
	LINK_QP,
	LINK_CONNECT,
	LINK_CONFIRM,
	LINK_ACCEPT,
	LINK_UP,
	LINK_CLOSING,
	LINK_CLOSED,
	LINK_STATES,
};

enum link_step {
	LINK_STEP_NONE,
	LINK_STEP_RESOLVE, /* make the id, resolve the address */
	LINK_STEP_ROUTE,
	LINK_STEP_CONNECT,
	LINK_STEP_CONFIRM,
	LINK_STEP_ACCEPT,
	LINK_STEP_CLOSE,
};

/*
 * What a link tells, all on the loop but prepare().
 */
struct link_ops {
	/* On the control thread, with the queue pair in INIT: post the receives. 0, or -errno,
	 * which fails the link. May be NULL. */
	int (*prepare)(struct link *link, struct qp *qp);
	/* Both ends can send. */
	void (*up)(struct link *link);
	/* It failed, was rejected, or is no longer up: @why for people. closed() follows. */
	void (*down)(struct link *link, const char *why);
	/* Over: the memory is its owner's again. Always the last, after up(), down() or
	 * link_close(). */
	void (*closed)(struct link *link);
};

#define LINK_WHY_BYTES 160u

struct link {
	struct list link; /* of the cm's links */
	struct cm *cm;
	struct qp_pool *pool;
	const struct link_ops *ops;
	void *user;

	enum link_state state;
	bool is_dialer, is_iwarp, was_up;
	struct link_hello own, peer; /* peer: what the other end said */
	bool has_peer;
	union gid_address source, target; /* a dialer's */
	uint64_t begun_ns;		  /* 0: not yet; set by the cm's tick */
	char why[LINK_WHY_BYTES];
	int reject;    /* enum link_reject to send while closing; 0: none */
	bool lacks_qp; /* it came to nothing because one of the two had no queue pair for it */

	struct qp *qp;
	struct qp_waiter waiter;
	bool is_holding; /* the pool, while it is being made */
	bool is_waiting;
	bool is_parked;	   /* the id was: cm_park.h */
	uint32_t resolves; /* that found no answer in time */

	struct control_job job;
	enum link_step step; /* in flight, or stalled */
	bool is_stalled;     /* the control thread's queue was full: the tick tries again */
	int result;	     /* of it */
	struct rdma_cm_id *id;
};

/*
 * Prepare @link, of the caller's memory, on @cm, to take its queue pair from @pool. @ops: outlives
 * it. The loop's; never fails.
 */
void link_init(struct link *link, struct cm *cm, struct qp_pool *pool, const struct link_ops *ops);

/*
 * What to tell the other end. @nonce: of this dial; a reply repeats the request's, whatever is
 * given here. @credits: receives that prepare() posts, at most 65535; @generation: for logs.
 */
void link_set_hello(struct link *link, const uint8_t nonce[LINK_NONCE_BYTES], uint32_t credits,
		    uint32_t generation);

/*
 * Dial from @source (of our device, port 0) to @target. Returns 0: up() or down() follows; or
 * -EBUSY when too much is under way, -ESHUTDOWN when the device goes: nothing follows then.
 */
int link_dial(struct link *link, const union gid_address *source, const union gid_address *target);

/* End it, in any state; closed() follows, down() does not. Harmless when it is closing already. */
void link_close(struct link *link, const char *why);

const char *link_state_name(enum link_state state);

/* For cm.c: an event for this link; a request that it takes; time. */
void link_event(struct link *link, const struct cm_event *event);
void link_accept(struct link *link, struct rdma_cm_id *id, const struct link_hello *hello);
void link_tick(struct link *link, uint64_t now_ns);

/* For link.c: run step @link->step on the control thread. */
void link_step_run(struct link *link);

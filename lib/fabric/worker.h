/* SPDX-License-Identifier: MIT */
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/cdc.h"
#include "core/half.h"
#include "core/link_send.h"
#include "fabric/device.h"
#include "fabric/qp.h"

/*
 * The data worker of a device: one thread that moves bytes between its clients' halves and the
 * peers, over all links of the device. What goes and what a message means is decided in the core
 * (link_send.h, link_take.h); here are memory, verbs, bells and sleep.
 *
 *	client's half ── read ──> worker ── SEND, WRITE ──> peer's worker and its half
 *	our half <── words, prod ── worker <── messages ──  (bytes come by the peer's WRITE)
 *
 * Theory of operation
 * -------------------
 * The loop gives links and lanes by mail, and gets mail back; the thread takes no lock but the
 * mailbox's, allocates nothing, and makes no queue pair and no memory region.
 *
 * *Turns.* In each turn the thread takes mail, polls the completion queues of its links, looks at
 * the lanes that are hot, and lets every link that something happened to post what it can. A lane
 * is hot when its client or its peer did something a moment ago. Any other is parked: armed in our
 * half, so that its client rings.
 *
 * *Sleeping.* When a turn found nothing, it spins for a while (adaptive: not at all if spinning has
 * not paid lately, or with one CPU), then sleeps in epoll until the next deadline, if there is any.
 * With one CPU it makes way for a client that it has rung before it sleeps. No wake-up is lost:
 *  - a lane: it is armed first (wake_arm(), sequentially consistent), all its words are looked at
 *    again afterwards, and only then it is parked. So whatever its client stores is either seen by
 *    that look, or stored behind the arm, and then the client finds the arm moved and rings. A bell
 *    is watched edge-triggered; a lane counts as armed until its edge has been taken from epoll, so
 *    an edge that nobody has taken yet ends the sleep, however late it is looked at.
 *  - a completion queue: it is armed (ibv_req_notify_cq()), polled again afterwards, and counts as
 *    armed until its event was taken from the channel, which is in the epoll set.
 *  - mail: it is put in the box first, then the eventfd is written, which is level-triggered.
 * There is no tick. The only deadlines are those of questions to silent peers (link_test.h: one a
 * second and link), of lanes that end and of links that drain.
 *
 * *Ends.* A lane that ends, for whatever reason, is frozen first: neither half is touched any more
 * and the offsets in its report are final. Then LANE_DONE goes behind its last WRITE and that of
 * the peer is awaited, up to WORKER_DONE_NS; with both, and nothing in the send queue, it is over
 * and may be deregistered. A link that ends takes all its lanes with it; its queue pair goes to ERR
 * and what is flushed is awaited for WORKER_DRAIN_NS, never longer. Memory of its lanes may be
 * deregistered when the queue pair has been destroyed. Completions that come later still, of links
 * that are gone, are known by the generation in their wr_id, and dropped.
 */

/* Most links. Chosen: more than peers of a host, four links each, in a small cluster. */
#define WORKER_LINKS_MAX 256u

/* How long the peer has to answer the end of a lane with its own. Chosen: a bulk stream of three
 * chunks takes milliseconds, the rest is for a busy daemon. Missed, the link is killed. */
#define WORKER_DONE_NS 2000000000ull

/* How long flushed requests are awaited: as DESIGN has it, siw never flushes. */
#define WORKER_DRAIN_NS 100000000ull

/* Longest spin before sleeping, if the config says nothing. Chosen: twice a round trip of a small
 * message on a fast fabric and its daemons, about what going to sleep and waking up costs. */
#define WORKER_SPIN_NS 20000ull

#define WORKER_WHY_BYTES 160u

/* Verdict of worker_link_make() and worker_lane_make(): no place is left. */
#define WORKER_FULL 1

struct worker;
struct worker_link;
struct worker_lane;

/* Why a lane has ended. */
enum worker_end {
	WORKER_ASKED,	      /* worker_lane_end() */
	WORKER_PEER_DONE,     /* the peer has ended it */
	WORKER_LOST,	      /* its link is lost */
	WORKER_PEER_BREACH,   /* the peer broke the protocol of the lane */
	WORKER_CLIENT_BREACH, /* our client did: its connection is to be reset */
	WORKER_ENDS,
};

/* What became of a lane. Sets of words: bit 1 << enum link_word. */
struct worker_report {
	enum worker_end end;
	char why[WORKER_WHY_BYTES]; /* for people */
	struct ring_off fed;	    /* of the peer's bytes: prod of our half, final when ended */
	struct ring_off sent;	    /* of our client's bytes: posted */
	struct ring_off consumed;   /* of those: consumed by the peer's client, as it told */
	struct ring_off reached;    /* of those: acknowledged to be in the peer's half */
	uint32_t told, heard;	    /* words */
};

/* What the worker tells, all on the loop, from worker_reap(). Objects may be freed where it is said
 * that they are over. */
struct worker_ops {
	/* State words of our client have changed, or those of the peer's have come. The half of our
	 * client may say more than travels (rx_stop, rx_resume): look there. */
	void (*lane_words)(struct worker_lane *lane, const struct worker_report *report);
	/* The lane has ended: neither half is touched by the worker any more. */
	void (*lane_ended)(struct worker_lane *lane, const struct worker_report *report);
	/* The worker has forgotten it: worker_lane_free(). Its memory may be deregistered, after
	 * @link_lost only when the link's queue pair has been destroyed. */
	void (*lane_over)(struct worker_lane *lane, bool link_lost);
	/* The link is of no more use: @why for people. Its lanes have ended. */
	void (*link_down)(struct worker_link *link, const char *why);
	/* The worker has forgotten it and touches neither queue pair nor completion queue: the last
	 * of the link, and behind that of all lanes that had been begun. qp_pool_retire(), and
	 * worker_link_free() when no lane of it is left. */
	void (*link_gone)(struct worker_link *link);
};

/* Totals, all of them counters that the thread keeps and the loop may read at any time
 * (base/count.h). */

/* Since the lane began. */
struct worker_lane_counts {
	uint64_t eager, write_inline, by_reference; /* messages with bytes, by form */
	uint64_t bytes_sent, bytes_received;
	uint64_t messages, received; /* all of the lane */
	uint64_t wrs;		     /* work requests of those that were sent */
	uint64_t blocked;	     /* times that it began to wait for room there */
	uint64_t blocked_ns;
	uint64_t rung, bells; /* times that we rang the client's bell, and it ours */
};

struct worker_link_counts {
	struct link_counts send; /* what link_send.h counts */
	uint64_t messages;	 /* SENDs posted */
	uint64_t received;
	uint64_t breaches;	      /* of lanes, by the peer */
	uint64_t blocked, blocked_ns; /* of its lanes together */
	uint64_t answers;	      /* to questions of ours whether the peer is there */
	/* No sums, but as they are now: */
	uint64_t round_trip_ns; /* of the last answer */
	uint64_t lanes;
	uint64_t credits, owed, wrs_out; /* link_flow.h */
};

/* Of the device. */
struct worker_counts {
	uint64_t turns, sleeps, spins_paid;
	uint64_t polled, armed, events; /* completions polled; queues armed, and their events */
	uint64_t stale;			/* completions of links that are gone */
	uint64_t parked;
	uint64_t links_made, links_lost, lanes_begun, lanes_over;
	uint64_t rnr; /* links that failed because the peer had no receive posted */
};

struct worker_config {
	const struct device *device;
	struct ibv_comp_channel *channel; /* of all completion queues; non-blocking */
	const struct worker_ops *ops;
	const char *name;    /* of the thread, at most 15 bytes are shown */
	uint64_t spin_ns;    /* longest spin; 0: never */
	uint32_t lanes_max;  /* of a link */
	uint64_t link_bytes; /* by reference outstanding of a link; 0: LINK_OUT_CHUNKS chunks */
	void *user;
};

/*
 * Start the thread, all signals blocked. @config is copied; what it refers to outlives the worker.
 * @ret_worker: until worker_free(). 0, or -errno: nothing is left behind then. The loop's, as all
 * functions here where nothing else is said.
 */
int worker_new(const struct worker_config *config, struct worker **ret_worker);

/* The descriptor to watch for input, then to call worker_reap(); it stays the worker's. */
int worker_fd(const struct worker *worker);

/* Whether the thread has answered since the last call, and so goes on with its turns; if it has, it
 * is asked anew. True at first. */
bool worker_has_answered(struct worker *worker);

/* Call the ops for what has come. Never blocks. Not from inside of an op. */
void worker_reap(struct worker *worker);

/* End all links, take no more. Does not wait: link_gone() comes for each. */
void worker_stop(struct worker *worker);

/* Stop, and free it: every link and lane must have been freed (asserted). Waits for the thread,
 * which then has nothing to do. NULL is ignored. Returns NULL. */
struct worker *worker_free(struct worker *worker);

void *worker_user(const struct worker *worker);

/* The counters as they are. Nothing waits for the thread, nor is it woken. */
struct worker_counts worker_counts(struct worker *worker);
struct worker_link_counts worker_link_counts(struct worker_link *link);
struct worker_lane_counts worker_lane_counts(struct worker_lane *lane);

/* --- links ------------------------------------------------------------------------------------ */

/*
 * Make a link around @qp, which is in INIT, and post its receives: for prepare() of struct
 * link_ops. Messages that come before worker_link_up() are kept. Registers memory: on the control
 * thread.
 * @credits: receives, LINK_CREDITS_MIN to the depth of @qp. @ret_link: the caller's until
 * worker_link_free(); @qp must not be destroyed before link_gone() once it was up.
 * 0, WORKER_FULL, or -errno: -EINVAL when the depths are too small for a link, -ENOMEM, or what the
 * provider says.
 */
int worker_link_make(struct worker *worker, struct qp *qp, uint32_t credits, void *user,
		     struct worker_link **ret_link);

struct worker_link_setup {
	uint32_t peer_credits; /* of its hello */
	bool is_dialer;
};

/* Its queue pair is in RTS, both ends can send. 0, or -EPROTO when the peer's credits are none that
 * a link can work with: nothing is done then. */
int worker_link_up(struct worker_link *link, const struct worker_link_setup *setup);

/* End it: link_down() unless it was down, and link_gone(), follow. @why for people. */
void worker_link_end(struct worker_link *link, const char *why);

/* Lanes of @link that were made and are not freed. */
uint32_t worker_link_lanes(const struct worker_link *link);

/* After link_gone(), when no lane is left (asserted); deregisters memory: on the control thread.
 * NULL is ignored. Returns NULL. */
struct worker_link *worker_link_free(struct worker_link *link);

void *worker_link_user(const struct worker_link *link);

/* --- lanes ------------------------------------------------------------------------------------ */

/*
 * Make a lane of @link that does nothing yet, and has a name: the peer daemon is told of it, and
 * its messages must not come before worker_lane_begin(). 0, WORKER_FULL, or -ENOMEM.
 */
int worker_lane_make(struct worker_link *link, void *user, struct worker_lane **ret_lane);

/* Our name of it. */
struct cdc_token worker_lane_token(const struct worker_lane *lane);

struct worker_lane_setup {
	struct cdc_token peer; /* the peer's name of it */
	uint32_t epoch;	       /* of the connection, from 1 */
	/* Our client's half, mapped read-only, and its ring's key; source of what we send. */
	const struct half_ctl *client;
	uint64_t client_bytes; /* its ring */
	uint32_t client_lkey;
	/* Our half, which the peer's device writes and our client reads. */
	struct half_ctl *fed;
	uint64_t fed_bytes;
	/* The peer's half, which we write, and the ring of its client, whose bytes come here. */
	uint64_t peer_address; /* of the ring */
	uint32_t peer_rkey;
	uint64_t peer_bytes;
	uint64_t peer_source_bytes;
	int client_bell; /* rung for our client (bell.h) */
	int own_bell;	 /* which it rings for us */
	/* Of the two ends one is the second: it says nothing before the first message of the other,
	 * which always sends one when it begins. It is the one that has told the other of the lane,
	 * having begun: so no message can come to an end that has not. */
	bool is_second;
};

/*
 * Begin. Both halves, bells and the key are valid until lane_over(). Ring sizes as ring_size_ok()
 * has them: 0, or -EINVAL with nothing done. When the link is down already, lane_ended() and
 * lane_over() follow as ever.
 */
int worker_lane_begin(struct worker_lane *lane, const struct worker_lane_setup *setup);

/* End it: lane_ended() and lane_over() follow. Harmless when it has ended, or was never begun (then
 * nothing follows). */
void worker_lane_end(struct worker_lane *lane);

/*
 * The same, and the peer daemon says that it never began its end: so nothing of it is awaited, nor
 * would come. Also when it has ended already. As much as a peer that lies about it can do is to
 * lose the link.
 */
void worker_lane_end_alone(struct worker_lane *lane);

/* After lane_over(), or if it was never begun. NULL is ignored. Returns NULL. */
struct worker_lane *worker_lane_free(struct worker_lane *lane);

void *worker_lane_user(const struct worker_lane *lane);

/* Short names for logs and counters, lower case, static; "invalid" outside the enum. */
const char *worker_end_name(enum worker_end end);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/count.h"
#include "base/list.h"
#include "core/link_take.h"
#include "core/link_test.h"
#include "core/wake.h"
#include "fabric/worker.h"

/*
 * Inside of the worker. All fields are the thread's once it has the object, but for those under
 * the lock and those of the loop.
 *
 *	worker.c	the thread: turns, sleep
 *	worker_mail.c	the mailboxes, both ways
 *	worker_link.c	links: how they come and go
 *	worker_cq.c	completions
 *	worker_post.c	what the core wants posted, as verbs
 *	worker_lane.c	lanes: how they come and go, hot and parked
 *	worker_half.c	the words of both halves
 *	worker_count.c	what others read of the counters
 */

/* Work requests per post, completions per poll, polls of one queue per turn. Chosen: a post of a
 * quarter of a queue of 128; a turn of some ten microseconds. */
#define WORKER_POST_WRS 32u
#define WORKER_POLL 16u
#define WORKER_POLLS 4u

/* Turns without anything new after which a lane is parked while others keep the thread awake, and
 * between two looks at epoll. Chosen: some ten microseconds each. */
#define WORKER_HOT_TURNS 64u
#define WORKER_LOOK_TURNS 16u

/* Making way for a client that was rung: how long it may take, and how often it is left after it
 * took longer. Chosen: below a scheduler's slice, above a client's answer under emulation; and so
 * that a slice of 3 ms now and then costs a message 3 us. */
#define WORKER_WAY_NS 1000000u
#define WORKER_WAYS_SPARED 1000u

/* Bytes of a receive and of a registered slot for what can't go inline. */
#define WORKER_RECEIVE_BYTES LINK_MSG_MAX_BYTES
#define WORKER_SLOT_BYTES 128u

_Static_assert(LINK_OWN_MAX_BYTES <= WORKER_SLOT_BYTES, "a message without bytes fits a slot");

/* What the loop asks of an object; handled in this order. */
enum worker_ask {
	ASK_BEGIN = 1 << 0, /* link: up */
	ASK_END = 1 << 1,
	ASK_STOP = 1 << 2,   /* worker */
	ASK_ALONE = 1 << 3,  /* lane: end it, its peer never began */
	ASK_ANSWER = 1 << 4, /* worker: say that it is there */
};

/* What the thread tells of it; told in this order. */
enum worker_tell {
	TELL_WORDS = 1 << 0,
	TELL_ENDED = 1 << 1,
	TELL_OVER = 1 << 2,
	TELL_DOWN = 1 << 3,
	TELL_GONE = 1 << 4,
};

enum mail_kind { MAIL_WORKER, MAIL_LINK, MAIL_LANE };

/* Under the worker's lock. An object is in each box at most once. Closed: the thread has told its
 * last about it, so that it may be freed, and is asked nothing any more. */
struct worker_mail {
	enum mail_kind kind;
	struct list inbox, outbox;
	uint32_t asked, told;
	bool is_closed;
};

/* What is in the epoll set; the kind is that of whoever it belongs to. */
enum worker_source { SOURCE_MAIL, SOURCE_CHANNEL, SOURCE_BELL };

struct worker_lane {
	struct worker_mail mail;
	enum worker_source source; /* its bell's */
	struct worker_link *link;
	void *user;
	struct cdc_token token;
	struct worker_lane_setup setup;
	bool is_begun; /* the loop's */

	struct link_lane core;
	struct list hot;    /* in the worker's, unless parked */
	struct list ending; /* in the link's, between its end and its being over */
	uint32_t quiet_turns;
	unsigned int armed; /* wake_kinds that our bell will be rung for */
	uint64_t seq;	    /* state_seq of the client's half, as last looked at */
	bool has_looked;
	bool is_parked;
	bool is_ended;
	bool is_waiting; /* for the peer's first message */
	bool peer_is_done;
	bool tx_has_write; /* a WRITE whose CDC has not been posted */
	bool tx_write_is_inline;
	uint64_t done_ns; /* deadline of the peer's end */
	uint64_t blocked_since_ns;
	struct wake_arms rung;
	struct worker_lane_counts counts;

	/* Under the lock. */
	struct worker_report report;
	bool link_lost;
};

enum worker_link_state { WORKER_LINK_MADE, WORKER_LINK_UP, WORKER_LINK_DRAINS, WORKER_LINK_GONE };

/* A message that came before the link was up. */
struct worker_early {
	uint32_t slot, len;
};

struct worker_link {
	struct worker_mail mail;
	struct worker *worker;
	void *user;
	struct qp *qp;
	uint32_t index, generation;
	uint32_t credits, receives_out;
	uint8_t *receives, *slots; /* of one registered block, which begins with the receives */
	struct ibv_mr *region;
	struct worker_early *early;
	uint32_t n_early;
	uint32_t *repost; /* receives that are done with */
	uint32_t n_repost;

	enum worker_link_state state;
	bool may_send;		  /* iWARP: who was dialled waits for the first message */
	struct list links, dirty; /* in the worker's */
	struct link_send send;
	struct link_note *notes;
	struct link_lanes lanes;
	struct link_test test;
	struct list ending; /* lanes */
	uint64_t drain_ns;
	struct worker_link_counts counts;

	/* The loop's: places of lanes. */
	struct worker_place {
		uint32_t generation;
		bool is_taken;
	} * places;
	uint32_t n_lanes;

	/* Under the lock. */
	struct worker_link_setup setup;
	char end_why[WORKER_WHY_BYTES], why[WORKER_WHY_BYTES];
};

struct worker_cq {
	struct cq *cq;
	uint32_t links;
	bool is_armed;
};

struct worker {
	struct worker_mail mail;
	struct worker_config config;
	pthread_t thread;
	int epoll_fd, mail_fd, out_fd;
	enum worker_source mail_source, channel_source;

	pthread_mutex_t lock;
	/* Under the lock. */
	struct list inbox, outbox;
	atomic_bool has_mail;		     /* read without, too */
	_Atomic uint32_t questions, answers; /* asked by the loop; of these, answered */
	uint32_t n_links, next_generation;
	bool is_stopped;

	/* Set under the lock by who makes or forgets a link, read by the thread without. */
	struct worker_link *_Atomic links[WORKER_LINKS_MAX];

	struct worker_cq cqs[WORKER_LINKS_MAX];
	uint32_t n_cqs;
	uint32_t n_parked;
	struct list up, dirty, hot; /* links that are up or drain; links; lanes */
	bool is_stopping;
	uint64_t now_ns, next_ns; /* of this turn; of the next deadline */
	uint64_t spin_ns;	  /* at present */
	uint32_t unlooked;	  /* turns since epoll was looked at */
	bool is_alone;		  /* there is one processor */
	bool has_rung;		  /* a client, since way was made for one last */
	uint32_t ways_spared;	  /* so often it is not made, still */
	struct worker_counts counts;

	struct link_wr wrs[WORKER_POST_WRS];
	struct ibv_send_wr sends[WORKER_POST_WRS];
	struct ibv_sge sges[WORKER_POST_WRS];
	uint8_t gathered[WORKER_POST_WRS][LINK_MSG_MAX_BYTES];
};

/* wr_id: what it was, whose, and which. */
#define WORKER_ID_RECEIVE (1ull << 63)
static inline uint64_t worker_id(const struct worker_link *link, uint32_t number)
{
	return (uint64_t)(link->generation & 0x7fffffu) << 40 | (uint64_t)link->index << 32 |
	       number;
}

_Static_assert(WORKER_LINKS_MAX <= 256, "an index has eight bits of a wr_id");

/* A deadline: the thread looks again at @ns at the latest. */
static inline void worker_deadline(struct worker *worker, uint64_t ns)
{
	if (ns < worker->next_ns)
		worker->next_ns = ns;
}

/* worker.c: one turn; of the thread, or of a test that is it. Whether anything was there to do. */
bool worker_turn(struct worker *worker);

/* worker_mail.c. The thread's, but for mail_init() and mail_ask(). */
void mail_init(struct worker_mail *mail, enum mail_kind kind);
void mail_ask(struct worker *worker, struct worker_mail *mail, uint32_t what);
bool mail_take(struct worker *worker);
void mail_tell_lane(struct worker_lane *lane, uint32_t what, enum worker_end end, const char *why);
void mail_tell_over(struct worker_lane *lane, bool link_lost);
void mail_tell_link(struct worker_link *link, uint32_t what, const char *why);

/* worker_link.c */
void link_go_up(struct worker_link *link);
__attribute__((format(printf, 2, 3))) void link_fail(struct worker_link *link, const char *format,
						     ...);
void link_asked_to_end(struct worker_link *link);
void links_time(struct worker *worker);
void links_drain(struct worker *worker);
void link_receive(struct worker_link *link, uint32_t slot, uint32_t len);
void link_touch(struct worker_link *link);
void link_show(struct worker_link *link);
int link_repost(struct worker_link *link);

/* worker_cq.c */
void cq_add(struct worker *worker, struct cq *cq);
void cq_drop(struct worker *worker, struct cq *cq);
bool cqs_poll(struct worker *worker);
/* Whether all are armed and empty. */
bool cqs_arm(struct worker *worker);
void cqs_events(struct worker *worker);

/* worker_post.c */
void links_post(struct worker *worker);
/* Whether a link that will post has bytes to send in turns. */
bool links_have_bulk(const struct worker *worker);

/* worker_lane.c */
void lane_go(struct worker_lane *lane);
void lane_end(struct worker_lane *lane, enum worker_end end, const char *why);
void lane_end_alone(struct worker_lane *lane);
void lane_lose(struct worker_lane *lane);
void lane_news(struct worker_lane *lane, const struct link_news *news);
void lane_breach(struct worker_lane *lane, const struct link_news *news);
/* Forget lanes that have ended at both ends. */
void lanes_finish(struct worker_link *link);
/* Forget all: the link is gone. */
void lanes_over(struct worker_link *link);
void lane_heat(struct worker_lane *lane);
bool lanes_poll(struct worker *worker);
/* Whether all are armed and nothing is new. */
bool lanes_park(struct worker *worker);

/* worker_half.c */
/* Look at the client's half: 1 if something is new, 0, or -EBADMSG with @ret_why. */
int half_look(struct worker_lane *lane, const char **ret_why);
/* Do with our half what the news say; wakes the client. */
void half_feed(struct worker_lane *lane, const struct link_news *news);
/* Arm, for what the lane waits for. */
void half_arm(struct worker_lane *lane);

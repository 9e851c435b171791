/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "end.h"
#include "fabric/mr.h"
#include "fabric/worker.h"
#include "links_impl.h"
#include "loop.h"
#include "manager.h"
#include "os/fd.h"
#include "peers.h"
#include "quota.h"
#include "remote_replay.h"
#include "sizes.h"
#include "sizes.h"

/*
 * One host's part of a lane between hosts: its client's half and the half with which it feeds that
 * client, both registered with the device of a link, and a duplicate of the TCP socket.
 *
 *	match      both daemons know both ends, and both agree: halves are made, PAIR to the client
 *	mapped     the client has mapped its half: it is registered
 *	MATCH      where the peer may write, over the session. The daemon that peers_goes_first()
 *	           names sends it first and begins with the answer; the other has begun when it
 *	           answers. So it is one round trip from when both offers are there
 *	begun      the lane is the worker's, the client gets its peer's half
 *	ended      the worker touches it no more: lost, unless both ends were through
 *	over       the device knows nothing of it; the duplicate may live on, to replay and to shut
 *
 * Before it has begun, whoever gives up takes it back, here and there (REFUSE). From then on
 * daemon/remote_replay.h says what is to be done; what it wants to know of the other daemon comes
 * over the link (offsets, the last acknowledgement) and, when the lane has ended, by LOST over the
 * session, which both daemons send, with where the sender's client stands. The answer, REPLAYED,
 * says that it was noted; only then may the sender's client be through with the lane, and the lane
 * be forgotten (remote_lost.c).
 *
 * A daemon that dies takes registrations, links and duplicates with it, and nothing else: the
 *service manager, if there is one, and its client bring the lane to the successor, where it begins
 *as one that has ended (remote_keep.c, remote_adopt.c).
 */

/* What both daemons call a lane for good; hashed as bytes. */
struct remote_key {
	struct tcp_name name; /* as our end is called */
	uint64_t id;	      /* of the offer of the daemon that had the lower UUID */
	uint64_t epoch;
};

_Static_assert(sizeof(struct remote_key) == sizeof(struct tcp_name) + 16, "no padding");

struct remote_lane {
	struct list link; /* of all */
	struct remote_key key;
	bool has_key;	 /* it is found by it */
	bool is_adopted; /* it was made by a predecessor */
	struct server *server;
	struct end *end; /* one that holds it; NULL: gone, or drained */
	struct tcp_name name;
	struct quota_user *user;  /* charged for the halves… */
	uint64_t pinned_bytes;	  /* … and for so much of them, as long as it may be registered */
	uint64_t own_id, peer_id; /* of the offers; 0: a predecessor's */
	uint32_t epoch;
	uint64_t ring_bytes;   /* of both halves here */
	uint64_t source_bytes; /* of the other client's half there */

	struct link_peer *peer;		  /* NULL: it was made by a predecessor */
	struct host_link *host_link;	  /* NULL: nothing is registered any more */
	struct worker_lane *worker;	  /* NULL: it has forgotten it */
	struct worker_report report;	  /* the last */
	struct worker_lane_counts counts; /* what it had counted when it forgot it */
	uint32_t link_serial;		  /* of our link; 0: a predecessor's */
	uint64_t base_tx, base_rx;	  /* bytes of the client's lanes before this one */
	struct remote_lane_memory {
		struct mr_job job;
		struct mr_half *half;
		bool is_busy;
	} fed, client;
	int half;	      /* descriptor of the client's half, until it is kept; else -1 */
	int bell;	      /* the client's */
	int ear_bell;	      /* which it rings, until it is sent; else -1 */
	int ear;	      /* the worker's ear of it */
	struct source hangup; /* ours, for the moment when nobody has it any more */

	bool is_first; /* its MATCH, and its first message on the link */
	bool has_mapped, has_match, has_begun, has_ended, is_failed;
	bool sent_match;
	bool is_unwanted; /* no other end of this lane is left that could want to hear of it */
	struct peer_match match;
	struct remote_end r;
	struct timer act;
	uint64_t gone_ns; /* since when the client is gone, or seems to be; 0: it is not */
	uint64_t ended_ns;

	struct timer keep;
	char kept[MANAGER_NAME_BYTES]; /* what the manager calls it; empty: it has not got it */

	/* remote_lost.c */
	bool has_told;	/* LOST, over a session of now */
	uint64_t told;	/* what it said; PEER_OFFSET_NONE: that it is not certain */
	uint64_t heard; /* what the other one's said, as long as it has no answer */
	uint64_t again_ns, pause_ns;
};

/* Be server->remote, and make lanes. */
void remote_start(struct links *links);

/* The daemon is about to end: lanes that have not begun are taken back, the ends of the others are
 * asked to go back to TCP. */
void remote_retire(void);

/* Whether the end of the daemon would do harm to a lane. */
bool remote_are_any_left(const struct server *server);

/* The session with @peer does not come back: its lanes are asked to go back to TCP over the link,
 * which works still. */
void remote_lapse(const struct link_peer *peer);

/* A session with @peer is wanted, for the lanes' sake. */
void remote_want(const struct link_peer *peer);

/* The end of the daemon: all lanes are dropped, as if it had died. */
void remote_stop(void);

/* For struct worker_ops. */
void remote_lane_words(struct worker_lane *lane, const struct worker_report *report);
void remote_lane_ended(struct worker_lane *lane, const struct worker_report *report);
void remote_lane_over(struct worker_lane *lane, bool link_lost);

/* @end holds @lane, or does no more; the latter: whether nobody else does, either. */
void remote_hold(struct remote_lane *lane, struct end *end);
bool remote_let_go(struct end *end);

/* --- remote_match.c: from the match to the beginning --------------------------------------------
 */

/* For struct peers_user, see there; @ctx: the links. */
enum reason remote_match(void *ctx, struct peer_session *session, struct end *end, uint64_t own_id,
			 const struct peer_offer *offer);

/* MATCH, REFUSE, LOST and REPLAYED of @peer. */
void remote_message(struct link_peer *peer, const struct peer_msg *msg);

/* Memory is there, or MATCH is: go on. */
void remote_lane_go_on(struct remote_lane *lane);

/* Take back @lane, which has not begun: @answer to our client (REASON_NONE: nothing), @reason to
 * the other daemon (REASON_NONE: it knows). It may be freed. */
void remote_take_back(struct remote_lane *lane, enum reason answer, enum reason reason);

/* There is a session with @peer again: agree anew on lanes of which both have not begun. */
void remote_match_again(struct link_peer *peer);

/* @link is of no more use: lanes that have not begun on it are taken back. */
void remote_link_down(struct host_link *link);

/* The lane with @peer that came of our offer @own_id; NULL: none. */
struct remote_lane *remote_find(const struct link_peer *peer, uint64_t own_id);

/* --- remote_lost.c: what the daemons tell each other of lost lanes ------------------------------
 */

/* Tell the other daemon, if what it has said of @lane is recorded. */
void remote_tell_noted(struct remote_lane *lane);

/* Tell the other daemon of @lane what it does not know yet. */
void remote_tell_lost(struct remote_lane *lane);

/* @lane, which has begun, is about to be forgotten. */
void remote_bury(const struct remote_lane *lane);

/* There is a session with @peer again. */
void remote_session_up(struct link_peer *peer);

void remote_on_lost(struct link_peer *peer, const struct peer_lane_at *at);
void remote_on_noted(struct link_peer *peer, const struct peer_lane_at *at);

/* --- remote_adopt.c: lanes of a predecessor ----------------------------------------------------
 */

/* What is brought, in this order: the socket, as ADOPT has it, apart from the others. */
enum remote_brought {
	BROUGHT_SOCKET,
	BROUGHT_HALF, /* the client's */
	BROUGHT_FED,  /* ours */
	BROUGHT_BELL, /* the client's */
	BROUGHT_EAR,  /* ours, which it rings, or an ear of it */
	BROUGHT,
};

struct remote_adoption {
	struct server *server;
	struct quota_user *user; /* to be charged */
	const struct tcp_name *name;
	uint32_t epoch;
};

/*
 * Make a lane of what @bag brings, or find the one that is here already: *@ret_lane. *@sock: the
 * TCP socket, taken if the lane is made. REASON_NONE, or why not.
 */
enum reason remote_adopt_make(const struct remote_adoption *from, int *sock,
			      const struct fd_bag *bag, struct remote_lane **ret_lane);

/* For struct remote_ops. */
enum reason remote_adopt(struct end *end, uint32_t epoch, int fd, struct fd_bag *bag);

/* One of them is no more. */
void remote_adopted_gone(void);

/* --- remote_keep.c: what the service manager keeps ----------------------------------------------
 */

/* @lane has begun: if it lives for a while, it is left with the manager for a successor of ours. */
void remote_keep_later(struct remote_lane *lane);

/* @lane, whose halves are the descriptors @half and @fed (which stay the caller's), is left with
 * the manager at once. That it can't be is logged. */
void remote_keep(struct remote_lane *lane, int half, int fed);

/* Its client, or the other end, needs no successor of ours. Harmless if it is not kept. */
void remote_unkeep(struct remote_lane *lane);

/* We are about to end, and what is kept stays so. */
void remote_keep_all(void);

/* Take over what a predecessor has left with the manager. */
void remote_restore(struct server *server, struct manager_fds *passed);

/* --- remote_show.c: what is told of it ----------------------------------------------------------
 */

/* @lane is lost, and not since a client wants no more: count it, and note it in the history of its
 * end. Once. */
void remote_note_lost(struct remote_lane *lane);

/* For struct remote_ops. */
void remote_add_live(const struct end *end, struct ctl_totals *totals);
void remote_add_sizes(struct lane_sizes *sum);
json_t *remote_messages(const struct end *end);
json_t *remote_json(const struct end *end);

/* --- remote_act.c: a lane that has begun -------------------------------------------------------
 */

/* Look what is to be done for @lane, and do it; it may be freed. */
void remote_act(struct remote_lane *lane);

/* Look soon. */
void remote_act_soon(struct remote_lane *lane);

/* LOST of @peer, of a lane that has begun: its client wants the rest of ours over TCP from @offset
 * on, or that is not certain yet (PEER_OFFSET_NONE). It may be freed. */
void remote_peer_lost(struct remote_lane *lane, const struct link_peer *peer, uint64_t offset);

/* --- remote_life.c: how a lane is made and unmade ----------------------------------------------
 */

/* A lane of the connection @name, known to nobody; peer, link and halves are the caller's to add.
 * NULL without memory. */
struct remote_lane *remote_lane_alloc(struct server *server, const struct tcp_name *name);

/* A lane of @end, which waits, over @link. NULL, and why. */
struct remote_lane *remote_lane_new(struct host_link *link, struct end *end,
				    const struct peer_offer *offer, uint64_t own_id,
				    enum reason *ret_reason);

/* Watch @ear (taken over), which hangs up when no process has the lane any more. 0, or -errno. */
int remote_lane_watch(struct remote_lane *lane, int ear);

/* The client's half is sealed: register it. */
enum reason remote_lane_attach(struct remote_lane *lane);

/* What was registered goes, as far as nobody uses it any more; and with the last the lane. True:
 * it was freed. */
bool remote_lane_settle(struct remote_lane *lane);

/* Let @lane be found by its name, epoch and @id. 0, -EEXIST, -ENOMEM. */
int remote_lane_name(struct remote_lane *lane, uint64_t id);

/* The lane called @key, or NULL. */
struct remote_lane *remote_lane_by_key(const struct remote_key *key);

/* No lanes yet; @seed: random. And none any more. */
void remote_lanes_init(uint64_t seed);
void remote_lanes_deinit(void);

/* All lanes. */
extern struct list remote_lanes;

/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "os/log.h"
#include "core/link_group.h"
#include "core/reason.h"
#include "device.h"
#include "fabric/link.h"
#include "fabric/worker.h"
#include "links.h"
#include "peer_conf.h"
#include "peers.h"
#include "timer.h"

/*
 * The inside of links.h: links to the daemons of other hosts, and who they are for.
 *
 * For every daemon that a session is up with, and that has an RDMA address which one of ours can
 * reach, there is to be one link. It is dialled with a nonce that the other daemon gave over the
 * session, so who dials is who the session is with; core/link_group.h settles dials that cross. A
 * link that is up is the device's worker's; one that is lost is dialled again, after a pause that
 * doubles.
 *
 * A daemon is known by its UUID, so its lanes outlive a session that is made anew.
 *
 * All on the loop, but for prepare() of a link. Nothing here blocks, except links_stop().
 */

/* Pauses between dials. Chosen: as little as a lost link may cost, and what an unreachable fabric
 * may. */
#define LINKS_RETRY_MIN_MS 100u
#define LINKS_RETRY_MAX_MS 10000u
/* Who has the higher UUID gives the other a chance to dial first, when both learn at once that a
 * link is missing, so that dials seldom cross: each that does costs a queue pair. */
#define LINKS_YIELD_NS 500000000ull

/* Lanes of a link. Chosen: as connections between two busy hosts. */
#define LINKS_LANES_MAX 4096u

/* Links that were lost and are remembered. Chosen: an outage of a small cluster's worth. */
#define LINKS_LOST_KEPT 32u

struct links;
struct server;

/* The daemon of another host. */
struct link_peer {
	struct list link; /* links->peers */
	struct links *links;
	uint8_t uuid[PEER_UUID_BYTES];
	struct peer_address address;
	const struct peer_rule *rule; /* its entry in the settings, or NULL */
	char name[PEER_ADDRESS_TEXT]; /* for people */
	struct peer_session *session; /* NULL: none now */
	uint64_t down_ns;	      /* since when there is none */
	bool has_lapsed;	      /* it does not come back: lanes were asked to leave */
	bool is_revoked;	      /* it must not, for lack of a key: not waited for */
	struct host_link *up;	      /* NULL: none now */
	struct link_group group;
	uint32_t refs; /* links and lanes that refer to it */
	uint32_t failures;
	enum reason failed_reason; /* of the last dial that came to nothing; NONE: there is a link,
				      or none was tried yet */
	char failed_why[LINK_WHY_BYTES];
	uint64_t retry_at_ns; /* no dial before */
	/* The dial that waits for its nonce; id 0: none. */
	struct link_ask {
		uint64_t id, path, until_ns;
		uint32_t attempt;
		uint16_t from, to;
	} ask;
};

/* A link, from its first step to the last. */
struct host_link {
	struct list link; /* links->all */
	struct link_peer *peer;
	struct host_device *dev;
	struct qp_pool *pool;
	uint64_t path;
	uint32_t attempt;
	uint32_t credits;
	struct link cm;
	struct worker_link *worker; /* from prepare() on; NULL: it did not come that far */
	struct qp *qp;		    /* ours since it is up, until the worker forgets it */
	struct control_job free_job;
	uint32_t lanes; /* that use it, or have memory registered for it */
	bool is_up, is_down, is_closed, is_gone, is_freeing;
	uint64_t up_ns;
};

/* Passwords that we gave, each for one dial. */
struct link_nonce {
	struct list link; /* links->nonces */
	struct link_peer *peer;
	struct host_device *dev;
	struct qp_pool *pool;
	uint64_t path, until_ns;
	struct peer_address from; /* who dials: the address that it asked with */
	uint8_t nonce[LINK_NONCE_BYTES];
};

/* A link that was lost. */
struct link_lost {
	uint32_t serial;
	uint64_t at_ms; /* wall clock */
	uint64_t was_up_ms;
	uint8_t uuid[PEER_UUID_BYTES];
	char peer[PEER_ADDRESS_TEXT];
	char device[IBV_SYSFS_NAME_MAX];
	char why[LINK_WHY_BYTES];
};

struct links {
	struct server *server;
	struct list peers, all, nonces;
	struct timer timer;
	uint64_t asks;
	uint32_t serial; /* of links, for their hellos */
	uint64_t made, lost, failed;
	struct worker_link_counts gone;		  /* of links that their workers have forgotten */
	struct link_lost losses[LINKS_LOST_KEPT]; /* number n is in place n modulo that */
	struct log_limit ups, downs;		  /* of log lines, for all links together */
	bool is_retiring;
};

/* The daemon at the other end of @session, or NULL. */
struct link_peer *links_peer_of(const struct links *links, const struct peer_session *session);

/* One lane less uses @link. */
void host_link_put(struct host_link *link);

/* A lane less refers to @peer; it may be freed. */
void link_peer_put(struct link_peer *peer);

/* Whether ours is the lower UUID. */
static inline bool link_peer_we_are_lower(const struct link_peer *peer)
{
	return peer->group.is_lower;
}

/* link_path.c: which way. */

/* The port of ours that @own describes, active and of a device that is ready; NULL: it is no more.
 */
struct host_port *link_port(const struct links *links, const struct peer_rdma *own,
			    struct host_device **ret_dev);

/* The name of a path, the same on both hosts as long as their lists are. */
uint64_t link_path_name(const struct link_peer *peer, uint16_t own, uint16_t theirs);

/* The first pair of ports that match, in the order of the daemon with the lower UUID, for @peer,
 * which has a session: path, from and to of @ret_ask. False: none. */
bool link_choose_path(const struct link_peer *peer, struct link_ask *ret_ask);

/* link_loss.c: why there is no link. */

/* @link, which was up, is lost: remember it, and count it. */
void links_note_lost(const struct host_link *link, const char *why);
/* No link to @peer could be made. */
void links_note_failed(struct link_peer *peer, enum reason reason, const char *why);
/* The last that was lost of @peer; link @serial of ours. NULL: it is not, or no longer known. */
const struct link_lost *links_last_lost(const struct links *links, const struct link_peer *peer);
const struct link_lost *links_lost(const struct links *links, uint32_t serial);
/* Whether the pool has none for it at the moment. */
bool host_link_waits_for_qp(const struct host_link *link);
/* Why there is none to @peer, which has none. */
enum reason links_reason(const struct link_peer *peer);

/* link_figures.c: counters, in answers. */

/* The port that it goes over. */
uint32_t host_link_port(const struct host_link *link);
/* Add @counts to @sum; what is no sum is left at 0. */
void link_figures_add(struct worker_link_counts *sum, const struct worker_link_counts *counts);
/* The same keys for a link and for all of a device. NULL without memory. */
json_t *link_figures_json(const struct worker_link_counts *counts);
json_t *lane_figures_json(const struct worker_lane_counts *counts);

/* links_peer.c */

/* For struct peers_user; @ctx: the links. */
void links_session_up(void *ctx, struct peer_session *session);
void links_session_down(void *ctx, struct peer_session *session);
void links_session_revoked(void *ctx, struct peer_session *session);
void links_session_changed(void *ctx, struct peer_session *session);

/* Look whether @peer, which has no session, has had none for too long. Its link may end, and it may
 * be freed. */
void link_peer_look(struct link_peer *peer, uint64_t now_ns);

/* Free @peer if nothing refers to it. */
void link_peer_try_free(struct link_peer *peer);

/* Forget the nonces of @peer (NULL: of nobody), and those that are too old at @now_ns. */
void links_drop_nonces(struct links *links, const struct link_peer *peer, uint64_t now_ns);

/* Between links.c and link_life.c. */

/* A new one, in no list but links->all. NULL without memory. */
struct host_link *host_link_new(struct link_peer *peer, struct host_device *dev,
				struct qp_pool *pool, uint64_t path, uint32_t attempt);
/* End it, whatever has become of it. */
void host_link_end(struct host_link *link, const char *why);
/* Try again what a full queue has put off. */
void host_link_tick(struct host_link *link);
/* What the worker of a device is to tell. */
extern const struct worker_ops links_worker_ops;
/* End what is being made with @peer, by either side. */
void links_end_attempts(struct link_peer *peer, const char *why);
/* It has failed or is lost: dial again later. */
void links_failed(struct host_link *link, const char *why);
/* Look soon what is to be done. */
void links_wake(struct links *links);

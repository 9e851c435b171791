/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/peer_msg.h"
#include "core/reason.h"

/*
 * The daemons of other hosts. An end that waits for its other end, and is not connected to this
 * very host, is offered to the daemon of the other host; that one is dialled if it has to be. When
 * both daemons have an end and the other's offer for it, and the kernel's figures fit, that is a
 * match: whoever builds lanes between hosts is told of it.
 *
 * All on the loop. Nothing here blocks, and an end that waits costs local pairing nothing.
 */

struct end;
struct peer_rule;
struct peer_session;
struct peers;
struct server;
struct tcp_name;

/* For whoever builds lanes between hosts. */
struct peers_user {
	void *ctx;
	/*
	 * @end, which waits, and the other host's @offer (of @session) are one connection; @own_id
	 * is our own offer's. REASON_NONE: taken over, with pair_take(@end) called; else the reason
	 * to refuse both with.
	 */
	enum reason (*match)(void *ctx, struct peer_session *session, struct end *end,
			     uint64_t own_id, const struct peer_offer *offer);
	/* MATCH, REFUSE of an offer that is not waiting, NONCE_ASK, NONCE, LOST, REPLAYED, SHUT. */
	void (*message)(void *ctx, struct peer_session *session, const struct peer_msg *msg);
	/* A session is up or goes; it is valid during the call, and until down() returns. */
	void (*up)(void *ctx, struct peer_session *session);
	/* The other daemon has other RDMA addresses now. */
	void (*changed)(void *ctx, struct peer_session *session);
	void (*down)(void *ctx, struct peer_session *session);
	/* It is about to go down, since its key or certificate is good no more: what there is
	 * between the two hosts should end. Behind it comes down(). */
	void (*revoked)(void *ctx, struct peer_session *session);
};

/*
 * Listen, and be ready to dial, as the settings say. @server: outlives it.
 * NULL, with a line in the log that says why, when sessions with other hosts are off, not built in
 * or can't be had; nothing else depends on them.
 */
struct peers *peers_start(struct server *server);

/* Say goodbye to all and release everything. NULL is ignored. Returns NULL. */
struct peers *peers_stop(struct peers *peers);

/*
 * Read keys and certificates again. Sessions that they do not give any longer end at once, and
 * lanes with those peers go back to TCP; whom they let in may be called again. A file that can't be
 * used gives no key. All is logged. NULL is ignored. On the loop; reads files.
 */
void peers_keys_reread(struct peers *peers);

/* Tell @user, which is copied, of what comes; NULL: nobody, as at first. */
void peers_set_user(struct peers *peers, const struct peers_user *user);

/* @end waits, with no other end on this host. @peers: NULL is ignored. */
void peers_offer(struct peers *peers, struct end *end);

/*
 * Whether our MATCH for @end, which has an offer, and @theirs goes first: of the daemon whose offer
 * came to that of the other, since it knows of both first; @is_lower, which one of two daemons is,
 * decides if they crossed. The other daemon comes to the contrary.
 */
bool peers_goes_first(const struct end *end, const struct peer_offer *theirs, bool is_lower);

/* @end, which has an offer, waits no more. */
void peers_withdraw(struct end *end);

/* Why nobody came for @end, which waited in vain. */
enum reason peers_wait_reason(const struct end *end);

/* Send @msg, or end the session if it takes nothing any more. Never blocks. */
void peer_session_send(struct peer_session *session, const struct peer_msg *msg);

/* What the other daemon has said of itself. */
const struct peer_hello *peer_session_hello(const struct peer_session *session);

/* Its entry in the settings, or NULL. */
const struct peer_rule *peer_session_rule(const struct peer_session *session);

/* Whether the daemon at the other end of @session may speak for the other end of the connection
 * @name. */
bool peer_session_may_speak(const struct peer_session *session, const struct tcp_name *name);

/* A lane of the connection @name waits for the daemon of the other host: dial it, if there is no
 * session and it is time. */
void peers_want(struct peers *peers, const struct tcp_name *name);

/* Sessions that are up. @peers: may be NULL. */
uint32_t peers_count(const struct peers *peers);

/* Our RDMA addresses may have changed: tell the other daemons, if so. */
void peers_tell_rdma(struct peers *peers);

/* The answer to `shunt peers`. @peers: may be NULL. @ret_count: sessions. NULL without memory. */
json_t *peers_json(const struct peers *peers, uint32_t *ret_count);

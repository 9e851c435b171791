/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "loop.h"
#include "os/log.h"
#include "os/tcp.h"
#include "peer_conf.h"
#include "peers.h"
#include "quota.h"
#include "tls.h"

/*
 * The inside of peers.h.
 *
 * A host is what we know of one other daemon's address, as reached from one of ours: the session
 * with it, or when to try again; and the offers to and from it. A session is one TLS connection:
 *
 *	dialled   DIALLING ──connected──┐
 *	accepted                        v
 *	                            HANDSHAKE ──TLS done──> HELLO ──its hello──> UP
 *	UP ──another stays──> LEAVING
 *	from everywhere: error, time limit, goodbye ──> DOOMED, freed behind the callback
 *
 * A session becomes its host's when it is UP. If two daemons dial each other at once there are two:
 * that which the lower UUID dialled stays. The other is LEAVING: we have said goodbye, and read
 * what the peer sent before it heard that, so that no offer or answer is lost. An older one of the
 * same direction, or of an earlier run of the other daemon, gives way to the newer one.
 */

/* Why something of a peer was refused or cut off: one limit of log lines for each. */
enum peer_complaint {
	PEER_COMPLAINT_STRANGER,  /* may not talk to us */
	PEER_COMPLAINT_CROWD,	  /* too many at once */
	PEER_COMPLAINT_HANDSHAKE, /* TLS failed */
	PEER_COMPLAINT_PROTOCOL,  /* broke the rules */
	PEER_COMPLAINT_CLAIM,	  /* spoke for somebody else */
	PEER_COMPLAINT_SLOW,	  /* does not read, says nothing */
	PEER_COMPLAINTS,
};

enum peer_phase {
	PEER_DIALLING,
	PEER_HANDSHAKE,
	PEER_HELLOING,
	PEER_UP,
	PEER_LEAVING,
	PEER_DOOMED,
};

/* Hosts are found by this; hashed as bytes. */
struct host_key {
	uint8_t family;
	uint8_t local[16];
	uint8_t remote[16]; /* of an entry of the settings: its first address */
};

_Static_assert(sizeof(struct host_key) == 33, "no padding");

struct peer_counts {
	uint64_t offers_sent, offers_received, matches, refusals_sent, refusals_received;
	uint64_t messages_sent, messages_received, strays;
};

#define PEER_WHY_BYTES 128u

struct peer_host {
	struct peers *peers;
	struct list link; /* peers->hosts, the one used last at the end */
	struct host_key key;
	uint64_t serial;
	struct peer_address local, remote; /* to dial: from, to; ports 0 */
	const struct peer_rule *rule;
	struct peer_session *session; /* UP; NULL: none */
	struct peer_session *dial;    /* on its way; NULL: none */
	struct peer_counts carried;   /* of a session that crossed, until the other is up */
	uint32_t n_leaving;	      /* sessions LEAVING */
	bool is_ours;		      /* the address is this host's own */
	uint64_t known_ns;	      /* when that was found out */
	uint32_t failures;	      /* calls in a row that failed */
	uint64_t retry_at_ns;	      /* no call before */
	char why[PEER_WHY_BYTES];     /* the last failure, for people */
	struct log_limit news;	      /* of its coming and going */
	struct timer retry;
	struct list offers; /* struct own_offer: of ends that wait for it */
	struct list claims; /* struct peer_claim: its offers to us */
	uint32_t n_claims;
};

/* An offer of ours: an end that waits for the other host. */
struct own_offer {
	struct list link; /* host->offers */
	struct peer_host *host;
	struct end *end;
	uint64_t id;
	uint64_t sent_to; /* serial of the host that has it; 0: none */
	uint64_t answers; /* as it was sent first: it never changes, whoever has a copy */
};

/* An offer of a peer, whose other end has not come yet. */
struct peer_claim {
	struct list link; /* host->claims */
	struct peer_host *host;
	struct tcp_name name; /* as our end would be called */
	struct peer_offer offer;
	struct timer timer;
};

struct peer_session {
	struct peers *peers;
	struct list link; /* peers->sessions */
	struct source source;
	struct tls *tls;
	enum peer_phase phase;
	bool dialled;	/* by us */
	bool pending;	/* counted among those that have not proved themselves */
	bool announced; /* to the user of peers.h */
	bool paused, wants_write;
	struct peer_host *host; /* dialled: from the start; else from its hello on */
	const struct peer_rule *rule;
	struct peer_address local, remote; /* of the TCP connection */
	struct peer_hello hello;	   /* the other's */
	uint64_t serial, up_ns, heard_ns;  /* up_ns: when it came UP */
	uint64_t rdma_told;		   /* version of our list of RDMA addresses that it has */
	struct task doom;
	struct timer timer;  /* the limit of a phase; UP: the next look at the silence */
	struct timer resume; /* reading goes on */
	struct bucket messages;
	uint8_t in[2 * PEER_FRAME_MAX];
	size_t in_len;
	uint8_t *out; /* to be sent: [out_at, out_len) */
	size_t out_at, out_len, out_room;
	struct peer_counts counts;
};

struct peers {
	struct server *server;
	struct peers_user user;
	uint8_t uuid[PEER_UUID_BYTES];
	uint64_t started_ns;
	struct tls_store *tls;
	struct tls_key key;			  /* shared by all; len 0: none */
	struct tls_key rule_keys[PEER_RULES_MAX]; /* of entries with one of their own */
	const char *key_path;			  /* of the key for all; NULL: none is wanted */
	bool wants_certs, has_certs;		  /* has: they can be used, too */

	struct peer_address listen; /* family 0: all */
	struct source listener;	    /* fd -1: can't listen now */
	struct timer relisten;
	bool listen_told; /* that it can't is in the log */

	struct list sessions;
	uint32_t n_sessions, n_pending, n_dials;
	uint64_t serial, offer_id;

	struct map by_key; /* struct peer_host */
	struct list hosts;
	struct map by_name; /* struct peer_claim */
	struct map by_id;   /* struct own_offer */

	struct peer_rdma rdma[PEER_RDMA_MAX]; /* our addresses, as told in hellos */
	uint16_t n_rdma;
	uint64_t rdma_version;

	struct log_limit complaints[PEER_COMPLAINTS];
	uint64_t complained[PEER_COMPLAINTS];
	struct peer_counts gone; /* of sessions that are no more */
	uint64_t dials, accepted, crossed;
};

/* peers.c */

/* Log, rate-limited per kind, that @who did what @format says. */
__attribute__((format(printf, 4, 5))) void peers_complain(struct peers *peers,
							  enum peer_complaint kind,
							  const struct peer_address *who,
							  const char *format, ...);

/* Look at our RDMA addresses again. */
void peers_look_at_rdma(struct peers *peers);

/* peer_keys.c */

/* Whether systemd has passed a key. */
bool peers_have_credential(void);

/* Read keys and certificates. False: they can't be had, and that is in the log. */
bool peers_keys_load(struct peers *peers);

/* How sessions with the owner of @rule (NULL: none) at @remote are secured; false: not at all. */
bool peers_way(const struct peers *peers, const struct peer_rule *rule, enum tls_way *ret_way,
	       const struct tls_key **ret_key);

/* peer_session.c */

/* Serve the connection @fd (taken over) from @remote, of @rule, or close it. */
void peer_session_accept(struct peers *peers, int fd, const struct peer_address *local,
			 const struct peer_address *remote);

/* Dial @host. 0; -errno: it failed at once, nothing is left. */
int peer_session_dial(struct peer_host *host);

/* End @session: @why (0: nothing) is told the other end if it has come far enough to understand. */
void peer_session_bye(struct peer_session *session, enum peer_bye why);

/* End @session because the peer did what @format says. */
__attribute__((format(printf, 4, 5))) void peer_session_cut(struct peer_session *session,
							    enum peer_complaint kind,
							    enum peer_bye why, const char *format,
							    ...);

/* As peer_session_bye(), for one that is UP: what the peer has sent before it hears of it counts.
 */
void peer_session_leave(struct peer_session *session, enum peer_bye why);

/* It has ended by itself or by the network: no fault, but news if it was up. @why: for people. */
void peer_session_lost(struct peer_session *session, const char *why);

/* End it without a word. */
void peer_session_doom(struct peer_session *session);

/* Add @counts to @to, and empty it. */
void peer_counts_move(struct peer_counts *to, struct peer_counts *counts);

/* It has shown who it is, or goes: it is not among those on their way any more. */
void peer_session_proven(struct peer_session *session);

/* Free it at once. */
void peer_session_free(struct peer_session *session);

/* Our hello, with the addresses of now. */
void peer_session_send_hello(struct peer_session *session);

/* peer_io.c: bytes in and out. */

void peer_io_watch(struct peer_session *session);
void peer_io_flush(struct peer_session *session);
void peer_io_read(struct peer_session *session);
void on_peer_resume(struct timer *timer);

/* peer_dispatch.c */

/* Act on @msg, which is well formed. */
void peer_dispatch(struct peer_session *session, const struct peer_msg *msg);

/* peer_host.c */

/* The host that a connection @name goes to; NULL: none that may be talked to, or no room. */
struct peer_host *peer_host_for(struct peers *peers, const struct tcp_name *name);

/* The host of a session from @local to @remote, made if need be. NULL without memory or room. */
struct peer_host *peer_host_get(struct peers *peers, const struct peer_address *local,
				const struct peer_address *remote);

/* Somebody waits for it: dial unless there is a session, or it is too early. */
void peer_host_want(struct peer_host *host);

/* A call failed, or its session was lost: leave it in peace for a while. */
void peer_host_failed(struct peer_host *host, const char *why);

/* A session with it is up. */
void peer_host_reached(struct peer_host *host, struct peer_session *session);

void peer_host_free(struct peer_host *host);

/* "01234567-89ab-…", for answers. In peers_json.c. */
json_t *peers_uuid_json(const uint8_t uuid[PEER_UUID_BYTES]);

/* Conversions. */
struct peer_address peer_address_of(const struct tcp_end *end);
struct tcp_end peer_address_to_end(const struct peer_address *address);

/* peer_offer.c */

/* @session is @host's now: tell it of all offers. */
void peer_offers_send(struct peer_host *host);
/* It has no session any more: forget what it offered. */
void peer_offers_drop_claims(struct peer_host *host);
void peer_offer_received(struct peer_session *session, const struct peer_offer *offer);
void peer_offer_withdrawn(struct peer_session *session, uint64_t id);
/* False: it is about no offer that waits. */
bool peer_offer_refused(struct peer_session *session, const struct peer_refuse *refuse);
void peer_offer_refuse(struct peer_session *session, uint64_t id, enum reason reason);
/* All of ours are forgotten: the daemon ends. */
void peer_offers_forget(struct peer_host *host);

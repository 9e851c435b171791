/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/reason.h"

/*
 * The control messages between a client (or the tool) and its daemon, over a SEQPACKET socket:
 * one message is one packet, of a length fixed by its type, with a number of descriptors fixed by
 * its type. Little-endian. A header of 16 bytes (type u16, length of the whole message u16,
 * reserved u32 = 0, token u64), then the fields in the order of the structs below.
 *
 * Token: chosen by the client, names one connection within its session (or one request of the
 * tool); the daemon's messages about it carry it back. 0 names the session as a whole.
 *
 *   client                       daemon
 *   HELLO + executable     ->
 *                          <-    WELCOME + notice page, kick (or REFUSED, token 0)
 *   REGISTER + TCP fd      ->
 *                          <-    REGISTERED  held = 1        (or REFUSED)
 *                          <-    PAIR + own half, bells      (or REFUSED: nobody came)
 *   MAPPED                 ->                                the half is sealed now
 *                          <-    PEER + the peer's half      (or UNPAIR: it left before that)
 *   … the lane runs, no message needed …
 *   DRAINED                ->                                both ends: REGISTER again is possible
 *   CLOSED                 ->                                the token is free
 *
 * The kick is the bell of the session (os/bell.h), rung for whatever must not wait until the client
 * calls: a message about a lane that may have sleepers, and the death of any process that holds an
 * end of a lane with this client. It hangs up when the session or the daemon is gone.
 *
 * Any of PAIR, REFUSED and REGISTERED with held = 0 means that the daemon has closed its
 * duplicate of the TCP socket. CANCEL is answered by REFUSED (cancelled), or had crossed a PAIR
 * and is then answered by UNPAIR, which needs no answer: the lane is forgotten. An end cancels only
 * while it has not said ready in its half; the other end may hold both halves by then, and is told.
 * DEMOTE may come at any time after PAIR. Messages may cross: one about a token or an epoch that
 * is gone is ignored.
 *
 * After the daemon's death its successor learns of a running lane by ADOPT (answered by REGISTERED
 * with held = 0); the lane itself never stopped. A side that holds the lane by fork adopts it the
 * same way. If the successor finds that the other end is not in that epoch, because it never had
 * both halves or has drained them, it sends UNPAIR: the epoch is dropped at once if the peer's half
 * never said ready, else it ends as its words say; then comes DRAINED, as always.
 *
 * A lane between hosts (CTL_LANE_REMOTE) needs its daemon: the peer's half is the daemon's own, the
 * peer's bell wakes the daemon, and it keeps a duplicate of the TCP socket while the lane lives.
 * ADOPT gives a successor all of it: TCP socket, own half, peer's half, own bell, peer's bell; it
 * is answered by REGISTERED with held = 1.
 */

#define CTL_VERSION 2u
#define CTL_HEADER_BYTES 16u
#define CTL_MAX_BYTES 128u /* no message is longer; a packet that is, is refused unread */
#define CTL_MAX_FDS 5u

enum ctl_type {
	/* From the client. */
	CTL_HELLO = 1,
	CTL_REGISTER,
	CTL_CANCEL,
	CTL_MAPPED,
	CTL_DRAINED,
	CTL_STATE,
	CTL_ADOPT,
	CTL_CLOSED,
	CTL_QUERY,
	CTL_DEMOTE_REQ,
	/* From the daemon. */
	CTL_WELCOME = 33,
	CTL_REGISTERED,
	CTL_REFUSED,
	CTL_PAIR,
	CTL_PEER,
	CTL_UNPAIR,
	CTL_DEMOTE,
	CTL_ANSWER,
	CTL_TYPE_END,
};

enum ctl_side { CTL_FROM_CLIENT, CTL_FROM_DAEMON };

/* What `shunt ss` shows of a connection. */
enum ctl_state {
	CTL_STATE_TCP,	      /* on TCP, may be promoted (again) */
	CTL_STATE_REGISTERED, /* waits for the other end */
	CTL_STATE_MAPPED,     /* both halves in hand, no direction on the ring yet */
	CTL_STATE_RING,	      /* at least one direction on the ring */
	CTL_STATE_LEAVING,    /* on the way back to TCP */
	CTL_STATE_PINNED,     /* on TCP for good */
	CTL_STATE_RESET,      /* was reset by Shunt */
	CTL_STATE_COUNT,
};

enum ctl_query {
	CTL_QUERY_SS,
	CTL_QUERY_WHY,
	CTL_QUERY_STATS,
	CTL_QUERY_STATUS,
	CTL_QUERY_DEVICES,
	CTL_QUERY_PEERS,
	CTL_QUERY_LINKS,
	CTL_QUERY_RULES,
	CTL_QUERY_COUNT,
};

/* HELLO flags: this session asks and demotes; it registers nothing. */
#define CTL_HELLO_TOOL 1u

/* PAIR and ADOPT flags: the other end is on another host, and the peer's half is the daemon's. */
#define CTL_LANE_REMOTE 1u

/* Totals of one end since the connection began; they never shrink. */
struct ctl_totals {
	uint64_t tcp_tx, tcp_rx;   /* bytes over TCP */
	uint64_t lane_tx, lane_rx; /* bytes over lanes */
	uint64_t rx_changes;	   /* lane changes of the receive direction that are complete */
};

/*
 * With it comes a descriptor (O_PATH) of the program's executable, if there is one: by it the
 * daemon tells programs apart that it may not look at.
 */
struct ctl_hello {
	uint32_t version;
	uint32_t flags;
};

struct ctl_register {
	int32_t fd;	/* the number that the program sees, >= 0 */
	uint32_t epoch; /* lowest epoch that this end accepts next, >= 1 */
	uint32_t flags; /* 0 */
};

struct ctl_epoch { /* MAPPED, PEER */
	uint32_t epoch;
};

struct ctl_drained {
	uint32_t epoch;
	uint32_t reason;
	struct ctl_totals totals;
};

struct ctl_state_msg {
	uint32_t state;
	uint32_t reason;
	int32_t fd;
	uint32_t epoch; /* 0: none yet */
	struct ctl_totals totals;
};

struct ctl_adopt {
	int32_t fd;
	uint32_t epoch;
	uint32_t flags; /* CTL_LANE_REMOTE, or 0 */
	struct ctl_totals totals;
};

struct ctl_closed {
	uint32_t reason;
	uint32_t epochs;    /* lanes that this connection had */
	uint32_t demotions; /* of those, ended before the connection did */
	struct ctl_totals totals;
};

struct ctl_query_msg {
	uint32_t kind;
	int32_t pid; /* -1: any */
	int32_t fd;  /* -1: any */
};

struct ctl_demote_req {
	int32_t pid;
	int32_t fd; /* -1: all of the process */
};

struct ctl_welcome {
	uint32_t version;
	uint32_t slot; /* this session's slot in the notice page */
	uint32_t spin_us;
	uint32_t promote_after;	   /* operations before a registration */
	uint32_t demote_wait_ms;   /* limit of a hand-over */
	uint32_t resume_timeout_s; /* of a lane between hosts that is lost, or has no daemon */
	uint32_t backoff_min_ms, backoff_max_ms;
	uint64_t ring_bytes;
};

struct ctl_registered {
	uint32_t epoch;
	uint32_t held; /* 1: the daemon keeps a duplicate of the socket until PAIR or REFUSED */
};

struct ctl_refused {
	uint32_t reason;
	uint32_t retry_ms; /* ask again no earlier; 0: never again */
};

struct ctl_pair {
	uint32_t epoch; /* of the lane, >= what either end asked for */
	uint32_t role;	/* 0 or 1, the other end has the other */
	uint32_t flags; /* CTL_LANE_REMOTE, or 0 */
	uint64_t own_ring_bytes, peer_ring_bytes;
};

struct ctl_unpair {
	uint32_t epoch;
	uint32_t reason;
};

struct ctl_demote {
	uint32_t reason;
};

struct ctl_answer {
	int32_t result; /* 0, or -errno */
	uint32_t count; /* connections found, or asked to demote */
};

struct ctl_msg {
	enum ctl_type type;
	uint64_t token;
	union {
		struct ctl_hello hello;
		struct ctl_register reg;
		struct ctl_epoch mapped;
		struct ctl_drained drained;
		struct ctl_state_msg state;
		struct ctl_adopt adopt;
		struct ctl_closed closed;
		struct ctl_query_msg query;
		struct ctl_demote_req demote_req;
		struct ctl_welcome welcome;
		struct ctl_registered registered;
		struct ctl_refused refused;
		struct ctl_pair pair;
		struct ctl_epoch peer;
		struct ctl_unpair unpair;
		struct ctl_demote demote;
		struct ctl_answer answer;
	} u;
};

/* Verdicts of ctl_decode(): what is wrong with a packet. */
enum ctl_verdict {
	CTL_OK,
	CTL_BAD_LENGTH,	  /* shorter than a header, or not as long as it says or its type is */
	CTL_BAD_TYPE,	  /* unknown, or one that only the other side may send */
	CTL_BAD_RESERVED, /* reserved bits are set */
	CTL_BAD_VALUE,	  /* a field is out of its range */
	CTL_BAD_FDS,	  /* too many or too few descriptors came with it */
	CTL_VERDICT_COUNT,
};

/*
 * Read one packet.
 * @side: who sent it. @bytes, @len: the packet, any bytes and any length. @fd_count: descriptors
 * that came with it (they stay the caller's). @ret_msg: set only if the result is CTL_OK.
 * Returns a verdict. Pure; any context; no memory beyond @bytes[0, @len) is read.
 */
enum ctl_verdict ctl_decode(enum ctl_side side, const void *bytes, size_t len, size_t fd_count,
			    struct ctl_msg *ret_msg);

/*
 * Write @msg into @bytes.
 * @msg: of a known type, with every field in its range (asserted: values are the caller's own).
 * @bytes: room for CTL_MAX_BYTES. Returns the length of the packet. Pure; any context.
 */
size_t ctl_encode(const struct ctl_msg *msg, void *bytes);

/*
 * Whether every field of @msg is in its range, so that ctl_encode() accepts it.
 * @msg: any. Pure; never fails.
 */
bool ctl_msg_ok(const struct ctl_msg *msg);

/* Least and greatest number of descriptors that go with @type; 0 for an unknown type. Pure. */
size_t ctl_min_fds(enum ctl_type type);
size_t ctl_max_fds(enum ctl_type type);

/* Names for logs and JSON, lower case, static; "invalid" for a value outside the enum. Pure. */
const char *ctl_type_name(enum ctl_type type);
const char *ctl_state_name(enum ctl_state state);
const char *ctl_verdict_name(enum ctl_verdict verdict);

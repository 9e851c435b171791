/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/reason.h"

/*
 * What two daemons tell each other over their session, a stream of bytes (TLS over TCP). Big-endian
 * frames: a header of 8 bytes (length of the whole frame u32, type u16, zero u16), then the fields
 * of the type in the order of the structs below. HELLO alone has a list at its end, so its length
 * varies; each other type has one length.
 *
 *   both at once    HELLO                who I am, and where my RDMA devices are; again when these
 *                                        change
 *                   OFFER                a connection to you has registered here and waits
 *                   WITHDRAW             it waits no more
 *   both ends wait  MATCH                my half of the lane for these two offers
 *                   REFUSE               nothing comes of your offer, and why
 *   links           NONCE_ASK -> NONCE   let me dial you over RDMA: this is the password
 *   a lost lane     LOST                 how far I completed what you sent, and how far did you?
 *                   REPLAYED             I have noted that: the rest comes over TCP
 *   the session     PING -> PONG, BYE
 *
 * Both daemons send an offer for each end that waits for the other host, whether the other's offer
 * is there already or not: each judges its own end, read now, against the other's figures, read
 * before, and both must agree. A daemon that has both sends MATCH or REFUSE.
 */

#define PEER_VERSION 1u
#define PEER_MAGIC 0x53687064u /* "Shpd" */
#define PEER_HEADER_BYTES 8u
/* No frame is longer. Chosen: a HELLO with all addresses fits. */
#define PEER_FRAME_MAX 2048u
#define PEER_UUID_BYTES 16u
#define PEER_SOFTWARE_BYTES 32u
#define PEER_NONCE_BYTES 16u
/* RDMA addresses of one host. Chosen: eight devices of two ports with IPv4 and IPv6. */
#define PEER_RDMA_MAX 32u
#define PEER_DEVICE_BYTES 16u

enum peer_type {
	PEER_HELLO = 1,
	PEER_OFFER,
	PEER_WITHDRAW,
	PEER_MATCH,
	PEER_REFUSE,
	PEER_NONCE_ASK,
	PEER_NONCE,
	PEER_LOST,
	PEER_REPLAYED,
	PEER_PING,
	PEER_PONG,
	PEER_BYE,
	PEER_TYPE_END,
};

/* Why a session ends; numbers go over the wire, new ones are added at the end. */
enum peer_bye {
	PEER_BYE_SHUTDOWN = 1, /* this daemon ends */
	PEER_BYE_CROSSED,      /* both dialled at once: the other session stays */
	PEER_BYE_REPLACED,     /* a newer session between the same two took its place */
	PEER_BYE_SELF,	       /* you are me */
	PEER_BYE_VERSION,      /* we speak another one */
	PEER_BYE_PROTOCOL,     /* you broke the rules */
	PEER_BYE_BUSY,	       /* too many sessions, messages or bytes */
	PEER_BYE_NOT_ALLOWED,  /* you may not speak for this address or with this UUID */
	PEER_BYE_END,
};

enum peer_transport {
	PEER_TRANSPORT_IB = 1,
	PEER_TRANSPORT_ROCE,
	PEER_TRANSPORT_IWARP,
	PEER_TRANSPORT_END,
};

/* An IP address and port; family 4 or 6, or 0: none, then all is zero. IPv4: first four bytes. */
struct peer_address {
	uint8_t family;
	uint8_t addr[16];
	uint16_t port;
};

/* One address of an RDMA port. */
struct peer_rdma {
	uint8_t transport; /* enum peer_transport */
	uint8_t gid_type;  /* RoCE: 1 or 2; else 0 */
	uint8_t prefix;	   /* bits of the address that name its subnet; 0: unknown */
	uint8_t gid[16];
	struct peer_address address;	/* its port: where links are listened for; 0: nowhere */
	char device[PEER_DEVICE_BYTES]; /* for people: printable, ends with a zero */
};

struct peer_hello {
	uint32_t magic;
	uint16_t version;
	uint8_t uuid[PEER_UUID_BYTES];	    /* of this run of the daemon; not all zero */
	char software[PEER_SOFTWARE_BYTES]; /* for people: printable, ends with a zero */
	uint16_t n_rdma;
	struct peer_rdma rdma[PEER_RDMA_MAX];
};

struct peer_offer {
	uint64_t id;		    /* chosen by the sender, not 0, names the offer from now on */
	struct peer_address local;  /* of the connection, as the sender sees it */
	struct peer_address remote; /* of the same family */
	uint64_t acked_bytes, received_bytes, written_bytes; /* TCP payload, as in os/tcp.h */
	uint8_t sent_syn;				     /* 0 or 1 */
	uint64_t ring_bytes;				     /* of the half that it would make */
	uint32_t epoch;					     /* the lowest that this end accepts */
	/* The receiver's offer that was here first, so that the sender sends MATCH at once; 0:
	 * none, as far as the sender knew when it made this offer. */
	uint64_t answers;
};

struct peer_withdraw {
	uint64_t id;
};

/* Connection tokens on links: a place, and which of its tenants. */
struct peer_token {
	uint32_t index, generation;
};

struct peer_match {
	uint64_t own_id, your_id; /* the two offers: the sender's, the receiver's */
	struct peer_token token;  /* what the receiver puts into messages about this lane */
	uint32_t epoch;
	uint32_t rkey;
	uint64_t address, ring_bytes; /* where the receiver's bytes go */
	uint64_t link;		      /* the sender's name of the link, as its hello gave it */
};

struct peer_refuse {
	uint64_t your_id;
	uint16_t reason; /* enum reason, not REASON_NONE */
};

struct peer_nonce_ask {
	uint64_t id;	   /* chosen by the sender; the answer repeats it */
	uint16_t from, to; /* places in the sender's and in the receiver's list of addresses */
};

struct peer_nonce {
	uint64_t id;
	uint16_t reason;		 /* enum reason: REASON_NONE, or why not */
	uint8_t nonce[PEER_NONCE_BYTES]; /* good for one dial; zero with a reason */
};

/* An offset that is not certain yet, or is of no interest any more. */
#define PEER_OFFSET_NONE UINT64_MAX

/*
 * LOST, and REPLAYED, which repeats what it has noted. The daemons that made the lane may both be
 * dead, so it is named by what outlives them: the connection, and what stands in its halves.
 */
struct peer_lane_at {
	uint64_t id; /* of the lane: the offer of the daemon that had the lower UUID */
	struct peer_address local;  /* of the connection, as the sender sees it */
	struct peer_address remote; /* of the same family */
	uint32_t epoch;
	/* LOST: completed to here, and the rest is wanted over TCP; or not certain yet. REPLAYED:
	 * this was noted, or the sender's client is through with the lane and nothing is of
	 * interest any more. */
	uint64_t offset;
};

struct peer_ping { /* PING, PONG */
	uint64_t serial;
};

struct peer_goodbye {
	uint16_t why; /* enum peer_bye */
};

struct peer_msg {
	enum peer_type type;
	union {
		struct peer_hello hello;
		struct peer_offer offer;
		struct peer_withdraw withdraw;
		struct peer_match match;
		struct peer_refuse refuse;
		struct peer_nonce_ask nonce_ask;
		struct peer_nonce nonce;
		struct peer_lane_at lane_at;
		struct peer_ping ping;
		struct peer_goodbye bye;
	} u;
};

/* Verdicts of peer_decode(). */
enum peer_verdict {
	PEER_OK,
	PEER_MORE,	   /* the frame is not complete yet */
	PEER_BAD_LENGTH,   /* longer than any frame, or not as long as its type is */
	PEER_BAD_TYPE,	   /* unknown */
	PEER_BAD_RESERVED, /* what must be zero is not */
	PEER_BAD_VALUE,	   /* a field is out of its range */
	PEER_BAD_VERSION,  /* a HELLO of another magic or version */
	PEER_VERDICT_COUNT,
};

/*
 * Read the first frame of @bytes[0, @len), which may be anything.
 * @ret_msg, @ret_used: the message and how many bytes it took; set only with PEER_OK.
 * PEER_MORE: ask again with more bytes; never beyond PEER_FRAME_MAX of them. Any other verdict
 * ends the stream: where the next frame begins is not known. Pure; reads nothing beyond @len.
 */
enum peer_verdict peer_decode(const void *bytes, size_t len, struct peer_msg *ret_msg,
			      size_t *ret_used);

/*
 * Write @msg as a frame into @bytes, which has room for PEER_FRAME_MAX; its length is returned.
 * @msg: of a known type with every field in its range (asserted: values are the caller's own).
 */
size_t peer_encode(const struct peer_msg *msg, void *bytes);

/* Whether every field of @msg is in its range, so that peer_encode() accepts it. Pure. */
bool peer_msg_ok(const struct peer_msg *msg);

/* Names for logs and JSON, static; "invalid" for a value outside the enum. Pure. */
const char *peer_type_name(enum peer_type type);
const char *peer_verdict_name(enum peer_verdict verdict);
const char *peer_transport_name(enum peer_transport transport);
/* One sentence for people, static. */
const char *peer_bye_text(enum peer_bye why);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * What two daemons tell each other in the private data of the connection manager while a link is
 * made. Big-endian; all three messages have the first eight bytes in common:
 *
 *	0	magic "Shlk" (u32)
 *	4	version (u16)
 *	6	kind (u16)
 *	request, reply
 *	8	nonce (16 bytes): that of the dial, which the peer session gave; the reply repeats
 *it 24	receives posted: credits at the start (u32) 28	generation of the sender's link (u32), for
 *its logs and the peer's 32	reserved, zero (24 bytes) rejection 8	why (u32, enum link_reject)
 *	12	reserved, zero (44 bytes)
 *
 * A request has room for 56 bytes (92 less 36 of librdmacm's own, InfiniBand), so all have that
 * size. Transports may pad with zeros: what is beyond is not looked at.
 */

#define LINK_HELLO_BYTES 56u
#define LINK_NONCE_BYTES 16u
#define LINK_HELLO_VERSION 1u

enum link_kind {
	LINK_REQUEST = 1,
	LINK_REPLY,
	LINK_REJECTION,
	LINK_KIND_END,
};

/* Why a request is rejected; numbers go over the wire, new ones are added at the end. */
enum link_reject {
	LINK_REJECT_VERSION = 1, /* we speak another one */
	LINK_REJECT_MALFORMED,	 /* no request of ours */
	LINK_REJECT_NONCE,	 /* nobody here expects it */
	LINK_REJECT_BUSY,	 /* too many requests are pending */
	LINK_REJECT_NO_QP,	 /* no queue pair is to be had now */
	LINK_REJECT_CROSSED,	 /* the dial in the other direction stays */
	LINK_REJECT_GOING,	 /* the device or the daemon ends */
	LINK_REJECT_END,
};

struct link_hello {
	uint16_t version;
	enum link_kind kind;
	uint8_t nonce[LINK_NONCE_BYTES]; /* request, reply */
	uint32_t credits, generation;
	enum link_reject reject; /* rejection */
};

/* Verdicts of link_hello_decode(). */
enum link_verdict {
	LINK_HELLO_OK,
	LINK_HELLO_FOREIGN, /* too short, another magic, an unknown kind, a value out of range */
	LINK_HELLO_VERSION_BAD,
};

/* Write @hello; every field in its range. Pure. */
void link_hello_encode(const struct link_hello *hello, uint8_t ret_bytes[LINK_HELLO_BYTES]);

/* Read @bytes[0, @len), which may be anything. @ret_hello: set with LINK_HELLO_OK. Pure. */
enum link_verdict link_hello_decode(const void *bytes, size_t len, struct link_hello *ret_hello);

/* One sentence for people; static. */
const char *link_reject_text(enum link_reject reject);

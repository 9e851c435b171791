/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * A daemon that means harm: a real one, with this library preloaded, which does once what a test
 * orders (../hostile.py) and leaves it an honest daemon for the rest. So whatever a good peer has,
 * a key, sessions, links, lanes, the hostile one has as well.
 *
 *	HOSTILE_FILE	a file of sizeof(struct hostile_file), zero, that both map
 *	HOSTILE_PROGRAM	name of the program that is to be hostile; others are left alone
 */

#define HOSTILE_PATCHES 8u
#define HOSTILE_BYTES (1u << 20)
#define HOSTILE_PRIVATE_BYTES 256u

enum hostile_kind {
	HOSTILE_NOTHING,
	HOSTILE_SESSION, /* say bytes[0, len), repeated, behind the next word of a session */
	HOSTILE_SEND,	 /* change the next message of this type on a link, and send it again */
	HOSTILE_WRITE,	 /* change the next RDMA WRITE: patch 0 its address, patch 1 its rkey */
	HOSTILE_FRAME,	 /* change the next message of this type that begins what a session sends */
	HOSTILE_CONNECT, /* change the private data of the next dial, or keep it back */
};

/* Change @bytes big-endian bytes at @at: set them, or add to them. */
struct hostile_patch {
	uint32_t at, bytes;
	uint64_t value;
	uint32_t is_added, pad;
};

struct hostile_file {
	_Atomic uint32_t given, done; /* orders: the test counts one up, the library follows */
	uint32_t kind;
	uint32_t target; /* HOSTILE_SESSION: IPv4 address of the other end, network order; 0: any */
	uint32_t type;	 /* HOSTILE_SEND: enum link_msg_type; 0: any. HOSTILE_FRAME: enum peer_type.
			  * HOSTILE_CONNECT: not 0: it fails, and what it would have said is kept */
	uint32_t repeat; /* so many times more */
	uint32_t new_len; /* of what is sent; 0: as it is */
	uint32_t n_patches;
	struct hostile_patch patches[HOSTILE_PATCHES];
	uint32_t private_len, len;
	uint8_t private_data[HOSTILE_PRIVATE_BYTES]; /* of the last dial */
	uint8_t bytes[HOSTILE_BYTES];
};

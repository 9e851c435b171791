/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * What processes say to each other: this header, then `payload` bytes. One build on one machine, so
 * the layout is that of the compiler; it is checked all the same, since a socket in a folder is
 * open to anyone.
 */
#define WIRE_MAGIC 0x56444231u /* "VDB1": chosen */

/* The most that one message carries: what max_msg_sz says. */
#define WIRE_PAYLOAD_MAX (16u << 20)

enum wire_type {
	WIRE_REQUEST = 1, /* a work request of a QP */
	WIRE_ACK,	  /* its answer */
	WIRE_TERMINATE,	  /* iWARP: the stream is broken */
	WIRE_CM,	  /* for the CM */
};

/* Of an answer. */
enum wire_status {
	WIRE_OK,
	WIRE_RNR,      /* no receive is posted */
	WIRE_ACCESS,   /* rkey, bounds or rights */
	WIRE_INVALID,  /* a message that the receive can't take */
	WIRE_OPERATION /* the responder itself failed */
};

struct wire {
	uint32_t magic, type;
	uint64_t dst_guid, src_guid;
	uint32_t dst_qpn, src_qpn;
	uint32_t psn, status;
	uint32_t opcode, imm;
	uint64_t remote_addr;
	uint32_t rkey, length;
	uint32_t solicited, rnr_timer;
	uint32_t payload, kind; /* kind: of a CM message */
};

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/lane.h"

/*
 * The client of one end of a lane, for tests: the library's own lane switch on a half, and a stream
 * of bytes that both ends know. One thread; nothing here blocks.
 */

enum stub_role {
	STUB_STREAM, /* sends up to the target, as fast as it can */
	STUB_PING,   /* sends a message when the last one has come back */
	STUB_ECHO,   /* sends as much as it has received */
	STUB_MUTE,   /* receives only */
};

struct stub {
	struct lane lane;
	struct lane_state state;
	int own_bell;	/* rung for us */
	int their_bell; /* rung by us, for the daemon */
	uint8_t seed_out, seed_in;
	enum stub_role role;
	uint64_t target;    /* bytes to send */
	uint32_t unit;	    /* of one message; 0: as much as there is room for */
	bool is_mixed;	    /* messages of 1 to 3000 bytes, each of another size */
	bool is_gentle;	    /* one operation per step, which leaves others their turn */
	bool reads_nothing; /* for now */
	uint64_t sent, received;
	bool tx_ended, rx_ended, has_failed;
	struct wake_mark mark;
	/* May be NULL. In front of a commit, and when it is done and the bell was rung, if one was
	 * due.
	 */
	void (*on_send)(struct stub *stub, bool is_done);
};

/* Begin @epoch: @stub->lane has its halves, the rest is zero. */
void stub_begin(struct stub *stub, uint32_t epoch);

/* Do what can be done. Whether that was anything. Byte errors fail the case. */
bool stub_step(struct stub *stub);

/* Arm; whether it may sleep on its bell now. */
bool stub_may_sleep(struct stub *stub);

/* No byte follows: tx_ended is set once the end stands in the half. */
void stub_close(struct stub *stub);

/* The byte at @offset of a stream with @seed. */
uint8_t stub_byte(uint8_t seed, uint64_t offset);

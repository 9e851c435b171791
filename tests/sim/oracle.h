/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What must be true after every step, told from the ground truth that no library can see.
 *
 * The stream: byte n of what a side sends is a fixed function of n. How much was sent and received
 * is read off the words and the kernel's counters, never kept, so that a death in the middle of a
 * call leaves no doubt. The protocol: each change of a word is compared with what makes it lawful.
 */

void oracle_init(void);

/* --- the stream ------------------------------------------------------------------------------- */

/* Bytes that @side has sent: on TCP, and produced on the rings of all epochs. */
uint64_t oracle_sent(unsigned int side);
/* Bytes that @side has received. */
uint64_t oracle_got(unsigned int side);
/* @side is about to write new bytes of the stream to TCP. */
void oracle_tcp_send(unsigned int side);
/* The bytes that @side sends from stream offset @at on; lowers *@len to how many there are. */
const uint8_t *oracle_bytes(unsigned int side, uint64_t at, size_t *len);
/* @side takes these bytes next. */
void oracle_received(unsigned int side, const void *bytes, size_t len);
/* … and given the room back, or kept it for now. */
void oracle_consumed(unsigned int side);
/* A receive of @side was told of the end: 0 for EOF, or -errno. */
void oracle_end_told(unsigned int side, int rc);
/* A send of @side failed. */
void oracle_send_failed(unsigned int side, int rc);

/* --- events that excuse errors ---------------------------------------------------------------- */

void oracle_reset_sent(void);
/* A program did something after which the other end may see errors. */
void oracle_excuse(void);
/* @side was killed, its last process just now. */
void oracle_killed(unsigned int side);
/* @side shut its direction, or closed, of its own will. */
void oracle_shut(unsigned int side);
/* A lane call of @side gave -EBADMSG. */
void oracle_broken(unsigned int side);

/* --- the protocol ----------------------------------------------------------------------------- */

/* @side is about to begin the epoch that its mail brings. */
void oracle_begin(unsigned int side);
/* A word may have been stored since the last look. */
void oracle_touched(void);
/* Compare, if so. */
void oracle_look(void);
/* Nothing will happen but by the will of a program: nobody may be blocked without a reason. */
void oracle_quiet(void);
/* The run is over. */
void oracle_end(void);

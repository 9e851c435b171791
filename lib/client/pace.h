/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The pace of a reader in a stream of small messages.
 *
 * A reader that keeps up with its writer takes the writer's cache lines away after every message,
 * and the two spend their time passing lines to and fro: about 60 ns a message where 25 would do.
 * So a reader that has found little again and again, each time at once and without having sent
 * anything itself, lets some messages gather before it looks for more. An answer to a request is
 * never waited for, since who asks has sent; nor is a stream slower than a message a microsecond.
 */
struct pace {
	uint64_t sent; /* what this side had produced at the last look */
	uint32_t run;  /* looks in a row that found little */
};

/* Let messages gather, if that pays. Before a look at the ring by a reader that would wait; any
 * thread, no lock. */
void pace_wait(const struct pace *pace);

/*
 * A look found @bytes, of which some may be left. @sent: what this side has produced so far;
 * @quick: the last wait, if any, was over as soon as it began. Receive lock.
 */
void pace_note(struct pace *pace, uint64_t bytes, uint64_t sent, bool quick);

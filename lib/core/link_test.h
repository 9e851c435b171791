/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the peer of a link is there: the judge of life on every transport, for some report
 * nothing when a peer is gone. A link on which nothing was heard for a while asks; if the deadline
 * passes and still nothing was heard, it is dead. Anything that the peer sends shows that it lives,
 * so a link in use asks nothing. Pure; times are the caller's, monotonic nanoseconds.
 */

/* Silence after which to ask, and how long to wait for an answer. Chosen: a dead link is found
 * within 2 s, which is what a program may see as a stall; one question per second costs nothing. */
#define LINK_TEST_IDLE_NS 1000000000ull
#define LINK_TEST_WAIT_NS 1000000000ull

struct link_test {
	uint64_t heard_ns; /* when something was heard last */
	uint64_t asked_ns; /* when the question under way was asked */
	uint32_t number;   /* of it, or the last one */
	bool is_asking;
};

enum link_test_result {
	LINK_TEST_FINE,
	LINK_TEST_ASK, /* send TEST_ASK with test->number */
	LINK_TEST_DEAD,
};

/* Begin, with the link up at @now_ns. */
void link_test_init(struct link_test *test, uint64_t now_ns);

/* A message has come. */
void link_test_heard(struct link_test *test, uint64_t now_ns);

/* An answer has come. False: to a question that was not asked, which is a breach. */
bool link_test_answered(struct link_test *test, uint32_t number);

/* Time has passed. @ret_next_ns: when to look again, at the latest; not set with DEAD. */
enum link_test_result link_test_tick(struct link_test *test, uint64_t now_ns,
				     uint64_t *ret_next_ns);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Why a connection is not on a ring, left it, or was reset: one closed list for the library, the
 * daemon and the tool. The numbers go over the control socket; new codes are added at the end.
 */
enum reason {
	REASON_NONE,
	/* The connection is not one that Shunt may touch. */
	REASON_NOT_ELIGIBLE,
	REASON_NOT_TCP,
	REASON_NOT_CONNECTED,
	REASON_FIN_SEEN,
	REASON_BOUND_TO_DEVICE,
	REASON_SELF_CONNECT,
	REASON_OTHER_NETNS,
	REASON_RULE_UNPROVED,
	/* Not now: it may be tried again. */
	REASON_NO_DAEMON,
	REASON_DAEMON_GONE,
	REASON_PEER_UNKNOWN,
	REASON_PROMOTE_WAIT,
	REASON_STALE_PEER,
	REASON_SEVERAL_HOLDERS,
	REASON_FORKED,
	REASON_OVER_QUOTA,
	REASON_NO_DESCRIPTORS,
	REASON_NO_MEMORY,
	REASON_BACK_OFF,
	REASON_CANCELLED,
	/* The program did something that only TCP can serve. */
	REASON_FDOPEN,
	REASON_SCM_RIGHTS,
	REASON_EXEC,
	REASON_MSG_OOB,
	REASON_ZEROCOPY,
	REASON_KTLS,
	REASON_IO_URING,
	REASON_PINNED_OPTION,
	REASON_UNSERVED_CALL,
	/* Somebody asked, or left. */
	REASON_REQUESTED,
	REASON_PEER_ASKED,
	REASON_PEER_LEFT,
	REASON_PEER_DIED,
	REASON_CLOSED,
	/* Something is wrong. */
	REASON_LANE_CORRUPT,
	REASON_BEHIND_OUR_BACK,
	REASON_HANDOVER_FAILED,
	REASON_HANDOVER_TIMEOUT,
	REASON_PROTOCOL,
	REASON_VERSION,
	REASON_INTERNAL,
	/* Between hosts. */
	REASON_NO_PEER_DAEMON,
	REASON_NO_LINK,
	REASON_RESUME_TIMEOUT,
	REASON_NO_QUEUE_PAIR,
	REASON_LANE_LOST,
	REASON_KEPT_BY_RULE,
	REASON_COUNT,
};

/*
 * Whether @number is a code of the list.
 * @number: any value, for example from a message. Any context; never fails.
 */
bool reason_ok(uint64_t number);

/*
 * The short name of @reason, for JSON and logs: lower case, underscores, never changed once given.
 * @reason: a code of the list; anything else gives "invalid". Static storage. Never fails.
 */
const char *reason_name(enum reason reason);

/*
 * One sentence about @reason for people, capitalised, with its full stop.
 * @reason: a code of the list; anything else gives a sentence that says so. Static storage.
 */
const char *reason_text(enum reason reason);

/*
 * Whether waiting can cure @reason: true for the codes after which the same connection may be
 * registered again later, false for those that pin it to TCP. Never fails.
 */
bool reason_passes(enum reason reason);

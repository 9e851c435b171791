/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * How much a device can post inline: the strategy of finding out. Pure: it says what to try next,
 * the caller tries it on the device and tells how it went.
 *
 *	  BASE ──granted──> WHOLE ──granted──────────────────────────────────┐
 *	   │                  │ refused                                      │
 *	   │                  ├───────> HINT ──granted──> PROVE ──refused──> │
 *	   │                  │         │ ^ refused         │                │
 *	   │                  │         │ └──┐              │ granted        v
 *	   │                  └───────> BISECT <────────────┘             VERIFY ──> OVER
 *	   │                              └─────the interval is closed──────>┘
 *	   └──refused, broke──> OVER          broke: from everywhere, with what was granted before
 *
 *   BASE    a queue pair without inline: if that fails, the problem is not inline
 *   WHOLE   all that is wanted, min(ask, cap): what is granted then, more or less, is the answer
 *   HINT    sizes that devices of this kind are known to end at, the largest first
 *   PROVE   one byte more than the hint that was granted: refused, the hint is exact
 *   BISECT  between the largest size granted and the smallest refused, exact to the byte
 *   VERIFY  the caller posts with what was found, and says what became of it
 *   OVER    the result is settled
 *
 * A way to be granted the largest size at once, should verbs get one, is a further state between
 * BASE and WHOLE: granted leads to VERIFY, refused to WHOLE.
 *
 * By what a provider does when asked for too much (EINVAL, ENOSPC, errno untouched,
 * a silent clamp) nothing can be told apart but "granted" and "not"; see inline_is_refusal(). A
 * queue that is too deep for some inline sizes looks the same, so the answer is the largest size
 * that keeps the depth.
 *
 * Sizes below the floor are all one: whether a device ends at 3 or at 30 bytes is not asked.
 */

/* Hints looked at. Chosen: twice what any vendor's devices are known to differ in. */
#define INLINE_HINTS_MAX 8u

/* Creations beyond the budget that wrong hints may cost. The budget itself leaves no room for any:
 * it is the least that tells so many sizes apart. Chosen: enough for the shipped lists to be tried
 * to their ends; a hint that could cost more is passed over. */
#define INLINE_HINT_EXCESS 2u

/* Largest size that is asked for, bytes. Chosen: no provider grants more than 1024. */
#define INLINE_BYTES_MAX 65535u

enum inline_state {
	INLINE_BASE,
	INLINE_WHOLE,
	INLINE_HINT,
	INLINE_PROVE,
	INLINE_BISECT,
	INLINE_VERIFY,
	INLINE_OVER,
	INLINE_STATE_COUNT,
};

enum inline_event {
	INLINE_EV_GRANTED, /* the queue pair was created */
	INLINE_EV_REFUSED, /* it was not, perhaps for the size */
	INLINE_EV_BROKE,   /* it was not, for something else */
	INLINE_EV_JUDGED,  /* the posts are made */
	INLINE_EVENT_COUNT,
};

/* What became of the two posts. */
enum inline_verdict {
	INLINE_VERIFIED,
	INLINE_PATH_FAILED, /* a send by reference failed: nothing is known about inline */
	INLINE_POST_FAILED, /* the inline post was refused */
	INLINE_SEND_FAILED, /* it was taken, and failed: the flag is ignored, the key was used */
	INLINE_DATA_WRONG,  /* it completed, and something else arrived */
};

/* Why the result is what it is. Names, once given, are never changed. */
enum inline_reason {
	INLINE_PENDING,		   /* not over yet */
	INLINE_USABLE,		   /* works, up to the device's own limit */
	INLINE_USABLE_ASKED,	   /* works, up to what was asked; the device may have more */
	INLINE_USABLE_CAPPED,	   /* works, up to the cap of the settings */
	INLINE_USABLE_PATH,	   /* works, up to what one packet holds */
	INLINE_USABLE_STOPPED,	   /* works so far; an error ended the search early */
	INLINE_NOT_USED,	   /* the settings say not to use the device */
	INLINE_NO_RC,		   /* no reliable connections */
	INLINE_NO_QP,		   /* no queue pair even without inline */
	INLINE_OFF,		   /* the settings switch inline off */
	INLINE_POLICY_BELOW_FLOOR, /* ask or cap is below the floor */
	INLINE_NOT_GRANTED,	   /* success, and 0 bytes */
	INLINE_BELOW_FLOOR,	   /* too little for a control message */
	INLINE_STOPPED,	     /* an error that is not about inline, before anything was granted */
	INLINE_UNVERIFIED,   /* the path failed: to be tried again */
	INLINE_POST_REFUSED, /* granted, and then not taken */
	INLINE_IGNORED,	     /* granted, and the flag has no effect */
	INLINE_CORRUPT,	     /* granted, and wrong bytes arrive */
	INLINE_REASON_COUNT,
};

/* What is wanted of a device, in bytes. */
struct inline_ask {
	uint32_t ask;	/* wanted; 0: inline is off */
	uint32_t floor; /* less is not worth it */
	uint32_t cap;	/* more must not be used; 0: inline is off */
	uint32_t n_hints;
	uint32_t hints[INLINE_HINTS_MAX]; /* any order; those out of range are passed over */
};

struct inline_probe {
	struct inline_ask ask;
	uint32_t state;	    /* enum inline_state */
	uint32_t low, high; /* all up to low is good (or below the floor); high is refused */
	uint32_t trying;    /* bytes of the present try */
	uint32_t granted;   /* the answer so far, of queue pairs that asked; may exceed the cap */
	uint32_t creations; /* queue pairs asked for so far */
	uint32_t used;	    /* the result, bytes: 0 until the state is OVER */
	uint32_t reason;    /* enum inline_reason */
	int error;	    /* errno that ended the search; 0: none, or errno was left alone */
	bool exact;	    /* the limit is proven, or the device itself named it */
};

/* Begin. @ask: any numbers at all; ask and cap above INLINE_BYTES_MAX count as that. */
void inline_probe_init(struct inline_probe *probe, const struct inline_ask *ask);

/*
 * What is to be created next: true and the size in *@ret_bytes; false when nothing is (VERIFY,
 * OVER). The state says which step it is.
 */
bool inline_probe_next(const struct inline_probe *probe, uint32_t *ret_bytes);

/* The queue pair asked for exists, and the device says that it has @granted bytes. */
void inline_probe_granted(struct inline_probe *probe, uint32_t granted);

/* It does not; @error is errno, cleared before the call and positive: 0 if it was left alone. */
void inline_probe_failed(struct inline_probe *probe, int error);

/* The size to verify, in the state VERIFY; else 0. */
uint32_t inline_probe_candidate(const struct inline_probe *probe);

/*
 * The posts are made, with an inline one of @bytes: the candidate, or less where that was refused
 * and less worked. Only in the state VERIFY.
 */
void inline_probe_judge(struct inline_probe *probe, enum inline_verdict verdict, uint32_t bytes);

/* In place of a judgement: @error (positive) that is about neither path nor inline, such as memory
 * that can't be registered, kept them from being made. Only in the state VERIFY. */
void inline_probe_broke(struct inline_probe *probe, int error);

/*
 * Most creations that a probe of @ask can take up to VERIFY, by halving: 10 for 256 bytes, 12 for
 * 1024. Right hints need fewer, wrong ones at most INLINE_HINT_EXCESS more.
 */
uint32_t inline_probe_budget(const struct inline_ask *ask);

/*
 * Whether @error (0: untouched) may mean "too much inline": EINVAL, ENOSPC (seen on a ConnectX-4
 * Lx), and an errno that the provider left alone (bnxt_re, mthca). Everything else is itself.
 */
bool inline_is_refusal(int error);

/* Whether the state machine allows @event in @state; for tests. */
bool inline_can(enum inline_state state, enum inline_event event);

/* Whether @reason means that inline is used. */
bool inline_reason_is_good(enum inline_reason reason);

/* Short names for JSON and tables, and one sentence for people. Static; "invalid" for others. */
const char *inline_state_name(enum inline_state state);
const char *inline_reason_name(enum inline_reason reason);
const char *inline_reason_text(enum inline_reason reason);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/offset.h"
#include "core/sizes.h"

/*
 * A half: one memory region that one party writes and the other only reads. The first page holds
 * the control words below, the ring follows it. A lane is two halves.
 *
 * A fresh half is all zeros, and all zeros is a valid half that announces nothing: words that may
 * be "not yet" hold their value plus one (opt_*), so there is no moment at which a reader could
 * mistake uninitialised memory for an announcement.
 *
 * Each word is written by the half's owner alone; words that change together or are read together
 * share a cache line. All are read by a party that must not trust them: see core/peer.h.
 */

#define HALF_CTL_BYTES 4096u
#define HALF_LINE_BYTES 64u

struct half_ctl {
	/* Line 0: the hot words of the producer. state_seq moves after every change of a state
	 * word, so that a reader of prod learns of any change without touching another line. */
	alignas(HALF_LINE_BYTES) _Atomic uint64_t prod; /* ring offset produced here */
	_Atomic uint64_t state_seq;

	/* Line 2 (line 1 left out of the way of the adjacent-line prefetcher). */
	alignas(2 * HALF_LINE_BYTES) _Atomic uint64_t cons; /* consumed of the peer's half */

	/* Line 4: wake-up requests; monotonic, a reader compares with what it last rang for. */
	alignas(2 * HALF_LINE_BYTES) _Atomic uint64_t arm_data; /* someone will sleep for data */
	_Atomic uint64_t arm_space;				/* … for space */

	/* Line 6: state words, all covered by state_seq. */
	alignas(2 * HALF_LINE_BYTES) _Atomic uint64_t ready; /* 1: both halves mapped here */
	_Atomic uint64_t rx_ready; /* 1: no reader here sits in a wait that can't see the bell */
	_Atomic uint64_t tx_start; /* opt TCP count at which the owner's bytes go to the ring */
	_Atomic uint64_t rx_seen;  /* 1: the peer's tx_start is known here, no older read runs */
	_Atomic uint64_t tx_end;   /* opt ring offset at which the owner's bytes go to TCP */
	_Atomic uint64_t leave;	   /* 1: please end your direction too */
	_Atomic uint64_t rx_stop;  /* opt ring offset from which the owner wants TCP */
	_Atomic uint64_t stop_ack; /* opt ring offset at which TCP goes on: the peer's rx_stop */

	/* Line 8 and 9: rarer state words, covered by state_seq too. */
	alignas(2 * HALF_LINE_BYTES) _Atomic uint64_t closing; /* 1: the last holder closes */
	_Atomic uint64_t rx_resume;   /* enum half_resume: rx_stop is taken back */
	_Atomic uint64_t shut;	      /* 1: a FIN of this side's own will follows */
	_Atomic uint64_t lost;	      /* 1: the lane is dead (written by the feeding daemon) */
	_Atomic uint64_t replayed;    /* opt ring offset up to which the daemon has replayed */
	_Atomic uint64_t epoch;	      /* epoch that this half serves, set before ready */
	_Atomic uint64_t replay_at;   /* opt TCP count at which the replay began… */
	_Atomic uint64_t replay_from; /* opt ring offset that it began with; set after replay_at */
	alignas(HALF_LINE_BYTES) _Atomic uint64_t settled; /* 1: of a lost lane the other daemon has
							    * noted all that it needs of this end */

	/* … and between daemons alone. */
	_Atomic uint64_t wanted; /* opt ring offset from which the other daemon wants a replay */
	_Atomic uint64_t lane;	 /* what the daemons call the lane, for their successors */

	/* Line 12 and 13: the sizes of the messages produced and consumed here, for the daemon's
	 * figures alone. Each is written under the lock of its direction; the peer reads neither.
	 */
	alignas(2 * HALF_LINE_BYTES) uint64_t sent[SIZES_BUCKETS];
	alignas(HALF_LINE_BYTES) uint64_t taken[SIZES_BUCKETS];
};

_Static_assert(sizeof(struct half_ctl) <= HALF_CTL_BYTES, "control words fit their page");

/*
 * Taking an unanswered rx_stop back. Asker and answerer may cross, so it is asked first; what the
 * asker then finds of an answer decides, and the answerer goes by that.
 */
enum half_resume {
	RESUME_NONE,
	RESUME_ASKED,
	RESUME_DONE, /* the ring goes on, whatever the answer says */
	RESUME_VOID, /* too late: the answer stands */
};

/* "Not yet", and a value, in one word. A value of UINT64_MAX cannot be told and is never used. */
#define OPT_NONE 0u

static inline uint64_t opt_some(uint64_t value)
{
	return value + 1;
}

static inline uint64_t opt_value(uint64_t word)
{
	return word - 1;
}

/* Bytes of a whole half whose ring has @ring_bytes. */
static inline size_t half_bytes(uint64_t ring_bytes)
{
	return HALF_CTL_BYTES + (size_t)ring_bytes;
}

static inline uint8_t *half_ring(struct half_ctl *half)
{
	return (uint8_t *)half + HALF_CTL_BYTES;
}

static inline const uint8_t *half_ring_const(const struct half_ctl *half)
{
	return (const uint8_t *)half + HALF_CTL_BYTES;
}

/* SPDX-License-Identifier: MIT */
#pragma once

#include "core/half.h"
#include "lib/shuntd.h"

/*
 * Both ends of a connection, brought onto a lane by hand.
 */
struct lane_end {
	int sock; /* session */
	int kick; /* … and our ear of its kick */
	int tcp;
	uint64_t token;
	int half, bell, peer_bell, peer_half; /* -1: not there yet */
	struct half_ctl *own;		      /* our mapping of the half */
};

/* The size of a ring that the daemon is expected to make: its default, unless a test says else. */
#define LANE_RING_BYTES ((uint64_t)1 << 18)
extern uint64_t lane_ring_bytes;

/* Two sessions with @daemon and @tcp[0], @tcp[1] as their sockets. */
bool lane_init(const struct shuntd *daemon, const int tcp[2], struct lane_end ends[2]);

/* REGISTER both for @epoch, await REGISTERED and PAIR of @epoch, map the halves. */
bool lane_pair(struct lane_end ends[2], uint32_t epoch);

/* Await PAIR of @epoch at @end and map its half. */
bool lane_await_pair(struct lane_end *end, uint32_t epoch);

/* MAPPED of both, await PEER of both. */
bool lane_complete(struct lane_end ends[2], uint32_t epoch);

/* Say that @end has mapped / drained its lane. */
void lane_say_mapped(struct lane_end *end, uint32_t epoch);
void lane_say_drained(struct lane_end *end, uint32_t epoch);

/* Await PEER at @end. */
bool lane_await_peer(struct lane_end *end, uint32_t epoch);

/* Let go of the halves and bells, not of session and socket. */
void lane_drop(struct lane_end *end);

/* Let go of everything. */
void lane_ends_close(struct lane_end ends[2]);

/* Whether the bell or kick @fd rings within SHUNTD_WAIT_MS; silences it. */
bool lane_rings(int fd);

/* Whether it has been silent for a moment. */
bool lane_is_silent(int fd);

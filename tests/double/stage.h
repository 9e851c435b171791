/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fabric/cm.h"
#include "fabric/link.h"
#include "fabric/mr.h"
#include "fabric/worker.h"
#include "os/clock.h"
#include "rig.h"
#include "stub.h"

/*
 * Two processes, each with a device of its own host of the verbs double, a link between them that
 * the connection manager made, a worker, and lanes with clients. One thread plays the loop of the
 * daemon and all clients; the worker is the real one.
 */

#define STAGE_LANES 64

struct stage_conf {
	const char *personality;
	uint32_t inline_bytes, depth, credits;
	uint64_t ring_bytes[2]; /* of what is on each side */
	uint64_t spin_ns;
	uint32_t lanes;
	void (*watch)(struct ibv_qp *qp); /* may be NULL: before the worker has it */
};

struct stage_lane {
	struct stage *stage;
	struct worker_lane *worker;
	struct mr_half *client, *fed;
	int fd, client_bell, own_bell; /* of the client's half; the daemon's */
	struct half_ctl *map;	       /* the client's, for writing */
	struct cdc_token peer;	       /* the other end's name of it */
	struct stub stub;
	uint32_t n_words, n_ended, n_over;
	struct worker_report words, report;
	bool link_lost;
	uint64_t seen_wrs; /* a counter, as last looked at */
};

struct stage {
	struct stage_conf conf;
	int side; /* 0 dials */
	int sock; /* to the other process */
	struct verbs_host *host;
	char name[8];
	struct rig rig;
	struct qp_pool pool;
	struct cm cm;
	struct link link;
	struct qp *qp; /* the worker's, once it is up */
	struct worker *worker;
	struct worker_link *worker_link;
	bool link_is_closed, is_up, is_down, is_gone;
	uint64_t busy_ns; /* when something happened last */
	char why[WORKER_WHY_BYTES];
	uint64_t seen_turns, seen_wrs; /* counters, as last looked at */
	int bells;		       /* epoll set of the clients' */
	struct stage_lane lanes[STAGE_LANES];
};

/* Run @body on both sides, each in a process of its own, with the link up and the lanes begun. */
void stage_run(const struct stage_conf *conf, void (*body)(struct stage *stage));

/* What most cases use: rxe, 256 bytes inline, 64 + 64 entries, rings of 64 KiB, one lane. */
extern const struct stage_conf stage_usual;

/* One turn of clients and loop, which sleeps for at most @timeout_ms. */
void stage_turn(struct stage *stage, int timeout_ms);

/* Turns until @cond, within RIG_WAIT_MS without anything happening. */
#define STAGE_AWAIT(stage, cond)                                                                   \
	do {                                                                                       \
		(stage)->busy_ns = clock_now_ns();                                                 \
		while (!(cond) && clock_now_ns() - (stage)->busy_ns < RIG_WAIT_MS * 1000000ull)    \
			stage_turn(stage, 10);                                                     \
		CHECK(cond);                                                                       \
	} while (0)

/* Wait until the other process is here, too, turning. */
void stage_meet(struct stage *stage);

/* End all lanes from both sides and wait until they are over. */
void stage_end_lanes(struct stage *stage);

/* Bytes received by all clients. */
uint64_t stage_received(const struct stage *stage);

/* Addresses of the two devices. */
extern const char *const stage_addresses[2];

/* For stage.c: make the link; stage->is_up will tell. */
bool stage_open_link(struct stage *stage);

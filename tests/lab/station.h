/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fabric/cm.h"
#include "fabric/link.h"
#include "fabric/qp_pool.h"
#include "os/clock.h"

/*
 * Devices with everything that the daemon has for each, two of them in one loop, and links between
 * them, for programs of the lab. What goes wrong is printed, with the counts, and ends the program.
 */
#define STATIONS 2
#define MESSAGE_BYTES 32u
#define USES_MAX 128
#define WAIT_NS 30000000000ull

struct station {
	const char *name;
	union gid_address address; /* port 0 */
	uint16_t port;
	bool is_open;
	bool is_lent; /* its control thread has all of it */
	struct device *device;
	struct control control;
	struct cq_set cqs;
	struct pool_budget budget;
	struct qp_pool pool;
	struct cm cm;
	struct ibv_mr *mr;
	uint8_t memory[MESSAGE_BYTES];
	uint32_t received;
};

/* One end of a link. */
struct use {
	struct link link;
	struct station *station;
	bool is_taken, is_up, is_dialer, has_sent;
	uint64_t number; /* in its completions */
};

extern struct station stations[STATIONS];
extern struct use uses[USES_MAX];
extern struct counts {
	uint32_t up, failed, dialled, sent, flawed, stale;
	uint64_t uses;
	enum ibv_wc_status flaw;  /* of the last completion that failed */
	char why[LINK_WHY_BYTES]; /* of the last that failed */
} counts;

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);

/* One turn of the loop. */
void turn(void);

#define AWAIT(condition)                                                                           \
	do {                                                                                       \
		uint64_t awaited_ns = clock_now_ns();                                              \
		while (!(condition)) {                                                             \
			turn();                                                                    \
			if (clock_now_ns() - awaited_ns > WAIT_NS)                                 \
				die("line %d: in vain: %s", __LINE__, #condition);                 \
		}                                                                                  \
	} while (0)

/* Open @name, which has @address; listen there, with a pool of @pool_size, filled. */
void station_open(struct station *station, const char *name, const char *address,
		  uint32_t pool_size);

/* End every link, and let the kernel have the device back. */
void station_close(struct station *station);

bool has_uses(const struct station *station);

/* Dial one more link, if there is room; what becomes of it shows in its use, and in the counts. */
void dial(struct station *from, const struct station *to);

/* A message over each link of a dialer that is up and has had none. */
void send_over_new(void);

/* Close all links, and wait until they are gone at both ends. */
void close_all(void);

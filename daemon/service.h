/* SPDX-License-Identifier: MIT */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "loop.h"

/*
 * The daemon as a service: the signals that it obeys, and what it tells its manager (sd_notify(3)).
 *
 *	READY=1       when the RDMA devices have been looked at and probed, or after
 *SERVICE_READY_MS. Clients are served before that. STATUS=       who is served, whenever that has
 *changed, at most once in SERVICE_STATUS_MS WATCHDOG=1    twice in the interval that the manager
 *gives, from the loop, while every worker thread answers RELOADING=1   around the reading of the
 *settings at SIGHUP STOPPING=1    when the loop has ended
 *
 * Without a manager, or built without systemd, nothing is told; signals are obeyed all the same.
 */

/* Longest wait for devices. Chosen: a probe takes milliseconds, on slow firmware a second; less
 * than systemd's own limit of 90 s for a start. */
#define SERVICE_READY_MS 20000u

#define SERVICE_STATUS_MS 1000u

struct server;

/* What is shown in STATUS=. */
struct service_facts {
	uint32_t programs, ends, peers, devices, devices_ready;
};

struct service {
	struct server *server;
	const char *config_path; /* NULL: the default one, which may be missing */
	struct source signals;
	struct timer ready, status, watchdog;
	struct task look;
	uint64_t watchdog_ms; /* 0: nobody watches */
	bool is_ready;
	bool was_silent; /* a worker did not answer; said once */
	struct service_facts told;
};

/* Block the signals that are obeyed, before anybody can know of the daemon. */
void service_block_signals(sigset_t *ret_set);

/*
 * Begin. @set: of service_block_signals(). @server: initialised, its loop not yet run; outlives
 * the service. 0, or -errno of the signal descriptor.
 */
int service_start(struct service *service, struct server *server, const char *config_path,
		  const sigset_t *set);

/* The loop has ended. */
void service_stop(struct service *service);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/pool_size.h"
#include "fabric/cm.h"
#include "fabric/control.h"
#include "fabric/cq.h"
#include "fabric/device.h"
#include "fabric/gid.h"
#include "fabric/mr.h"
#include "fabric/probe.h"
#include "fabric/probe_cache.h"
#include "fabric/qp_pool.h"
#include "fabric/worker.h"
#include "loop.h"

/*
 * One RDMA device as the daemon has it: its context, its control thread, and a pool of queue pairs
 * for each port.
 *
 *	OPENING ──opened──> PROBING ──usable──> READY <──────┐
 *	   │                  │ ^                 │ refused, │ probed
 *	   │ can't            │ └─────────────────┘ or a     │ again
 *	   v                  v                     port up ─┘
 *	 UNUSED <───not usable┘
 *
 *	from everywhere: the device is gone, or the daemon ends ──> GOING ──all released──> freed
 *
 *   OPENING   the control thread opens it and looks at its ports
 *   PROBING   the control thread finds out what it can do; pools made earlier go on
 *   READY     pools and fresh halves are kept filled
 *   UNUSED    nothing is done with it, with a reason; opening is tried again now and then
 *   GOING     whatever is in flight comes to its end, then one last job releases everything: queue
 *             pairs, memory regions, completion queues, the protection domain, the context
 *
 * All of it is the loop's but what jobs do (run_…): those touch the verbs objects and the structure
 * of their job, and nothing else of the device.
 */

/* Ports of one device. Chosen: real devices have up to four. */
#define HOST_PORTS_MAX 16u
#define HOST_WHY_BYTES 320u

/* Pause before a device that could not be opened is tried again, and between two probes that its
 * pools ask for. Chosen: somebody has to change something meanwhile. */
#define HOST_RETRY_NS 30000000000ull

enum host_stage {
	HOST_OPENING,
	HOST_PROBING,
	HOST_READY,
	HOST_UNUSED,
	HOST_GOING,
	HOST_STAGES,
};

struct devices;

/* What a look at a port has found. */
struct host_facts {
	struct port port;
	bool has_gid;
	struct gid gid; /* the one to use */
	char netdev[IF_NAMESIZE];
	uint16_t cm_port; /* where links of other daemons are listened for; 0: nowhere */
	int cm_error;	  /* why not: -errno */
};

struct host_port {
	struct host_facts facts;
	bool has_pool;
	struct qp_pool pool;
};

struct host_look {
	struct control_job job;
	struct device *device;
	struct cm *cm;
	struct control *control;
	int cm_error; /* of opening it */
	uint32_t n;
	struct host_facts facts[HOST_PORTS_MAX];
	int error;
	bool in_flight, again;
};

struct host_probe {
	struct control_job job;
	const struct device *device;
	struct probe_order order;
	bool fresh;	    /* what was remembered is thrown away first */
	bool only_frontier; /* the report is there, its frontier is to be found */
	struct probe_cache cache;
	int cache_result;
	struct probe_report report;
	bool in_flight;
};

struct host_device {
	struct list link;
	struct devices *owner;
	char name[IBV_SYSFS_NAME_MAX];
	enum host_stage stage;
	char why[HOST_WHY_BYTES]; /* UNUSED, GOING: for people */
	uint64_t retry_at_ns;	  /* UNUSED: open again; READY: probe again; 0: not */

	struct control control;
	struct source control_source;
	struct control_job open_job, close_job;
	int open_error;
	bool is_opening, is_closing, is_closed;

	/* From the end of OPENING on; the control thread's while a job runs. */
	struct device *device;
	struct source event_source;
	struct cq_set cqs;
	struct cm cm; /* the control thread's until has_cm */
	bool has_cm;
	struct source cm_source;

	uint32_t n_ports;
	struct host_port ports[HOST_PORTS_MAX];
	struct host_look look;

	bool has_report;
	struct probe_report report;
	struct host_probe probe;
	uint64_t probed_at_ns;
	uint64_t refusals; /* pools that found the report outdated */

	struct pool_budget budget;
	struct mr_budget mrs;
	struct mr_store store;
	bool has_pools;

	struct worker *worker; /* NULL: no lanes between hosts are wanted, or it can't be had */
	struct source worker_source;
	uint32_t n_links;		/* that are not freed */
	struct worker_link_counts gone; /* of links that the worker has forgotten */
	int told_error;			/* of pools and store, as logged last */
};

/* Begin with the device @name. NULL without memory or threads (logged). */
struct host_device *host_device_new(struct devices *owner, const char *name);

/* Ports or addresses may have changed: look. */
void host_device_look(struct host_device *dev);

/*
 * It is gone, or must go: @why, for people. Everything is released as soon as nothing is in flight;
 * then devices_device_gone() is called, once, and the object freed.
 */
void host_device_go(struct host_device *dev, const char *why);

/* Once a second. */
void host_device_tick(struct host_device *dev, uint64_t now_ns);

/* At once, at the end of the daemon: waits for the job that runs, releases everything, frees. */
void host_device_free_now(struct host_device *dev);

/* "opening", "probing", "ready", "unused", "going". */
const char *host_stage_name(enum host_stage stage);

/* Between the parts of the daemon's device (device.c, device_look.c, device_probe.c). */

/* Submit a look; its results arrive in host_device_looked(). */
void host_look_start(struct host_device *dev);
/* Prepare dev->look, and look, on the control thread. */
void host_look_init(struct host_device *dev);
void host_look_run(struct host_look *look);
/* The facts of dev->look are there: take them over. Whether a port came up or got another GID. */
bool host_look_apply(struct host_device *dev);

/* Begin a probe; @fresh: what is remembered does not count. */
void host_probe_start(struct host_device *dev, bool fresh);
/* Behind a probe: find the frontier, for people, unless it is known. */
void host_frontier_start(struct host_device *dev);
/* It is over, with dev->probe.report: to be provided by device.c. */
void host_device_probed(struct host_device *dev);
/* What a pool's queue pairs are to be, by the report. */
struct qp_spec host_probe_spec(const struct probe_report *report);

/* device_worker.c: the worker's thread is started when the device is ready, and has nothing any
 * more when the last link is freed. */
void host_worker_start(struct host_device *dev);
void host_worker_stop(struct host_device *dev);

/* If the device is going and nothing is in flight any more: release it. */
void host_device_settle(struct host_device *dev);

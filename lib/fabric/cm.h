/* SPDX-License-Identifier: MIT */
#pragma once

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/link_hello.h"
#include "fabric/control.h"
#include "fabric/device.h"
#include "fabric/gid.h"

struct link;

/*
 * The connection manager of a device: one event channel of librdmacm, the listeners on the
 * device's addresses, and the links that are being made or are up.
 *
 *   loop                                          control thread
 *   the channel's descriptor is readable
 *   cm_poll()                    ─ job ─>         takes and acknowledges what has come
 *   events to their links        <─ done ─
 *   a link decides the next step ─ job ─>         calls librdmacm, moves the queue pair (link.h)
 *
 * Every call of librdmacm is made on the control thread: some block (a dial of siw does for as
 * long as TCP's SYN). An event is acknowledged there as soon as it is copied, so that destroying
 * an id never waits.
 */

/* Requests and dials under way at a time. Chosen: more than a restarted host's peers have. */
#define CM_PENDING_MAX 256u

/* How often is looked whether those that could not be told can be now. Chosen: before anybody waits
 * for it. */
#define CM_PARK_LOOK_NS 500000000ull

/* Events copied per job. */
#define CM_EVENTS 16u

/* Longest private data of any event. */
#define CM_PRIVATE_BYTES 256u

/* What has come, copied. */
struct cm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;	      /* of a request: new, and ours to destroy */
	struct link *link;	      /* whose id it is; NULL: a request's, or nobody's yet */
	struct sockaddr_storage from; /* of a request */
	uint8_t private_len;
	uint8_t private_data[CM_PRIVATE_BYTES];
};

struct cm_listener {
	struct list link;
	union gid_address address; /* with the port */
	struct rdma_cm_id *id;
};

/*
 * Whom to let in. Called on the loop with a request that has a good hello; @from: who asks.
 * Returns 0 and a link in *@ret_link, initialised by link_init() and the caller's, that takes the
 * request; or an enum link_reject.
 */
typedef int cm_admit_fn(void *ctx, const struct link_hello *hello, const struct sockaddr *from,
			struct link **ret_link);

struct cm_counts {
	uint64_t dials, requests; /* begun here, come in */
	uint64_t up, failed;	  /* links */
	uint64_t rejected_here, rejected_there;
};

struct cm {
	const struct device *device;
	struct control *control;
	struct rdma_event_channel *channel;
	struct list listeners; /* the control thread's */
	struct list parked;    /* the control thread's: cm_park.h */
	struct list links;     /* of struct link */
	uint32_t n_pending;    /* of those, not up yet */
	uint32_t n_parked;     /* as far as the loop knows */
	uint64_t looked_ns;    /* at these */
	cm_admit_fn *admit;
	void *admit_ctx;
	struct cm_counts counts;
	bool is_stopped;
	bool is_removed; /* the kernel says that the device goes: for the owner to act on */

	/* One job at a time: first the requests that the last round turned away, then what came,
	 * then those that were parked, if it is time. */
	struct {
		struct control_job job;
		struct cm_event events[CM_EVENTS];
		uint32_t n;
		struct cm_refusal {
			struct rdma_cm_id *id;
			enum link_reject why;
		} refusals[CM_EVENTS];
		uint32_t n_refusals;
		uint32_t n_told; /* that were parked */
		bool in_flight, again, look;
	} poll;
};

/*
 * Open the channel, on the control thread; cm_fd() is to be watched then. @admit: NULL lets nobody
 * in. 0, or -errno: -ENODEV, -ENOENT, -EACCES (/dev/infiniband/rdma_cm).
 */
int cm_open(struct cm *cm, const struct device *device, struct control *control);

/* Whom to let in; the loop's, before the first cm_poll(). */
void cm_set_admit(struct cm *cm, cm_admit_fn *admit, void *ctx);

/*
 * The descriptor to watch for input, edge-triggered: a job is what reads it. -1 if the channel is
 * not open.
 */
int cm_fd(const struct cm *cm);

/* The descriptor has become readable: take what has come. */
void cm_poll(struct cm *cm);

/*
 * Listen on @address (of the device; port 0: any that is free), on the control thread.
 * @ret_port: where, host byte order. 0, or -errno: -EADDRINUSE, -EADDRNOTAVAIL; -EXDEV when the
 * address is another device's.
 */
int cm_listen(struct cm *cm, const union gid_address *address, uint16_t *ret_port);

/* Listen no longer on any address that is not among the @n of @keep; on the control thread. */
void cm_unlisten(struct cm *cm, const union gid_address *keep, size_t n);

/* Dials that take too long are given up: about once a second. */
void cm_tick(struct cm *cm, uint64_t now_ns);

/* The end begins: nobody is let in, every link is closed. */
void cm_stop(struct cm *cm);

/* Whether a stopped one has no link and no job left. */
bool cm_is_quiet(const struct cm *cm);

/* Destroy the listeners and the channel of a stopped and quiet one: on the control thread, or when
 * it has ended. Harmless if it was never opened. */
void cm_close(struct cm *cm);

/* 0 for success, else -errno: what librdmacm's calls left in errno. */
int cm_result(int rc);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "config.h"
#include "device.h"
#include "fabric/control.h"
#include "fabric/netlink.h"
#include "fabric/preflight.h"
#include "fabric/probe_cache.h"
#include "loop.h"

/*
 * The inside of devices.h.
 *
 * One look at the whole host at a time, the scan, on a control thread of its own: which devices
 * there are, and what the host lacks. Its result is compared with the devices at hand: new ones
 * begin, missing ones go. A scan follows the kernel's news (after a moment, so that a burst is one
 * scan), and the clock.
 */

/* Devices of a host. Chosen: virtual functions count; more are left alone, and said so. */
#define DEVICES_MAX 64u

/* From the first news to the look. Chosen: a device that appears sends a dozen messages. */
#define DEVICES_SETTLE_MS 50u

/* A host without devices is looked at less often, by this factor. Chosen. */
#define DEVICES_RESCAN_NONE 10u

/* A device is tended so often: pools sized, failures tried again. */
#define DEVICES_TICK_MS 1000u

struct links;

struct devices_scan {
	struct control_job job;
	uint64_t memlock_bytes;
	bool has_none; /* no device is at hand, not even one that is going */
	/* Results. */
	char names[DEVICES_MAX][IBV_SYSFS_NAME_MAX];
	size_t n;
	int error;
	struct preflight preflight;
	bool in_flight, again;
};

struct devices_watch {
	struct source source;
	struct devices *devices;
	enum netlink_kind kind;
};

struct devices {
	struct loop *loop;
	const struct conf *conf;
	struct list all;     /* struct host_device */
	struct links *links; /* NULL: none are made */
	cm_admit_fn *admit;
	struct control control;
	struct source control_source;
	struct devices_scan scan;
	struct control_job sync_job; /* librdmacm forgets devices that are gone */
	bool is_syncing, sync_again, is_stopping;
	struct netlink netlink;
	struct devices_watch watches[NETLINK_KINDS];
	struct netlink_news news;
	struct timer settle, rescan, tick;
	struct preflight preflight; /* as logged last */
	struct probe_cache cache;   /* where; each device has a copy to work with */
	bool has_scanned;
};

/*
 * Make links on the devices that become ready from now on; @admit, whose context is the device,
 * says who may dial. NULL: no more.
 */
void devices_set_links(struct devices *devices, struct links *links, cm_admit_fn *admit);

/* Wait a moment for what threads of devices have done, and act on it: for the end of the daemon,
 * when the loop has ended. */
void devices_turn(struct devices *devices);

/* @dev has released everything: forget it. To be called by the device. */
void devices_device_gone(struct devices *devices, struct host_device *dev);

/* Look at the list of devices soon. */
void devices_look_again(struct devices *devices);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * RDMA devices: which there are, and one open context on each.
 *
 * A device is opened once per process. That context owns the protection domain and, through those
 * who use it, every queue pair, completion queue and memory region; librdmacm keeps contexts of its
 * own beside it. Everything that was made on a device must be destroyed before device_close(), or
 * the kernel keeps the device and `rdma link del` blocks.
 *
 * All that asks the kernel or the provider here may block for as long as the device's firmware
 * takes (milliseconds on real devices): not for the daemon's loop. A struct device belongs to one
 * thread at a time, but for its asynchronous events, which another thread may read.
 */

/* How packets travel. On a device with ports of two kinds each port has its own. */
enum fabric_transport {
	FABRIC_UNKNOWN, /* one that Shunt has no use for */
	FABRIC_IB,
	FABRIC_ROCE,
	FABRIC_IWARP,
};

/* Names of drivers, bytes with terminator. Chosen: the longest known is vmw_pvrdma. */
#define DEVICE_DRIVER_BYTES 32u
/* Firmware versions: the size of the field in verbs. */
#define DEVICE_FIRMWARE_BYTES 64u
/* File name, size and time of a provider library. */
#define DEVICE_PROVIDER_BYTES 128u

/* What a device says about itself; numbers as it gives them, never trusted beyond their use. */
struct device_info {
	char name[IBV_SYSFS_NAME_MAX]; /* "mlx5_0"; an administrator may rename it */
	/* The provider's name: "mlx5", "irdma", "rxe"; where the provider is built into libibverbs,
	 * the kernel's driver; "unknown" if there is neither. */
	char driver[DEVICE_DRIVER_BYTES];
	char provider[DEVICE_PROVIDER_BYTES]; /* identity of the provider library, for caches */
	char firmware[DEVICE_FIRMWARE_BYTES]; /* printable; may be empty */
	uint64_t guid;			      /* of the node, in host byte order; 0: it has none */
	uint32_t vendor_id, part_id, hw_version;
	enum fabric_transport transport; /* of port 1 */
	bool rc;			 /* reliable connections exist on this kind of device */
	uint32_t ports;			 /* numbered from 1 */
	uint32_t max_qp, max_qp_wr, max_sge, max_cq, max_cqe, max_mr;
	uint64_t max_mr_bytes;
};

struct device {
	struct ibv_context *verbs;
	struct ibv_pd *pd; /* the one protection domain */
	struct device_info info;
};

/* The names of the devices at one moment. */
struct device_list {
	size_t n;
	struct ibv_device **devices; /* private: by device_list_name() */
};

struct port {
	uint32_t number; /* from 1 */
	enum fabric_transport transport;
	enum ibv_port_state state;
	uint32_t mtu_bytes; /* active; 0: unknown */
	uint16_t lid;	    /* InfiniBand only */
	uint32_t gids;	    /* size of the GID table */
};

/*
 * Find the devices that have a provider. @ret_list: owned by the caller until device_list_free().
 * Returns 0 (also with none), -ENOSYS when the kernel has no RDMA support, -EPERM, -ENOMEM. A
 * device without a provider library is not listed: fabric/preflight.h tells of it.
 */
int device_list_get(struct device_list *ret_list);
void device_list_free(struct device_list *list);

/* Name of device @i; valid as long as @list. */
const char *device_list_name(const struct device_list *list, size_t i);

/*
 * Open device @i of @list with a context and a protection domain of its own and ask for its
 * attributes. The event descriptor is non-blocking and close-on-exec.
 * @ret_device: set on success; owned by the caller, device_close() ends it. @list may go first.
 * Returns 0, -EACCES or -EPERM (no right to /dev/infiniband/uverbs*), -ENODEV (it went away),
 * -ENOMEM (also: locked memory used up), or what else the provider says; never 0 on a failure.
 */
int device_open(const struct device_list *list, size_t i, struct device **ret_device);

/* As device_open(), by name. -ENODEV: there is none of that name. */
int device_open_name(const char *name, struct device **ret_device);

/*
 * Close @device, NULL included, and free it in any case. Returns NULL. Logs at debug what the
 * provider refused to destroy.
 */
struct device *device_close(struct device *device);

/*
 * Ask for the present state of port @number (1 to info.ports). Returns 0, -ENODEV when the device
 * is being removed, or what the provider says.
 */
int device_port(const struct device *device, uint32_t number, struct port *ret_port);

/* Readable when there is an asynchronous event. Closed with the device. */
int device_event_fd(const struct device *device);

/*
 * Take the next asynchronous event, without blocking: 1 and @ret_event, which the caller gives to
 * ibv_ack_async_event() (destroying an object waits for the events about it), 0 when there is none,
 * or -errno.
 */
int device_event(const struct device *device, struct ibv_async_event *ret_event);

/* Words for people and JSON: "InfiniBand", "RoCE", "iWARP", "unknown". */
const char *fabric_transport_name(enum fabric_transport transport);

/* "down", "initializing", "armed", "active", "active_defer" or "unknown". */
const char *port_state_name(enum ibv_port_state state);

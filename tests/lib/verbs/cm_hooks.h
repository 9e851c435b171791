/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "wire.h"

struct conn;
struct dbl_device;

/*
 * What the CM (librdmacm.so) wants to hear from the engine (libibverbs.so); all in the engine's
 * thread, under dbl_lock.
 */
struct dbl_cm_hooks {
	/* A CM message came. */
	void (*message)(const struct wire *wire, const uint8_t *payload);
	/* Timers; returns when it is to be called again, 0 for never. */
	uint64_t (*run)(uint64_t now_ns);
	/* A device disappeared from the host file, or the addresses of a port changed. */
	void (*device_gone)(struct dbl_device *device);
	void (*addresses_changed)(struct dbl_device *device);
	/* The process behind a stream is gone; the stream is still the holders' to give back. */
	void (*stream_broke)(struct conn *conn);
	/* An iWARP QP broke, which is the end of its connection. */
	void (*qp_broke)(struct dbl_device *device, uint32_t qpn);
};

extern const struct dbl_cm_hooks *dbl_cm_hooks;

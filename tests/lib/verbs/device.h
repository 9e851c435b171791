/* SPDX-License-Identifier: MIT */
#pragma once

#include "double.h"

/*
 * Devices and contexts of this process. Under dbl_lock, but for what is marked.
 */

/* Read the host file again if it changed; raise the events of what did. */
void device_refresh(void);

/* The device with this GUID that is still there, or NULL. */
struct dbl_device *device_by_guid(uint64_t guid);

/* The device of this name that is still there, or NULL. */
struct dbl_device *device_by_name(const char *name);

/* Port @num (from 1) of @device if there is one, else NULL. */
struct state_port *device_port(struct dbl_device *device, unsigned num);

/* Whether the port carries data. */
bool device_port_is_up(struct dbl_device *device, unsigned num);

/* Open contexts, in a list through dbl_context.link. */
extern struct list device_contexts;

/* EIO if the device was taken from under the program, else 0. */
int device_check(const struct dbl_device *device);

/* CQs and MRs of this process on @device. */
unsigned device_count_cqs(const struct dbl_device *device);
unsigned device_count_mrs(const struct dbl_device *device);

/* In a forked child. */
void device_forget_contexts(void);

/* The operations of a context (ops.c). */
void device_set_ops(struct verbs_context *verbs);

/* Write what sysfs would say about @device below the state folder (sysfs.c). */
void sysfs_describe(struct dbl_device *device);

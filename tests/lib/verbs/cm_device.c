/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

/*
 * librdmacm's own contexts of devices, as in rdma-core 44 (librdmacm/cma.c): opened when an id is
 * first bound to the device, and kept. A removed device is let go only when the list of devices is
 * compared with the system's — in rdma_get_devices(), or when an id's device isn't in the list —
 * and no id refers to it any more. If the system has no device at all, nothing is compared: the
 * last device is never let go.
 */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list devices = LIST_INIT(devices);
static struct ibv_device **known; /* the list that `devices` was made from; keeps them alive */

int cm_return(int error)
{
	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

static void insert(struct ibv_device *ibv)
{
	struct cm_device *device = calloc(1, sizeof(*device));

	if (!device)
		return;
	device->ibv = ibv;
	list_push_back(&devices, &device->link);
}

static void remove_device(struct cm_device *device)
{
	if (device->refs) {
		device->is_dead = true;
		return;
	}
	if (device->pd)
		ibv_dealloc_pd(device->pd);
	if (device->verbs)
		ibv_close_device(device->verbs);
	list_unlink(&device->link);
	free(device);
}

static bool is_in(struct ibv_device **list, const struct ibv_device *ibv)
{
	for (unsigned i = 0; list && list[i]; i++) {
		if (list[i] == ibv)
			return true;
	}
	return false;
}

/* Compare with the system's list. 0 or ENODEV. */
static int sync_devices(void)
{
	struct list *node, *tmp;
	struct ibv_device **list;
	int count;

	list = ibv_get_device_list(&count);
	if (!list)
		return ENODEV;
	if (count == 0) {
		ibv_free_device_list(list);
		return ENODEV;
	}
	for (int i = 0; i < count; i++) {
		if (!is_in(known, list[i]))
			insert(list[i]);
	}
	list_for_each_safe (node, tmp, &devices) {
		struct cm_device *device = list_entry(node, struct cm_device, link);

		if (!is_in(list, device->ibv))
			remove_device(device);
	}
	if (known)
		ibv_free_device_list(known);
	known = list;
	return 0;
}

static int init_locked(void)
{
	return list_is_empty(&devices) ? sync_devices() : 0;
}

int cm_devices_init(void)
{
	int rc;

	pthread_mutex_lock(&devices_lock);
	rc = init_locked();
	pthread_mutex_unlock(&devices_lock);
	return rc;
}

static int open_device(struct cm_device *device)
{
	if (!device->verbs)
		device->verbs = ibv_open_device(device->ibv);
	return device->verbs ? 0 : ENODEV;
}

static struct cm_device *find(const struct cm_id *id)
{
	struct list *node;

	list_for_each (node, &devices) {
		struct cm_device *device = list_entry(node, struct cm_device, link);

		if (!device->is_dead && dbl_device(device->ibv)->desc.guid == id->guid)
			return device;
	}
	return NULL;
}

static int bind_device(struct cm_id *id)
{
	struct cm_device *device = find(id);
	int rc;

	if (!device && sync_devices() == 0)
		device = find(id);
	if (!device)
		return ENODEV;
	device->refs++;
	rc = open_device(device);
	if (rc == 0 && !device->pd)
		device->pd = ibv_alloc_pd(device->verbs);
	if (rc == 0 && !device->pd)
		rc = errno;
	if (rc) {
		device->refs--;
		return rc;
	}
	id->device = device;
	id->id.verbs = device->verbs;
	id->id.pd = device->pd;
	id->id.port_num = id->port;
	return 0;
}

int cm_device_get(struct cm_id *id)
{
	int rc;

	if (id->device || !id->guid)
		return 0;
	pthread_mutex_lock(&devices_lock);
	rc = bind_device(id);
	pthread_mutex_unlock(&devices_lock);
	return rc;
}

void cm_device_put(struct cm_id *id)
{
	struct cm_device *device = id->device;

	if (!device)
		return;
	pthread_mutex_lock(&devices_lock);
	if (--device->refs == 0) {
		ibv_dealloc_pd(device->pd);
		device->pd = NULL;
		if (device->is_dead)
			remove_device(device);
	}
	pthread_mutex_unlock(&devices_lock);
	id->device = NULL;
}

DBL_API struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	unsigned count = 0;
	struct list *node;

	pthread_mutex_lock(&devices_lock);
	if (init_locked() == 0 && sync_devices() == 0) {
		list_for_each (node, &devices)
			count++;
		list = calloc(count + 1, sizeof(*list));
		count = 0;
	}
	list_for_each (node, &devices) {
		struct cm_device *device = list_entry(node, struct cm_device, link);

		if (!list || device->is_dead)
			continue;
		if (open_device(device)) {
			device->is_dead = true;
			continue;
		}
		device->refs++;
		list[count++] = device->verbs;
	}
	pthread_mutex_unlock(&devices_lock);
	if (num_devices)
		*num_devices = (int)count;
	return list;
}

DBL_API void rdma_free_devices(struct ibv_context **list)
{
	struct list *node, *tmp;

	pthread_mutex_lock(&devices_lock);
	list_for_each_safe (node, tmp, &devices) {
		struct cm_device *device = list_entry(node, struct cm_device, link);

		for (unsigned i = 0; list[i]; i++) {
			if (list[i] != device->verbs)
				continue;
			device->refs--;
			if (device->is_dead)
				remove_device(device);
			break;
		}
	}
	pthread_mutex_unlock(&devices_lock);
	free(list);
}

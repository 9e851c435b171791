/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "async.h"
#include "cm_hooks.h"
#include "device.h"
#include "engine.h"
#include "fault.h"
#include "resource.h"
#include "transport.h"

static struct list devices = LIST_INIT(devices);
struct list device_contexts = LIST_INIT(device_contexts);

/* The version of the host file that `devices` shows. */
static struct stat seen;

static void put(struct dbl_device *device)
{
	if (--device->refs > 0)
		return;
	list_unlink(&device->link);
	free(device);
}

struct dbl_device *device_by_guid(uint64_t guid)
{
	struct list *node;

	list_for_each (node, &devices) {
		struct dbl_device *device = list_entry(node, struct dbl_device, link);

		if (!device->gone && device->desc.guid == guid)
			return device;
	}
	return NULL;
}

DBL_API struct dbl_device *device_by_name(const char *name)
{
	struct list *node;

	list_for_each (node, &devices) {
		struct dbl_device *device = list_entry(node, struct dbl_device, link);

		if (!device->gone && strcmp(device->desc.name, name) == 0)
			return device;
	}
	return NULL;
}

struct state_port *device_port(struct dbl_device *device, unsigned num)
{
	if (num < 1 || num > STATE_PORTS_MAX || !device->desc.ports[num - 1].present)
		return NULL;
	return &device->desc.ports[num - 1];
}

DBL_API bool device_port_is_up(struct dbl_device *device, unsigned num)
{
	const struct state_port *port = device_port(device, num);

	return port && !device->gone && port->state == IBV_PORT_ACTIVE;
}

int device_check(const struct dbl_device *device)
{
	return device->gone ? EIO : 0;
}

unsigned device_count_cqs(const struct dbl_device *device)
{
	unsigned count = 0;
	struct list *node;

	list_for_each (node, &device_contexts) {
		struct dbl_context *context = list_entry(node, struct dbl_context, link);

		count += context->device == device ? context->cqs : 0;
	}
	return count;
}

unsigned device_count_mrs(const struct dbl_device *device)
{
	unsigned count = 0;
	struct list *node;

	list_for_each (node, &device_contexts) {
		struct dbl_context *context = list_entry(node, struct dbl_context, link);

		count += context->device == device ? context->mrs : 0;
	}
	return count;
}

static void describe_type(struct ibv_device *ibv, enum personality_net net)
{
	switch (net) {
	case NET_IWARP:
		ibv->node_type = IBV_NODE_RNIC;
		ibv->transport_type = IBV_TRANSPORT_IWARP;
		break;
	case NET_OTHER:
		ibv->node_type = IBV_NODE_UNSPECIFIED;
		ibv->transport_type = IBV_TRANSPORT_UNSPECIFIED;
		break;
	case NET_IB:
	case NET_ROCE:
		ibv->node_type = IBV_NODE_CA;
		ibv->transport_type = IBV_TRANSPORT_IB;
		break;
	}
}

static void add(const struct state_device *desc)
{
	struct dbl_device *device = calloc(1, sizeof(*device));

	if (!device)
		return;
	device->desc = *desc;
	device->p = personality_find(desc->personality);
	if (!device->p) {
		fprintf(stderr, "verbs double: no personality '%s'\n", desc->personality);
		abort();
	}
	device->refs = 1;
	describe_type(&device->ibv, device->p->net);
	snprintf(device->ibv.name, sizeof(device->ibv.name), "%s", desc->name);
	snprintf(device->ibv.dev_name, sizeof(device->ibv.dev_name), "uverbs%d", desc->index);
	list_push_back(&devices, &device->link);
	sysfs_describe(device);
}

/* The device was removed: the hardware by force, a software device as soon as it is let go. */
static void lose(struct dbl_device *device)
{
	struct list *node;

	device->gone = true;
	list_for_each (node, &device_contexts) {
		struct dbl_context *context = list_entry(node, struct dbl_context, link);

		if (context->device != device)
			continue;
		if (device->p->quirks & QUIRK_REMOVAL_FATAL)
			async_raise_device(context, IBV_EVENT_DEVICE_FATAL, 0);
	}
	resource_break_qps(device);
	if (dbl_cm_hooks)
		dbl_cm_hooks->device_gone(device);
	put(device);
}

static void raise_port(struct dbl_device *device, unsigned num, enum ibv_event_type type)
{
	struct list *node;

	list_for_each (node, &device_contexts) {
		struct dbl_context *context = list_entry(node, struct dbl_context, link);

		if (context->device == device)
			async_raise_device(context, type, (int)num);
	}
}

/* Take over the new description, and tell what changed in it. */
static void change(struct dbl_device *device, const struct state_device *desc)
{
	struct state_device old = device->desc;

	device->desc = *desc;
	for (unsigned i = 0; i < STATE_PORTS_MAX; i++) {
		const struct state_port *was = &old.ports[i], *is = &desc->ports[i];

		if (is->present && memcmp(was->gids, is->gids, sizeof(is->gids)) != 0)
			raise_port(device, i + 1, IBV_EVENT_GID_CHANGE);
		if (is->present && was->lid != is->lid)
			raise_port(device, i + 1, IBV_EVENT_LID_CHANGE);
		if (was->state != is->state)
			raise_port(device, i + 1,
				   is->state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE
								: IBV_EVENT_PORT_ERR);
		if (memcmp(was->addrs, is->addrs, sizeof(is->addrs)) != 0 && dbl_cm_hooks)
			dbl_cm_hooks->addresses_changed(device);
	}
	engine_wake();
}

static struct state_device *find_same(struct state_host *host, const struct dbl_device *device)
{
	struct state_device *desc = state_find(host, device->desc.name);

	return desc && desc->index == device->desc.index ? desc : NULL;
}

/* Whether the file is another one than last time; notes it. */
static bool file_changed(void)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/host", dbl_dir());
	if (stat(path, &st) < 0)
		memset(&st, 0, sizeof(st));
	if (st.st_ino == seen.st_ino && st.st_size == seen.st_size &&
	    st.st_mtim.tv_sec == seen.st_mtim.tv_sec && st.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
		return false;
	seen = st;
	return true;
}

DBL_API void device_refresh(void)
{
	struct list *node, *tmp;
	struct state_host *host;

	if (!dbl_dir() || !file_changed())
		return;
	host = calloc(1, sizeof(*host));
	if (!host || state_read(dbl_dir(), host) < 0) {
		free(host);
		return;
	}
	list_for_each_safe (node, tmp, &devices) {
		struct dbl_device *device = list_entry(node, struct dbl_device, link);
		struct state_device *desc = find_same(host, device);

		if (device->gone)
			continue;
		if (!desc)
			lose(device);
		else if (memcmp(desc, &device->desc, sizeof(*desc)) != 0)
			change(device, desc);
	}
	for (unsigned i = 0; i < host->count; i++) {
		struct dbl_device *device = device_by_name(host->devices[i].name);

		if (!device)
			add(&host->devices[i]);
	}
	free(host);
}

DBL_API struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list;
	struct list *node;
	unsigned count = 0;

	pthread_mutex_lock(&dbl_lock);
	device_refresh();
	list_for_each (node, &devices)
		count++;
	list = calloc(count + 1, sizeof(*list));
	count = 0;
	list_for_each (node, &devices) {
		struct dbl_device *device = list_entry(node, struct dbl_device, link);

		if (!list || device->gone)
			continue;
		device->refs++;
		list[count++] = &device->ibv;
	}
	pthread_mutex_unlock(&dbl_lock);
	if (num_devices)
		*num_devices = list ? (int)count : 0;
	return list;
}

DBL_API void ibv_free_device_list(struct ibv_device **list)
{
	pthread_mutex_lock(&dbl_lock);
	for (unsigned i = 0; list[i]; i++)
		put(dbl_device(list[i]));
	pthread_mutex_unlock(&dbl_lock);
	free(list);
}

/* Processes of several users share a host. */
static void make_shared(const char *path)
{
	if (mkdir(path, 0777) == 0)
		chmod(path, 0777);
}

static void ref_path(const struct dbl_device *device, uint64_t name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/refs/%s.%d/%016lx", dbl_dir(), device->desc.name,
		 device->desc.index, (unsigned long)name);
}

/* A locked file that tells others, by its lock, that this process holds the device. */
static int take_ref(const struct dbl_device *device, uint64_t *ret_name)
{
	char path[PATH_MAX];
	uint64_t name;
	int fd;

	if (getrandom(&name, sizeof(name), 0) != sizeof(name))
		return -errno;
	snprintf(path, sizeof(path), "%s/refs", dbl_dir());
	make_shared(path);
	snprintf(path, sizeof(path), "%s/refs/%s.%d", dbl_dir(), device->desc.name,
		 device->desc.index);
	make_shared(path);
	ref_path(device, name, path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		close(fd);
		return -errno;
	}
	*ret_name = name;
	return fd;
}

static int open_context(struct dbl_device *device, struct dbl_context *context)
{
	int rc = fault_errno("open", device->desc.name);

	if (rc == 0)
		rc = device->desc.open_errno;
	if (rc == 0)
		rc = device_check(device);
	if (rc)
		return rc;
	context->ref_fd = take_ref(device, &context->ref_name);
	if (context->ref_fd < 0)
		return -context->ref_fd;
	context->verbs.context.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (context->verbs.context.async_fd < 0) {
		close(context->ref_fd);
		return errno;
	}
	context->device = device;
	device->refs++;
	list_init(&context->async);
	context->verbs.context.device = &device->ibv;
	/* The held file, so that programs that print or poll a command descriptor have one. */
	context->verbs.context.cmd_fd = context->ref_fd;
	context->verbs.context.num_comp_vectors = 1;
	pthread_mutex_init(&context->verbs.context.mutex, NULL);
	device_set_ops(&context->verbs);
	list_push_back(&device_contexts, &context->link);
	return 0;
}

DBL_API struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
	struct dbl_context *context = calloc(1, sizeof(*context));
	int rc;

	if (!context) {
		errno = ENOMEM;
		return NULL;
	}
	rc = -engine_hold();
	if (rc == 0) {
		pthread_mutex_lock(&dbl_lock);
		device_refresh();
		rc = open_context(dbl_device(ibv), context);
		pthread_mutex_unlock(&dbl_lock);
		if (rc)
			engine_drop();
	}
	if (rc) {
		free(context);
		errno = rc;
		return NULL;
	}
	return &context->verbs.context;
}

/*
 * The path is remembered, not read from the descriptor: programs that want to be rid of librdmacm's
 * context point its descriptors at /dev/null, which lets go of the device, here as there.
 */
static void drop_ref(struct dbl_context *context)
{
	char path[PATH_MAX];

	ref_path(context->device, context->ref_name, path);
	unlink(path);
	close(context->ref_fd);
}

DBL_API int ibv_close_device(struct ibv_context *ibv)
{
	struct dbl_context *context = dbl_context(ibv);

	pthread_mutex_lock(&dbl_lock);
	/* The kernel would take them along; a program that relies on it is wrong nearly always. */
	if (context->qps || context->cqs || context->mrs || context->pds)
		fprintf(stderr,
			"verbs double: %s closed with %u QPs, %u CQs, %u MRs, %u PDs in it\n",
			ibv->device->name, context->qps, context->cqs, context->mrs, context->pds);
	resource_orphan(context);
	async_discard(context);
	list_unlink(&context->link);
	drop_ref(context);
	close(context->verbs.context.async_fd);
	put(context->device);
	pthread_mutex_unlock(&dbl_lock);
	engine_drop();
	pthread_mutex_destroy(&context->verbs.context.mutex);
	free(context);
	return 0;
}

void device_forget_contexts(void)
{
	struct list *node;

	list_for_each (node, &device_contexts) {
		struct dbl_context *context = list_entry(node, struct dbl_context, link);

		close(context->ref_fd);
	}
	list_init(&device_contexts);
	resource_forget();
}

/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fabric/device.h"
#include "os/log.h"
#include "os/sys.h"

/* A call that failed with errno left at 0 has failed all the same. */
static int device_errno(void)
{
	return errno ? -errno : -EIO;
}

int device_list_get(struct device_list *ret_list)
{
	struct ibv_device **devices;
	int n = 0;

	errno = 0;
	devices = ibv_get_device_list(&n);
	if (!devices)
		return device_errno();
	ret_list->devices = devices;
	ret_list->n = n < 0 ? 0 : (size_t)n;
	return 0;
}

void device_list_free(struct device_list *list)
{
	if (list->devices)
		ibv_free_device_list(list->devices);
	*list = (struct device_list){0, NULL};
}

const char *device_list_name(const struct device_list *list, size_t i)
{
	return ibv_get_device_name(list->devices[i]);
}

/* Copy at most @size - 1 characters, foreign ones as '?'. */
static void copy_text(char *to, size_t size, const char *from, size_t len)
{
	size_t i;

	for (i = 0; i < len && from[i] && i + 1 < size; i++)
		to[i] = from[i] > ' ' && from[i] < 0x7f ? from[i] : '?';
	to[i] = '\0';
}

/* "libmlx5.so.1.24.44.0" → "mlx5"; "librxe-rdmav34.so" → "rxe". */
static void driver_of_library(const char *file, char *driver)
{
	const char *name = strrchr(file, '/');
	size_t len;

	name = name ? name + 1 : file;
	if (strncmp(name, "lib", 3) == 0)
		name += 3;
	len = strcspn(name, "-.");
	copy_text(driver, DEVICE_DRIVER_BYTES, name, len);
}

/* The kernel's driver of the bus device behind @verbs: false if it has none, as soft devices. */
static bool driver_of_kernel(const struct ibv_context *verbs, char *driver)
{
	char path[IBV_SYSFS_PATH_MAX + 16], target[IBV_SYSFS_PATH_MAX];
	ssize_t len;
	char *name;

	snprintf(path, sizeof(path), "%.*s/device/driver", IBV_SYSFS_PATH_MAX - 1,
		 verbs->device->ibdev_path);
	len = sys_readlinkat(AT_FDCWD, path, target, sizeof(target) - 1);
	if (len <= 0)
		return false;
	target[len] = '\0';
	name = strrchr(target, '/');
	name = name ? name + 1 : target;
	copy_text(driver, DEVICE_DRIVER_BYTES, name, strlen(name));
	return true;
}

/*
 * Who drives the device, told by the shared object that its operations lie in: the name that users
 * of verbs know, the same for all kernels, while the kernel's (ice, hns3, bnxt_en) is often that of
 * the network driver beneath.
 */
static void find_driver(const struct ibv_context *verbs, struct device_info *info)
{
	Dl_info provider, verbs_library;
	struct stat st = {0};
	const char *file;

	strcpy(info->driver, "unknown");
	strcpy(info->provider, "unknown");
	if (!dladdr((void *)(uintptr_t)verbs->ops.poll_cq, &provider) || !provider.dli_fname)
		return;
	file = strrchr(provider.dli_fname, '/');
	file = file ? file + 1 : provider.dli_fname;
	sys_fstatat(AT_FDCWD, provider.dli_fname, &st, 0);
	snprintf(info->provider, sizeof(info->provider), "%.64s %lld %lld", file,
		 (long long)st.st_size, (long long)st.st_mtim.tv_sec);
	if (dladdr(dlsym(RTLD_DEFAULT, "ibv_open_device"), &verbs_library) &&
	    verbs_library.dli_fbase == provider.dli_fbase)
		driver_of_kernel(verbs, info->driver);
	else
		driver_of_library(file, info->driver);
}

static enum fabric_transport transport_of(const struct ibv_context *verbs, uint8_t link_layer)
{
	switch (verbs->device->transport_type) {
	case IBV_TRANSPORT_IWARP:
		return FABRIC_IWARP;
	case IBV_TRANSPORT_IB:
		return link_layer == IBV_LINK_LAYER_ETHERNET ? FABRIC_ROCE : FABRIC_IB;
	default:
		return FABRIC_UNKNOWN;
	}
}

static uint32_t count(int n)
{
	return n < 0 ? 0 : (uint32_t)n;
}

static int ask_attributes(struct device *device)
{
	struct device_info *info = &device->info;
	struct ibv_device_attr attr = {0};
	struct port port;
	int rc;

	/* errno, positive or negative, by provider. */
	rc = ibv_query_device(device->verbs, &attr);
	if (rc)
		return rc < 0 ? rc : -rc;
	copy_text(info->firmware, sizeof(info->firmware), attr.fw_ver, sizeof(attr.fw_ver));
	info->guid = be64toh(ibv_get_device_guid(device->verbs->device));
	if (info->guid == 0)
		info->guid = be64toh(attr.node_guid);
	info->vendor_id = attr.vendor_id;
	info->part_id = attr.vendor_part_id;
	info->hw_version = attr.hw_ver;
	info->ports = attr.phys_port_cnt;
	info->max_qp = count(attr.max_qp);
	info->max_qp_wr = count(attr.max_qp_wr);
	info->max_sge = count(attr.max_sge);
	info->max_cq = count(attr.max_cq);
	info->max_cqe = count(attr.max_cqe);
	info->max_mr = count(attr.max_mr);
	info->max_mr_bytes = attr.max_mr_size;
	/* Devices of other transports (EFA, usNIC) have datagrams of their own kind only. */
	info->transport = transport_of(device->verbs, IBV_LINK_LAYER_UNSPECIFIED);
	info->rc = info->transport != FABRIC_UNKNOWN;
	if (info->rc && info->ports > 0 && device_port(device, 1, &port) == 0)
		info->transport = port.transport;
	return 0;
}

static int open_events(const struct ibv_context *verbs)
{
	int flags = sys_fcntl(verbs->async_fd, F_GETFL, 0);

	if (flags < 0)
		return flags;
	return sys_fcntl(verbs->async_fd, F_SETFL, flags | O_NONBLOCK);
}

int device_open(const struct device_list *list, size_t i, struct device **ret_device)
{
	struct device *device = calloc(1, sizeof(*device));
	int rc;

	if (!device)
		return -ENOMEM;
	copy_text(device->info.name, sizeof(device->info.name), device_list_name(list, i),
		  IBV_SYSFS_NAME_MAX);
	errno = 0;
	device->verbs = ibv_open_device(list->devices[i]);
	if (!device->verbs) {
		rc = device_errno();
		goto close;
	}
	find_driver(device->verbs, &device->info);
	rc = open_events(device->verbs);
	if (rc < 0)
		goto close;
	rc = ask_attributes(device);
	if (rc < 0)
		goto close;
	errno = 0;
	device->pd = ibv_alloc_pd(device->verbs);
	if (!device->pd) {
		rc = device_errno();
		goto close;
	}
	*ret_device = device;
	return 0;
close:
	device_close(device);
	return rc;
}

int device_open_name(const char *name, struct device **ret_device)
{
	struct device_list list;
	int rc = device_list_get(&list);

	if (rc < 0)
		return rc;
	rc = -ENODEV;
	for (size_t i = 0; i < list.n; i++) {
		if (strcmp(device_list_name(&list, i), name) == 0) {
			rc = device_open(&list, i, ret_device);
			break;
		}
	}
	device_list_free(&list);
	return rc;
}

struct device *device_close(struct device *device)
{
	int rc;

	if (!device)
		return NULL;
	if (device->pd) {
		rc = ibv_dealloc_pd(device->pd);
		if (rc)
			log_debug("%s: its protection domain stays: error %d", device->info.name,
				  rc);
	}
	if (device->verbs) {
		rc = ibv_close_device(device->verbs);
		if (rc)
			log_debug("%s: its context stays: error %d", device->info.name, rc);
	}
	free(device);
	return NULL;
}

int device_port(const struct device *device, uint32_t number, struct port *ret_port)
{
	static const uint32_t mtus[] = {0, 256, 512, 1024, 2048, 4096};
	struct ibv_port_attr attr = {0};
	int rc;

	if (number < 1 || number > UINT8_MAX)
		return -EINVAL;
	rc = ibv_query_port(device->verbs, (uint8_t)number, &attr);
	if (rc)
		return rc < 0 ? rc : -rc;
	*ret_port = (struct port){
		.number = number,
		.transport = transport_of(device->verbs, attr.link_layer),
		.state = attr.state,
		.mtu_bytes =
			(unsigned int)attr.active_mtu <= IBV_MTU_4096 ? mtus[attr.active_mtu] : 0,
		.lid = attr.lid,
		.gids = count(attr.gid_tbl_len),
	};
	return 0;
}

int device_event_fd(const struct device *device)
{
	return device->verbs->async_fd;
}

int device_event(const struct device *device, struct ibv_async_event *ret_event)
{
	errno = 0;
	if (ibv_get_async_event(device->verbs, ret_event) == 0)
		return 1;
	return errno == EAGAIN || errno == EINTR ? 0 : device_errno();
}

const char *fabric_transport_name(enum fabric_transport transport)
{
	switch (transport) {
	case FABRIC_IB:
		return "InfiniBand";
	case FABRIC_ROCE:
		return "RoCE";
	case FABRIC_IWARP:
		return "iWARP";
	case FABRIC_UNKNOWN:
		break;
	}
	return "unknown";
}

const char *port_state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_DOWN:
		return "down";
	case IBV_PORT_INIT:
		return "initializing";
	case IBV_PORT_ARMED:
		return "armed";
	case IBV_PORT_ACTIVE:
		return "active";
	case IBV_PORT_ACTIVE_DEFER:
		return "active_defer";
	default:
		return "unknown";
	}
}

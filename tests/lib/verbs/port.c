/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "device.h"
#include "ops.h"
#include "wire.h"

/* verbs.h makes macros of these, for programs. */
#undef ibv_query_port

#define PKEY_DEFAULT 0xffff

static uint32_t either(long override, uint32_t own)
{
	return override == STATE_UNSET ? own : (uint32_t) override;
}

DBL_API int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct dbl_device *device = dbl_context(context)->device;
	const struct personality *p = device->p;
	int rc;

	memset(attr, 0, sizeof(*attr));
	pthread_mutex_lock(&dbl_lock);
	device_refresh();
	rc = device_check(device);
	strncpy(attr->fw_ver, device->desc.fw[0] ? device->desc.fw : p->fw,
		sizeof(attr->fw_ver) - 1);
	attr->node_guid = htobe64(device->desc.guid);
	attr->sys_image_guid = attr->node_guid;
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = 0xfffff000;
	attr->vendor_id = p->vendor_id;
	attr->vendor_part_id = p->part_id;
	attr->max_qp = (int)either(device->desc.max_qp, p->max_qp);
	attr->max_qp_wr = (int)either(device->desc.max_qp_wr, p->max_qp_wr);
	attr->max_sge = (int)p->max_sge;
	attr->max_sge_rd = (int)p->max_sge;
	attr->max_cq = (int)either(device->desc.max_cq, p->max_cq);
	attr->max_cqe = (int)p->max_cqe;
	attr->max_mr = (int)either(device->desc.max_mr, p->max_mr);
	attr->max_pd = 65536;
	attr->max_qp_rd_atom = p->net == NET_OTHER ? 0 : 16;
	attr->max_qp_init_rd_atom = attr->max_qp_rd_atom;
	attr->max_res_rd_atom = 16 * 1024;
	attr->atomic_cap = IBV_ATOMIC_NONE;
	attr->max_pkeys = 1;
	for (unsigned i = 0; i < STATE_PORTS_MAX; i++) {
		if (device->desc.ports[i].present)
			attr->phys_port_cnt = (uint8_t)(i + 1);
	}
	pthread_mutex_unlock(&dbl_lock);
	return rc;
}

static uint8_t link_layer(enum personality_net net)
{
	switch (net) {
	case NET_IB:
		return IBV_LINK_LAYER_INFINIBAND;
	case NET_ROCE:
	case NET_IWARP:
		return IBV_LINK_LAYER_ETHERNET;
	case NET_OTHER:
		break;
	}
	return IBV_LINK_LAYER_UNSPECIFIED;
}

static void fill_port(const struct dbl_device *device, const struct state_port *port,
		      struct ibv_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->state = (enum ibv_port_state)port->state;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = (enum ibv_mtu)port->mtu;
	attr->gid_tbl_len = STATE_GIDS_MAX;
	attr->max_msg_sz = WIRE_PAYLOAD_MAX;
	attr->pkey_tbl_len = 1;
	attr->lid = port->lid;
	attr->active_width = 2;
	attr->active_speed = 32;
	/* LinkUp and Disabled of the physical port, as verbs numbers them. */
	attr->phys_state = port->state == IBV_PORT_ACTIVE ? 5 : 3;
	attr->link_layer = link_layer(device->p->net);
	if (device->p->net == NET_ROCE)
		attr->flags = IBV_QPF_GRH_REQUIRED;
}

int dbl_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		   size_t attr_bytes)
{
	struct dbl_device *device = dbl_context(context)->device;
	struct ibv_port_attr whole;
	struct state_port *port;
	int rc;

	pthread_mutex_lock(&dbl_lock);
	device_refresh();
	rc = device_check(device);
	port = device_port(device, port_num);
	if (rc == 0 && !port)
		rc = EINVAL;
	if (rc == 0)
		fill_port(device, port, &whole);
	pthread_mutex_unlock(&dbl_lock);
	if (rc == 0)
		memcpy(attr, &whole, attr_bytes < sizeof(whole) ? attr_bytes : sizeof(whole));
	return rc;
}

/* The function behind programs of an older ABI, whose structure ends at `flags`. */
DBL_API int ibv_query_port(struct ibv_context *context, uint8_t port_num,
			   struct _compat_ibv_port_attr *attr)
{
	return dbl_query_port(context, port_num, (struct ibv_port_attr *)attr,
			      offsetof(struct ibv_port_attr, flags));
}

DBL_API int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
			      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes)
{
	struct dbl_device *device = dbl_context(context)->device;
	struct ibv_gid_entry whole = {.gid_index = gid_index, .port_num = port_num};
	struct state_port *port;
	int rc;

	if (flags)
		return EOPNOTSUPP;
	pthread_mutex_lock(&dbl_lock);
	device_refresh();
	rc = device_check(device);
	port = device_port(device, port_num);
	if (rc == 0 && (!port || gid_index >= STATE_GIDS_MAX))
		rc = EINVAL;
	if (rc == 0 && !port->gids[gid_index].valid)
		rc = ENODATA;
	if (rc == 0) {
		memcpy(whole.gid.raw, port->gids[gid_index].raw, 16);
		whole.gid_type = port->gids[gid_index].type;
		whole.ndev_ifindex = port->gids[gid_index].ifindex;
	}
	pthread_mutex_unlock(&dbl_lock);
	if (rc == 0)
		memcpy(entry, &whole, entry_bytes < sizeof(whole) ? entry_bytes : sizeof(whole));
	return rc;
}

DBL_API ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				     size_t max_entries, uint32_t flags, size_t entry_bytes)
{
	size_t count = 0;

	if (flags)
		return -EOPNOTSUPP;
	for (uint32_t port = 1; port <= STATE_PORTS_MAX; port++) {
		for (uint32_t i = 0; i < STATE_GIDS_MAX; i++) {
			struct ibv_gid_entry entry;
			int rc = _ibv_query_gid_ex(context, port, i, &entry, 0, sizeof(entry));

			if (rc == EIO)
				return -EIO;
			if (rc)
				continue;
			if (count == max_entries)
				return -EINVAL;
			memcpy((uint8_t *)entries + count * entry_bytes, &entry,
			       entry_bytes < sizeof(entry) ? entry_bytes : sizeof(entry));
			count++;
		}
	}
	return (ssize_t)count;
}

DBL_API int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
			  union ibv_gid *gid)
{
	struct ibv_gid_entry entry;
	int rc = _ibv_query_gid_ex(context, port_num, (uint32_t)index, &entry, 0, sizeof(entry));

	if (rc == ENODATA)
		memset(gid, 0, sizeof(*gid));
	else if (rc == 0)
		*gid = entry.gid;
	if (rc == 0 || rc == ENODATA)
		return 0;
	errno = rc;
	return -1;
}

DBL_API int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	struct ibv_port_attr attr;
	int rc = dbl_query_port(context, port_num, &attr, sizeof(attr));

	if (rc || index != 0) {
		errno = rc ? rc : EINVAL;
		return -1;
	}
	*pkey = htons(PKEY_DEFAULT);
	return 0;
}

DBL_API int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	__be16 own;

	if (ibv_query_pkey(context, port_num, 0, &own) < 0)
		return -1;
	if (own == pkey)
		return 0;
	errno = EINVAL;
	return -1;
}

DBL_API const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

DBL_API __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return htobe64(dbl_device(device)->desc.guid);
}

DBL_API int ibv_get_device_index(struct ibv_device *device)
{
	return dbl_device(device)->desc.index;
}

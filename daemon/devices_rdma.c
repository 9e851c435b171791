/* SPDX-License-Identifier: MIT */
#include <ifaddrs.h>
#include <string.h>

#include "devices.h"
#include "devices_impl.h"
#include "peer_conf.h"

/* Bits of a network mask. */
static uint8_t count_bits(const uint8_t *mask, size_t bytes)
{
	uint8_t bits = 0;

	for (size_t i = 0; i < bytes; i++)
		bits = (uint8_t)(bits + __builtin_popcount(mask[i]));
	return bits;
}

/* The prefix length of @address, of the host's addresses @all; 0 if it is none of these. */
static uint8_t prefix_of(const struct ifaddrs *all, const union gid_address *address)
{
	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		const struct sockaddr_in6 *in6 = (const void *)at->ifa_addr;
		const struct sockaddr_in *in = (const void *)at->ifa_addr;

		if (!at->ifa_addr || !at->ifa_netmask ||
		    at->ifa_addr->sa_family != address->any.sa_family)
			continue;
		if (at->ifa_addr->sa_family == AF_INET &&
		    in->sin_addr.s_addr == address->in.sin_addr.s_addr)
			return count_bits(
				(const void *)&(
					(const struct sockaddr_in *)(const void *)at->ifa_netmask)
					->sin_addr,
				4);
		if (at->ifa_addr->sa_family == AF_INET6 &&
		    memcmp(&in6->sin6_addr, &address->in6.sin6_addr, 16) == 0)
			return count_bits(
				(const void *)&(
					(const struct sockaddr_in6 *)(const void *)at->ifa_netmask)
					->sin6_addr,
				16);
	}
	return 0;
}

static void put_address(struct peer_rdma *rdma, const union gid_address *address)
{
	if (address->any.sa_family == AF_INET) {
		rdma->address.family = 4;
		memcpy(rdma->address.addr, &address->in.sin_addr, 4);
	} else if (address->any.sa_family == AF_INET6) {
		rdma->address.family = 6;
		memcpy(rdma->address.addr, &address->in6.sin6_addr, 16);
	}
}

static void describe(const struct host_device *dev, const struct host_facts *facts,
		     const struct ifaddrs *all, struct peer_rdma *rdma)
{
	static const enum peer_transport transports[] = {
		[GID_IB] = PEER_TRANSPORT_IB,
		[GID_ROCE_V1] = PEER_TRANSPORT_ROCE,
		[GID_ROCE_V2] = PEER_TRANSPORT_ROCE,
		[GID_IWARP] = PEER_TRANSPORT_IWARP,
	};
	const struct gid *gid = &facts->gid;

	memset(rdma, 0, sizeof(*rdma));
	rdma->transport = (uint8_t)transports[gid->type];
	rdma->gid_type = gid->type == GID_ROCE_V1 ? 1 : gid->type == GID_ROCE_V2 ? 2 : 0;
	memcpy(rdma->gid, gid->raw.raw, sizeof(rdma->gid));
	put_address(rdma, &gid->address);
	if (rdma->address.family) {
		rdma->address.port = facts->cm_port;
		rdma->prefix = prefix_of(all, &gid->address);
	}
	memcpy(rdma->device, dev->name, strnlen(dev->name, sizeof(rdma->device) - 1));
}

size_t devices_rdma(const struct devices *devices, struct peer_rdma *ret_rdma, size_t max)
{
	struct ifaddrs *all = NULL;
	struct list *node;
	size_t n = 0;

	if (!devices || list_is_empty(&devices->all))
		return 0;
	if (getifaddrs(&all) < 0)
		all = NULL;
	list_for_each (node, &devices->all) {
		const struct host_device *dev = list_entry(node, struct host_device, link);

		if (dev->stage != HOST_READY)
			continue;
		for (uint32_t i = 0; i < dev->n_ports && n < max; i++) {
			if (dev->ports[i].facts.has_gid)
				describe(dev, &dev->ports[i].facts, all, &ret_rdma[n++]);
		}
	}
	if (all)
		freeifaddrs(all);
	return n;
}

/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fabric/gid.h"

#define MAC_BYTES 6

CLEANUP_DEFINE(ifaddrs, struct ifaddrs *, NULL, freeifaddrs);
#define AUTO_IFADDRS CLEANUP(cleanup_ifaddrs)

static enum gid_scope scope_of(const union gid_address *address)
{
	const struct in6_addr *in6 = &address->in6.sin6_addr;
	uint32_t in;

	switch (address->any.sa_family) {
	case AF_INET:
		in = ntohl(address->in.sin_addr.s_addr);
		if (in == INADDR_ANY)
			return GID_SCOPE_NONE;
		return in >> 16 == 0xa9fe ? GID_SCOPE_LINK : GID_SCOPE_WIDE;
	case AF_INET6:
		if (IN6_IS_ADDR_UNSPECIFIED(in6))
			return GID_SCOPE_NONE;
		return IN6_IS_ADDR_LINKLOCAL(in6) ? GID_SCOPE_LINK : GID_SCOPE_WIDE;
	default:
		return GID_SCOPE_NONE;
	}
}

/* RoCE: the GID is the address, IPv4 mapped into IPv6. */
static void address_of_roce(struct gid *gid)
{
	struct in6_addr in6;

	memcpy(&in6, gid->raw.raw, sizeof(in6));
	if (IN6_IS_ADDR_V4MAPPED(&in6)) {
		gid->address.in.sin_family = AF_INET;
		memcpy(&gid->address.in.sin_addr, &in6.s6_addr[12], sizeof(struct in_addr));
	} else {
		gid->address.in6.sin6_family = AF_INET6;
		gid->address.in6.sin6_addr = in6;
		if (IN6_IS_ADDR_LINKLOCAL(&in6))
			gid->address.in6.sin6_scope_id = gid->ifindex;
	}
	gid->scope = scope_of(&gid->address);
}

/* iWARP devices of older kernels do not name their network device; their GID is its hardware
 * address. */
static uint32_t netdev_by_mac(const struct ifaddrs *list, const union ibv_gid *raw)
{
	static const uint8_t none[MAC_BYTES];

	if (memcmp(raw->raw, none, MAC_BYTES) == 0)
		return 0;
	for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
		const struct sockaddr_ll *link = (const void *)at->ifa_addr;

		if (link && link->sll_family == AF_PACKET && link->sll_halen == MAC_BYTES &&
		    memcmp(link->sll_addr, raw->raw, MAC_BYTES) == 0)
			return (uint32_t)link->sll_ifindex;
	}
	return 0;
}

/* iWARP: the address of the network device that reaches farthest, IPv4 first. */
static void address_of_iwarp(const struct ifaddrs *list, struct gid *gid)
{
	char name[IF_NAMESIZE];

	if (gid->ifindex == 0)
		gid->ifindex = netdev_by_mac(list, &gid->raw);
	if (gid->ifindex == 0 || !if_indextoname(gid->ifindex, name))
		return;
	for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
		union gid_address address = {{0}};
		enum gid_scope scope;

		if (!at->ifa_addr || strcmp(at->ifa_name, name) != 0)
			continue;
		if (at->ifa_addr->sa_family == AF_INET)
			memcpy(&address.in, at->ifa_addr, sizeof(address.in));
		else if (at->ifa_addr->sa_family == AF_INET6)
			memcpy(&address.in6, at->ifa_addr, sizeof(address.in6));
		scope = scope_of(&address);
		if (scope > gid->scope ||
		    (scope == gid->scope && scope != GID_SCOPE_NONE &&
		     address.any.sa_family == AF_INET && gid->address.any.sa_family != AF_INET)) {
			gid->scope = scope;
			gid->address = address;
		}
	}
}

static enum gid_type type_of(const struct device *device, uint32_t gid_type)
{
	if (device->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return GID_IWARP;
	switch (gid_type) {
	case IBV_GID_TYPE_ROCE_V1:
		return GID_ROCE_V1;
	case IBV_GID_TYPE_ROCE_V2:
		return GID_ROCE_V2;
	default:
		return GID_IB;
	}
}

static void gid_fill(const struct device *device, const struct ibv_gid_entry *entry,
		     const struct ifaddrs *addresses, struct gid *ret_gid)
{
	*ret_gid = (struct gid){
		.raw = entry->gid,
		.port = entry->port_num,
		.index = entry->gid_index,
		.type = type_of(device, entry->gid_type),
		.scope = GID_SCOPE_NONE,
		.ifindex = entry->ndev_ifindex,
	};
	if (ret_gid->type == GID_IWARP)
		address_of_iwarp(addresses, ret_gid);
	else if (ret_gid->type != GID_IB)
		address_of_roce(ret_gid);
	if (ret_gid->ifindex && !if_indextoname(ret_gid->ifindex, ret_gid->netdev))
		ret_gid->netdev[0] = '\0';
}

ssize_t gid_list(const struct device *device, uint32_t port, struct gid *ret_gids, size_t max)
{
	AUTO_FREE struct ibv_gid_entry *entries = calloc(GID_LIST_MAX, sizeof(*entries));
	AUTO_IFADDRS struct ifaddrs *addresses = NULL;
	size_t n = 0;
	ssize_t got;

	if (!entries)
		return -ENOMEM;
	errno = 0;
	got = ibv_query_gid_table(device->verbs, entries, GID_LIST_MAX, 0);
	if (got < 0)
		return got;
	if (getifaddrs(&addresses) < 0)
		return errno ? -errno : -EIO;
	for (size_t i = 0; i < size_min((size_t)got, GID_LIST_MAX) && n < max; i++) {
		if (port == 0 || entries[i].port_num == port)
			gid_fill(device, &entries[i], addresses, &ret_gids[n++]);
	}
	return (ssize_t)n;
}

/* Whether @a is the better choice; what neither wins is decided by the order. */
static bool gid_is_better(const struct gid *a, const struct gid *b)
{
	bool a_v1 = a->type == GID_ROCE_V1, b_v1 = b->type == GID_ROCE_V1;
	bool a_v4 = a->address.any.sa_family == AF_INET;
	bool b_v4 = b->address.any.sa_family == AF_INET;

	if (a_v1 != b_v1)
		return b_v1;
	if (a->scope != b->scope)
		return a->scope > b->scope;
	if (!a->ifindex != !b->ifindex)
		return a->ifindex != 0;
	if (a_v4 != b_v4)
		return a_v4;
	return a->index < b->index;
}

ssize_t gid_choose(const struct gid *gids, size_t n)
{
	ssize_t best = -1;

	for (size_t i = 0; i < n; i++) {
		if (best < 0 || gid_is_better(&gids[i], &gids[best]))
			best = (ssize_t)i;
	}
	return best;
}

const char *gid_text(const struct gid *gid, char text[GID_TEXT_BYTES])
{
	const void *address = gid->raw.raw;
	int family = AF_INET6;

	if (gid->address.any.sa_family == AF_INET) {
		family = AF_INET;
		address = &gid->address.in.sin_addr;
	} else if (gid->address.any.sa_family == AF_INET6) {
		address = &gid->address.in6.sin6_addr;
	}
	if (!inet_ntop(family, address, text, GID_TEXT_BYTES))
		text[0] = '\0';
	return text;
}

const char *gid_type_name(enum gid_type type)
{
	switch (type) {
	case GID_ROCE_V1:
		return "RoCEv1";
	case GID_ROCE_V2:
		return "RoCEv2";
	case GID_IWARP:
		return "iWARP";
	case GID_IB:
		break;
	}
	return "IB";
}

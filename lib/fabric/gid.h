/* SPDX-License-Identifier: MIT */
#pragma once

#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "fabric/device.h"

/*
 * GIDs: the addresses of a port, what kind each is, and to which network device it belongs. They
 * come and go with the addresses of that device, so that an index is only good until the next
 * change (IBV_EVENT_GID_CHANGE).
 */

enum gid_type {
	GID_IB,
	GID_ROCE_V1, /* within one Ethernet segment */
	GID_ROCE_V2, /* over UDP: routable if its address is */
	GID_IWARP,   /* a hardware address: connections go by the network device's addresses */
};

/* How far an address reaches, the best last. */
enum gid_scope {
	GID_SCOPE_NONE, /* not an IP address, or none at all */
	GID_SCOPE_LINK, /* 169.254/16, fe80::/10 */
	GID_SCOPE_WIDE,
};

union gid_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct gid {
	union ibv_gid raw;
	uint32_t port, index;
	enum gid_type type;
	enum gid_scope scope;
	uint32_t ifindex;	  /* network device; 0: none or unknown */
	char netdev[IF_NAMESIZE]; /* its name, or empty */
	/* RoCE: the address that the GID is; iWARP: the best one of the network device. AF_UNSPEC
	 * where there is none. The port in it is 0, the scope set for link-local IPv6. */
	union gid_address address;
};

/* Text of an address, terminator included. */
#define GID_TEXT_BYTES INET6_ADDRSTRLEN

/* Entries that gid_list() gives at most. Chosen: tables hold up to 256 a port, most of them empty;
 * a host with more addresses than this on its ports finds its best among the first. */
#define GID_LIST_MAX 512u

/*
 * The valid GIDs of @port of @device (0: of all ports), in the order of port and index.
 * @ret_gids: room for @max.
 * Returns how many, or -errno: -ENODEV when the device is being removed. May block.
 */
ssize_t gid_list(const struct device *device, uint32_t port, struct gid *ret_gids, size_t max);

/*
 * The one of the @n GIDs at @gids (of one port) that connections of that port should use: in this
 * order
 *   1. RoCE v2 before v1, since v1 does not leave its segment and many fabrics drop it;
 *   2. an address of wide scope before a link-local one, and that before none;
 *   3. one with a network device before one without, whose address can't be resolved;
 *   4. IPv4 before IPv6: the more often configured end to end;
 *   5. the lowest index, so that the choice is the same every time.
 * Returns its place in @gids, or -1 if @n is 0. Pure.
 */
ssize_t gid_choose(const struct gid *gids, size_t n);

/* Text of the address of @gid, or of the GID itself where there is none. Returns @text. */
const char *gid_text(const struct gid *gid, char text[GID_TEXT_BYTES]);

/* "IB", "RoCEv1", "RoCEv2", "iWARP". */
const char *gid_type_name(enum gid_type type);

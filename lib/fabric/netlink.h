/* SPDX-License-Identifier: MIT */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nl_sock;

/*
 * What the kernel tells of its own accord, so that a device that comes, goes or changes is looked
 * at again at once:
 *
 *   rtnetlink    links going up and down, addresses coming and going: GIDs follow them
 *   uevents      devices of the classes infiniband and infiniband_verbs: added, removed, renamed
 *   rdma netlink devices registered and unregistered, network devices attached (since Linux 6.12)
 *
 * None of it is believed beyond "look again": what there is now is asked from verbs. Each of the
 * three may be missing, and all of them may lose messages; a slow periodic look is the net beneath.
 */

enum netlink_kind {
	NETLINK_KIND_ROUTE,
	NETLINK_KIND_UEVENT,
	NETLINK_KIND_RDMA,
	NETLINK_KINDS,
};

/* What may have changed. */
struct netlink_news {
	bool devices; /* the list of devices */
	bool ports;   /* states, addresses and GIDs of ports */
};

struct netlink {
	struct nl_sock *socks[NETLINK_KINDS]; /* NULL: not to be had */
	int errors[NETLINK_KINDS];	      /* and why: -errno */
};

/*
 * Begin to listen, as far as that is possible: @netlink tells what is missing. No rights are
 * needed. Never fails as a whole.
 */
void netlink_open(struct netlink *netlink);
void netlink_close(struct netlink *netlink);

/* The descriptor of @kind, to be watched for input; -1 if it is missing. It stays netlink's. */
int netlink_fd(const struct netlink *netlink, enum netlink_kind kind);

/*
 * Read what has come by @kind, at most a fixed number of messages so that a flood can't hold the
 * loop up: what is left makes the descriptor readable again. Never blocks.
 * @news: what may have changed is added to it. Messages that were lost count as "everything".
 */
void netlink_read(struct netlink *netlink, enum netlink_kind kind, struct netlink_news *news);

/*
 * What the message @bytes of @kind says. @news: added to. Pure; reads nothing beyond @len.
 */
void netlink_parse(enum netlink_kind kind, const void *bytes, size_t len,
		   struct netlink_news *news);

/* "rtnetlink", "uevents", "rdma netlink". */
const char *netlink_kind_name(enum netlink_kind kind);

/*
 * The network device of @port of the RDMA device @name, as rdma netlink tells: known even while
 * the port has no GID. @ret_ifindex: set with 0.
 * Returns 0; -ENODEV when there is no such device or it has no network device there;
 * -EPROTONOSUPPORT where the kernel has no rdma netlink; -ETIMEDOUT, -EPERM, -ENOMEM.
 * Blocks for the kernel's answer, at most a second: not for the daemon's loop.
 */
int netlink_port_netdev(const char *name, uint32_t port, uint32_t *ret_ifindex);

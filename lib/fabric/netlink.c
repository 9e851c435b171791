/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fabric/netlink.h"

/* Messages read at a time. Chosen: some microseconds each. */
#define READ_BATCH 64

/* Uevents that the kernel sends, before udev has looked at them. */
#define UEVENT_GROUP_KERNEL 1

/* Of rdma netlink's notifications; the headers of rdma-core have it since version 55. */
#define RDMA_GROUP_NOTIFY 4

/* Room for bursts, bytes. Chosen: a host with a thousand interfaces going up at once. */
#define RECEIVE_BYTES (1 << 20)

struct source {
	int protocol;
	const int *groups;
	size_t n_groups;
};

static const int route_groups[] = {RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR};
static const int uevent_groups[] = {UEVENT_GROUP_KERNEL};
static const int rdma_groups[] = {RDMA_GROUP_NOTIFY};

static const struct source sources[NETLINK_KINDS] = {
	[NETLINK_KIND_ROUTE] = {NETLINK_ROUTE, route_groups, ARRAY_SIZE(route_groups)},
	[NETLINK_KIND_UEVENT] = {NETLINK_KOBJECT_UEVENT, uevent_groups, ARRAY_SIZE(uevent_groups)},
	[NETLINK_KIND_RDMA] = {NETLINK_RDMA, rdma_groups, ARRAY_SIZE(rdma_groups)},
};

/* libnl folds errno into fewer codes of its own; where it has called the kernel, errno is exact. */
static int error_of(int nl_error)
{
	if (errno > 0)
		return -errno;
	switch (-nl_error) {
	case NLE_NOMEM:
		return -ENOMEM;
	case NLE_PERM:
		return -EPERM;
	default:
		return -EIO;
	}
}

static int open_source(const struct source *source, struct nl_sock **ret_sock)
{
	struct nl_sock *sock = nl_socket_alloc();
	int rc;

	if (!sock)
		return -ENOMEM;
	errno = 0;
	nl_socket_disable_seq_check(sock);
	rc = nl_connect(sock, source->protocol);
	for (size_t i = 0; rc == 0 && i < source->n_groups; i++)
		rc = nl_socket_add_membership(sock, source->groups[i]);
	if (rc == 0)
		rc = nl_socket_set_nonblocking(sock);
	if (rc < 0) {
		rc = error_of(rc);
		nl_socket_free(sock);
		return rc;
	}
	/* A smaller buffer only loses more, which is told. */
	nl_socket_set_buffer_size(sock, RECEIVE_BYTES, 0);
	*ret_sock = sock;
	return 0;
}

void netlink_open(struct netlink *netlink)
{
	memset(netlink, 0, sizeof(*netlink));
	for (size_t i = 0; i < NETLINK_KINDS; i++)
		netlink->errors[i] = open_source(&sources[i], &netlink->socks[i]);
}

void netlink_close(struct netlink *netlink)
{
	for (size_t i = 0; i < NETLINK_KINDS; i++) {
		if (netlink->socks[i])
			nl_socket_free(netlink->socks[i]);
		netlink->socks[i] = NULL;
	}
}

int netlink_fd(const struct netlink *netlink, enum netlink_kind kind)
{
	return netlink->socks[kind] ? nl_socket_get_fd(netlink->socks[kind]) : -1;
}

/* Whether the value of the first line "@key=…" of an event is @value. */
static bool uevent_has(const char *text, size_t len, const char *key, const char *value)
{
	size_t key_len = strlen(key), value_len = strlen(value), line;

	for (size_t at = 0; at < len; at += line + 1) {
		line = strnlen(text + at, len - at);
		if (line == key_len + 1 + value_len && memcmp(text + at, key, key_len) == 0 &&
		    text[at + key_len] == '=' &&
		    memcmp(text + at + key_len + 1, value, value_len) == 0)
			return true;
	}
	return false;
}

static void parse_uevent(const char *text, size_t len, struct netlink_news *news)
{
	if (uevent_has(text, len, "SUBSYSTEM", "infiniband") ||
	    uevent_has(text, len, "SUBSYSTEM", "infiniband_verbs"))
		news->devices = true;
}

static void parse_route(struct nlmsghdr *header, struct netlink_news *news)
{
	switch (header->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
	case RTM_NEWADDR:
	case RTM_DELADDR:
		news->ports = true;
		break;
	default:
		break;
	}
}

void netlink_parse(enum netlink_kind kind, const void *bytes, size_t len, struct netlink_news *news)
{
	struct nlmsghdr *header = (struct nlmsghdr *)(uintptr_t)bytes;
	int left = len > INT32_MAX ? INT32_MAX : (int)len;

	if (kind == NETLINK_KIND_UEVENT) {
		parse_uevent(bytes, len, news);
		return;
	}
	for (; nlmsg_ok(header, left); header = nlmsg_next(header, &left)) {
		if (kind == NETLINK_KIND_ROUTE)
			parse_route(header, news);
		else if (header->nlmsg_type >= NLMSG_MIN_TYPE)
			news->devices = news->ports = true;
	}
}

void netlink_read(struct netlink *netlink, enum netlink_kind kind, struct netlink_news *news)
{
	for (int i = 0; i < READ_BATCH; i++) {
		AUTO_FREE unsigned char *bytes = NULL;
		struct sockaddr_nl from = {0};
		int len;

		errno = 0;
		len = nl_recv(netlink->socks[kind], &from, &bytes, NULL);
		if (len == -NLE_AGAIN || len == 0)
			return;
		if (len == -NLE_INTR)
			continue;
		if (len < 0) {
			/* Lost some: the buffer was full. */
			news->devices = news->ports = true;
			return;
		}
		/* Only the kernel has port 0; anybody privileged may send to a group. */
		if (from.nl_pid == 0)
			netlink_parse(kind, bytes, (size_t)len, news);
	}
}

const char *netlink_kind_name(enum netlink_kind kind)
{
	switch (kind) {
	case NETLINK_KIND_ROUTE:
		return "rtnetlink";
	case NETLINK_KIND_UEVENT:
		return "uevents";
	case NETLINK_KIND_RDMA:
		return "rdma netlink";
	case NETLINK_KINDS:
		break;
	}
	return "invalid";
}

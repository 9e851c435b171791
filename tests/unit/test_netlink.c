/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/util.h"
#include "fabric/netlink.h"

#include "lib/tap.h"

#define WAIT_MS 5000

static struct netlink_news parse(enum netlink_kind kind, const void *bytes, size_t len)
{
	/* A copy of exactly that size, so that a sanitizer sees any byte read beyond it. */
	void *copy = malloc(len ? len : 1);
	struct netlink_news news = {0};

	memcpy(copy, bytes, len);
	netlink_parse(kind, copy, len, &news);
	free(copy);
	return news;
}

TAP_CASE(uevents_of_rdma_devices_are_told_from_others)
{
	static const struct {
		const char *text;
		size_t len;
		bool devices;
	} events[] = {
#define EVENT(text, devices) {text, sizeof(text), devices}
		EVENT("add@/devices/x/infiniband/rxe0\0ACTION=add\0SUBSYSTEM=infiniband\0"
		      "NAME=rxe0\0SEQNUM=7",
		      true),
		EVENT("remove@/x/uverbs0\0ACTION=remove\0SUBSYSTEM=infiniband_verbs", true),
		EVENT("add@/x/umad0\0SUBSYSTEM=infiniband_mad", false),
		EVENT("add@/class/net/eth0\0SUBSYSTEM=net\0INTERFACE=infiniband", false),
		EVENT("x@SUBSYSTEM=infiniband", false),
		EVENT("NOTSUBSYSTEM=infiniband", false),
		EVENT("SUBSYSTEM=infinibande", false),
		EVENT("SUBSYSTEM=", false),
		EVENT("\0\0\0SUBSYSTEM=infiniband\0\0", true),
		{"SUBSYSTEM=infiniband", 20, true}, /* without its terminator */
		{"SUBSYSTEM=infiniband", 19, false},
		{"", 0, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		struct netlink_news news =
			parse(NETLINK_KIND_UEVENT, events[i].text, events[i].len);

		if (!CHECK_EQ(news.devices, events[i].devices))
			tap_diag("%s", events[i].text);
		CHECK(!news.ports);
	}
}

TAP_CASE(route_messages_mean_ports_and_broken_ones_mean_nothing)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg info;
	} msg = {.header = {.nlmsg_len = sizeof(msg), .nlmsg_type = RTM_NEWLINK}};
	static const uint16_t types[] = {RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR, RTM_DELADDR};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		msg.header.nlmsg_type = types[i];
		CHECK(parse(NETLINK_KIND_ROUTE, &msg, sizeof(msg)).ports);
		CHECK(!parse(NETLINK_KIND_ROUTE, &msg, sizeof(msg)).devices);
	}
	msg.header.nlmsg_type = RTM_NEWNEIGH;
	CHECK(!parse(NETLINK_KIND_ROUTE, &msg, sizeof(msg)).ports);
	msg.header.nlmsg_type = RTM_NEWLINK;
	for (size_t len = 0; len < sizeof(msg); len++)
		CHECK(!parse(NETLINK_KIND_ROUTE, &msg, len).ports);
	msg.header.nlmsg_len = 1 << 30;
	CHECK(!parse(NETLINK_KIND_ROUTE, &msg, sizeof(msg)).ports);
	msg.header.nlmsg_len = 0;
	CHECK(!parse(NETLINK_KIND_ROUTE, &msg, sizeof(msg)).ports);
}

/* The kernel itself, in a network namespace of our own: its loopback goes up and gets an address.
 */
TAP_CASE(the_kernel_tells_of_links_and_addresses)
{
	struct ifreq request = {.ifr_name = "lo"};
	struct netlink_news news = {0};
	struct netlink netlink;
	struct pollfd wait;
	int sock;

	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		SKIP("no right to make a network namespace");
	netlink_open(&netlink);
	REQUIRE_OK(netlink.errors[NETLINK_KIND_ROUTE]);
	wait = (struct pollfd){.fd = netlink_fd(&netlink, NETLINK_KIND_ROUTE), .events = POLLIN};
	netlink_read(&netlink, NETLINK_KIND_ROUTE, &news);
	CHECK(!news.ports); /* nothing has happened; and it does not block */

	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	request.ifr_flags = IFF_UP;
	CHECK_OK(ioctl(sock, SIOCSIFFLAGS, &request));
	for (int i = 0; i < 3 && !news.ports && CHECK_EQ(poll(&wait, 1, WAIT_MS), 1); i++)
		netlink_read(&netlink, NETLINK_KIND_ROUTE, &news);
	CHECK(news.ports);
	CHECK(!news.devices);
	close(sock);
	netlink_close(&netlink);
}

/* What is missing is told, and the rest works. */
TAP_CASE(a_kernel_without_rdma_is_no_failure)
{
	struct netlink netlink;
	uint32_t ifindex;
	int rc;

	netlink_open(&netlink);
	for (enum netlink_kind kind = 0; kind < NETLINK_KINDS; kind++) {
		CHECK_EQ(netlink_fd(&netlink, kind) < 0, netlink.errors[kind] < 0);
		tap_diag("%s: %s", netlink_kind_name(kind), strerror(-netlink.errors[kind]));
	}
	CHECK_OK(netlink.errors[NETLINK_KIND_ROUTE]);
	CHECK_OK(netlink.errors[NETLINK_KIND_UEVENT]);
	netlink_close(&netlink);
	rc = netlink_port_netdev("no-such-device", 1, &ifindex);
	CHECK(rc == -EPROTONOSUPPORT || rc == -ENODEV);
	tap_diag("netdev of a device that isn't there: %s", strerror(-rc));
}

/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/util.h"
#include "fabric/gid.h"

#include "lib/tap.h"
#include "lib/verbs/host.h"

/* Devices, ports, GIDs and events of the library, on the verbs double. */

static struct verbs_host *host_with(const char *personality, const char *ip)
{
	struct verbs_host *host = verbs_host_new();

	verbs_host_add(host, "d", personality, ip);
	verbs_host_netdev(host, "d", "lo", 1);
	verbs_host_enter(host);
	return host;
}

static void free_host(struct verbs_host *host)
{
	CHECK(verbs_host_wait_free(host, "d", 2000));
	verbs_host_free(host);
}

TAP_CASE(what_there_is_is_listed)
{
	struct verbs_host *host = verbs_host_new();
	struct device_list list = {0, NULL};

	verbs_host_enter(host);
	CHECK_EQ(device_list_get(&list), 0);
	CHECK_EQ(list.n, 0);
	device_list_free(&list);
	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_add(host, "b", "siw", "10.77.0.2");
	CHECK_EQ(device_list_get(&list), 0);
	REQUIRE(list.n == 2);
	CHECK_STR(device_list_name(&list, 0), "a");
	CHECK_STR(device_list_name(&list, 1), "b");
	device_list_free(&list);
	CHECK_EQ(list.n, 0);
	verbs_host_free(host);
}

TAP_CASE(attributes_of_each_transport)
{
	static const struct {
		const char *personality, *driver;
		enum fabric_transport transport;
		uint32_t vendor_id;
		bool rc;
	} cases[] = {
		{"mlx5", "mlx5_core", FABRIC_ROCE, 0x02c9, true},
		{"mlx5-ib", "mlx5_core", FABRIC_IB, 0x02c9, true},
		{"siw", "siw", FABRIC_IWARP, 0x626d74, true},
		{"rxe", "rdma_rxe", FABRIC_ROCE, 0xffffff, true},
		{"efa", "efa", FABRIC_UNKNOWN, 0x1d0f, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct verbs_host *host = host_with(cases[i].personality, "127.0.0.1");
		struct device *device = NULL;

		verbs_host_set(host, "d", "fw", "12.34.5678");
		verbs_host_set(host, "d", "guid", "0011223344556677");
		REQUIRE_OK(device_open_name("d", &device));
		CHECK_STR(device->info.name, "d");
		CHECK_STR(device->info.driver, cases[i].driver);
		CHECK_STR(device->info.firmware, "12.34.5678");
		CHECK(device->info.guid == 0x0011223344556677);
		CHECK_EQ(device->info.vendor_id, cases[i].vendor_id);
		CHECK_EQ(device->info.transport, cases[i].transport);
		CHECK_EQ(device->info.rc, cases[i].rc);
		CHECK_EQ(device->info.ports, 1);
		CHECK(device->info.max_qp > 0 && device->info.max_qp_wr >= 1024);
		CHECK(device->info.provider[0]);
		device = device_close(device);
		free_host(host);
	}
}

TAP_CASE(ports_tell_their_state)
{
	struct verbs_host *host = host_with("rxe", "10.77.0.1");
	struct device *device = NULL;
	struct port port;

	REQUIRE_OK(device_open_name("d", &device));
	CHECK_EQ(device_port(device, 1, &port), 0);
	CHECK_EQ(port.number, 1);
	CHECK_EQ(port.state, IBV_PORT_ACTIVE);
	CHECK_EQ(port.transport, FABRIC_ROCE);
	CHECK_EQ(port.mtu_bytes, 1024);
	CHECK(port.gids > 0);
	CHECK_EQ(device_port(device, 0, &port), -EINVAL);
	CHECK(device_port(device, 2, &port) < 0);
	CHECK_EQ(device_port(device, 256, &port), -EINVAL);
	device_close(device);
	free_host(host);
}

/* RoCE: link-local and routable, as v1 and v2 each; the last is to be used. */
TAP_CASE(gids_of_roce)
{
	struct verbs_host *host = host_with("rxe", "10.77.0.1");
	struct gid gids[GID_LIST_MAX];
	struct device *device = NULL;
	char text[GID_TEXT_BYTES];
	ssize_t n, best;

	REQUIRE_OK(device_open_name("d", &device));
	n = gid_list(device, 1, gids, ARRAY_SIZE(gids));
	CHECK_EQ(n, 4);
	CHECK_EQ(gid_list(device, 0, gids, ARRAY_SIZE(gids)), 4);
	CHECK_EQ(gid_list(device, 2, gids, ARRAY_SIZE(gids)), 0);
	CHECK_EQ(gid_list(device, 1, gids, 3), 3);
	n = gid_list(device, 1, gids, ARRAY_SIZE(gids));
	CHECK_EQ(gids[0].type, GID_ROCE_V1);
	CHECK_EQ(gids[0].scope, GID_SCOPE_LINK);
	CHECK_EQ(gids[1].type, GID_ROCE_V2);
	best = gid_choose(gids, (size_t)n);
	REQUIRE(best >= 0);
	CHECK_EQ(gids[best].index, 3);
	CHECK_EQ(gids[best].type, GID_ROCE_V2);
	CHECK_EQ(gids[best].scope, GID_SCOPE_WIDE);
	CHECK_EQ(gids[best].ifindex, 1);
	CHECK_STR(gids[best].netdev, "lo");
	CHECK_EQ(gids[best].address.any.sa_family, AF_INET);
	CHECK_STR(gid_text(&gids[best], text), "10.77.0.1");
	device_close(device);
	free_host(host);
}

/* iWARP: the GID is a hardware address; the address is its network device's. */
TAP_CASE(gids_of_the_others)
{
	struct verbs_host *host = host_with("siw", "127.0.0.1");
	struct gid gids[GID_LIST_MAX];
	struct device *device = NULL;
	char text[GID_TEXT_BYTES];

	REQUIRE_OK(device_open_name("d", &device));
	CHECK_EQ(gid_list(device, 1, gids, ARRAY_SIZE(gids)), 1);
	CHECK_EQ(gids[0].type, GID_IWARP);
	CHECK_EQ(gids[0].scope, GID_SCOPE_WIDE);
	CHECK_STR(gids[0].netdev, "lo");
	CHECK_STR(gid_text(&gids[0], text), "127.0.0.1");
	device = device_close(device);
	free_host(host);

	host = host_with("mlx5-ib", "10.77.0.1");
	REQUIRE_OK(device_open_name("d", &device));
	CHECK_EQ(gid_list(device, 1, gids, ARRAY_SIZE(gids)), 1);
	CHECK_EQ(gids[0].type, GID_IB);
	CHECK_EQ(gids[0].address.any.sa_family, AF_UNSPEC);
	device_close(device);
	free_host(host);
}

/* Wait for an event of @type, for two seconds. */
static bool event_comes(const struct device *device, enum ibv_event_type type)
{
	struct pollfd poll_fd = {.fd = device_event_fd(device), .events = POLLIN};
	struct ibv_async_event event;

	while (poll(&poll_fd, 1, 2000) > 0) {
		if (device_event(device, &event) != 1)
			continue;
		ibv_ack_async_event(&event);
		if (event.event_type == type)
			return true;
	}
	return false;
}

TAP_CASE(events_come_and_do_not_block)
{
	struct verbs_host *host = host_with("rxe", "10.77.0.1");
	struct device *device = NULL;
	struct ibv_async_event event;

	REQUIRE_OK(device_open_name("d", &device));
	CHECK_EQ(device_event(device, &event), 0);
	verbs_host_port(host, "d", "down");
	CHECK(event_comes(device, IBV_EVENT_PORT_ERR));
	verbs_host_port(host, "d", "active");
	CHECK(event_comes(device, IBV_EVENT_PORT_ACTIVE));
	CHECK_EQ(device_event(device, &event), 0);
	device_close(device);
	free_host(host);
}

/* What was opened is closed, also when the opening fails half-way. */
TAP_CASE(nothing_is_held_after_a_failure)
{
	struct verbs_host *host = host_with("rxe", "10.77.0.1");
	struct device *device = NULL;

	verbs_host_faults(host, "alloc_pd errno=ENOMEM");
	CHECK_EQ(device_open_name("d", &device), -ENOMEM);
	CHECK(!device);
	CHECK(verbs_host_wait_free(host, "d", 2000));
	verbs_host_remove(host, "d");
	CHECK_EQ(device_open_name("d", &device), -ENODEV);
	CHECK(!device_close(NULL));
	verbs_host_free(host);
}

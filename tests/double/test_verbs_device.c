/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/child.h"
#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "pair.h"

/* Devices that come, change and go, and what they tell of themselves. */

#define WAIT_MS 5000

static int count_devices(void)
{
	struct ibv_device **list;
	int count = -1;

	list = ibv_get_device_list(&count);
	if (list)
		ibv_free_device_list(list);
	return count;
}

/* The next event of @context is @type, of port 1 if it is a port's. */
static void check_event(struct ibv_context *context, enum ibv_event_type type)
{
	struct pollfd readable = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	REQUIRE(poll(&readable, 1, WAIT_MS) == 1);
	CHECK_EQ(ibv_get_async_event(context, &event), 0);
	CHECK_STR(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
	if (type != IBV_EVENT_DEVICE_FATAL)
		CHECK_EQ(event.element.port_num, 1);
	ibv_ack_async_event(&event);
}

static void check_no_event(struct ibv_context *context)
{
	struct pollfd readable = {.fd = context->async_fd, .events = POLLIN};

	CHECK_EQ(poll(&readable, 1, 50), 0);
}

TAP_CASE(without_a_folder_there_are_no_devices)
{
	unsetenv("VERBS_DOUBLE_DIR");
	CHECK_EQ(count_devices(), 0);
}

TAP_CASE(devices_come_and_go)
{
	struct verbs_host *host = verbs_host_new();
	struct ibv_device **list;
	struct ibv_device *first;

	verbs_host_enter(host);
	CHECK_EQ(count_devices(), 0);
	verbs_host_add(host, "a", "mlx5", "10.77.0.1");
	CHECK_EQ(count_devices(), 1);
	list = ibv_get_device_list(NULL);
	first = list[0];
	ibv_free_device_list(list);
	verbs_host_add(host, "b", "siw", "10.77.0.2");
	list = ibv_get_device_list(NULL);
	REQUIRE(list[0] && list[1]);
	/* The same device is the same pointer, which librdmacm relies on. */
	CHECK(list[0] == first);
	CHECK_STR(ibv_get_device_name(list[0]), "a");
	CHECK_EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
	CHECK_EQ(list[1]->transport_type, IBV_TRANSPORT_IWARP);
	CHECK_EQ(list[1]->node_type, IBV_NODE_RNIC);
	CHECK(ibv_get_device_guid(list[0]) != ibv_get_device_guid(list[1]));
	CHECK(ibv_get_device_index(list[0]) != ibv_get_device_index(list[1]));
	ibv_free_device_list(list);
	verbs_host_remove(host, "a");
	CHECK_EQ(count_devices(), 1);
	/* Under the same name, but another one. */
	verbs_host_add(host, "a", "mlx5", "10.77.0.1");
	CHECK_EQ(count_devices(), 2);
	verbs_host_free(host);
}

TAP_CASE(a_device_tells_what_it_is)
{
	struct verbs_host *host = verbs_host_new();
	struct ibv_context *context;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	char path[512], driver[64] = "";

	verbs_host_add(host, "a", "irdma-e810", "10.77.0.1");
	verbs_host_enter(host);
	context = pair_open("a");
	REQUIRE(context != NULL);
	CHECK_EQ(ibv_query_device(context, &attr), 0);
	CHECK_EQ(attr.vendor_id, 0x8086);
	CHECK_EQ(attr.vendor_part_id, 0x1592);
	CHECK_EQ(attr.phys_port_cnt, 1);
	CHECK_EQ(attr.max_qp_wr, 8126);
	CHECK(attr.node_guid == ibv_get_device_guid(context->device));
	CHECK_EQ(ibv_query_port(context, 1, &port), 0);
	CHECK_EQ(port.state, IBV_PORT_ACTIVE);
	CHECK_EQ(port.active_mtu, IBV_MTU_1024);
	CHECK_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	CHECK_EQ(ibv_query_port(context, 2, &port), EINVAL);
	snprintf(path, sizeof(path), "%s/device/driver", context->device->ibdev_path);
	CHECK(readlink(path, driver, sizeof(driver) - 1) > 0);
	CHECK_STR(driver, "irdma");
	ibv_close_device(context);
	verbs_host_free(host);
}

TAP_CASE(gids_are_those_of_the_network)
{
	struct verbs_host *host = verbs_host_new();
	struct ibv_gid_entry entries[16], entry;
	struct ibv_context *context;
	union ibv_gid gid;

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_netdev(host, "a", "eth7", 7);
	verbs_host_enter(host);
	context = pair_open("a");
	REQUIRE(context != NULL);
	CHECK_EQ(ibv_query_gid_table(context, entries, 16, 0), 4);
	CHECK_EQ(entries[3].gid_type, IBV_GID_TYPE_ROCE_V2);
	CHECK_EQ(entries[2].gid_type, IBV_GID_TYPE_ROCE_V1);
	CHECK_EQ(entries[3].ndev_ifindex, 7);
	CHECK(memcmp(entries[3].gid.raw + 10, "\xff\xff\x0a\x4d\x00\x01", 6) == 0);
	CHECK_EQ(ibv_query_gid_table(context, entries, 3, 0), -EINVAL);
	CHECK_EQ(ibv_query_gid_ex(context, 1, 4, &entry, 0), ENODATA);
	CHECK_EQ(ibv_query_gid_ex(context, 1, 99, &entry, 0), EINVAL);
	CHECK_EQ(ibv_query_gid(context, 1, 4, &gid), 0);
	CHECK_EQ(gid.global.interface_id, 0);
	ibv_close_device(context);
	verbs_host_free(host);
}

TAP_CASE(changes_are_events)
{
	struct verbs_host *host = verbs_host_new();
	struct ibv_context *context;
	struct ibv_port_attr port;

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_add(host, "b", "rxe", "10.77.0.2");
	verbs_host_enter(host);
	context = pair_open("a");
	REQUIRE(context != NULL);
	verbs_host_port(host, "a", "down");
	check_event(context, IBV_EVENT_PORT_ERR);
	CHECK_EQ(ibv_query_port(context, 1, &port), 0);
	CHECK_EQ(port.state, IBV_PORT_DOWN);
	verbs_host_port(host, "a", "active");
	check_event(context, IBV_EVENT_PORT_ACTIVE);
	verbs_host_address(host, "a", "10.77.0.9");
	check_event(context, IBV_EVENT_GID_CHANGE);
	verbs_host_port(host, "b", "down");
	check_no_event(context);
	ibv_close_device(context);
	verbs_host_free(host);
}

/* rxe, siw: no event, and who removes it waits until it is closed. */
TAP_CASE(a_software_device_is_held_until_closed)
{
	struct verbs_host *host = verbs_host_new();
	struct end end;

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_enter(host);
	CHECK(!verbs_host_is_held(host, "a"));
	REQUIRE_OK(pair_end(&end, "a", 4, 0));
	CHECK(verbs_host_is_held(host, "a"));
	verbs_host_remove(host, "a");
	CHECK_EQ(count_devices(), 0);
	check_no_event(end.context);
	CHECK(!verbs_host_wait_free(host, "a", 50));
	CHECK(!ibv_alloc_pd(end.context));
	CHECK_EQ(errno, EIO);
	pair_close(&end);
	CHECK(verbs_host_wait_free(host, "a", 0));
	verbs_host_free(host);
}

TAP_CASE(hardware_is_taken_away)
{
	struct verbs_host *host = verbs_host_new();
	struct ibv_wc wc;
	struct end end;

	verbs_host_add(host, "a", "mlx5", "10.77.0.1");
	verbs_host_enter(host);
	REQUIRE_OK(pair_end(&end, "a", 4, 0));
	CHECK_EQ(pair_recv(&end, 0, 8), 0);
	verbs_host_remove(host, "a");
	check_event(end.context, IBV_EVENT_DEVICE_FATAL);
	REQUIRE(pair_poll(&end, &wc, WAIT_MS));
	CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	pair_close(&end);
	verbs_host_free(host);
}

/* Descriptors are back where they were when the last context is closed. */
TAP_CASE(nothing_stays_open)
{
	struct verbs_host *host = verbs_host_new();
	int before = child_count_fds();
	struct end ends[2];
	struct ibv_wc wc;

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_add(host, "b", "mlx5", "10.77.0.2");
	verbs_host_enter(host);
	for (unsigned i = 0; i < 3; i++) {
		REQUIRE(pair_make(ends, "a", "b") == 0);
		CHECK_EQ(pair_recv(&ends[1], 0, 8), 0);
		CHECK_EQ(pair_send(&ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
		CHECK(pair_poll(&ends[0], &wc, WAIT_MS));
		pair_close(&ends[0]);
		pair_close(&ends[1]);
		CHECK_EQ(child_count_fds(), before);
	}
	verbs_host_free(host);
}

TAP_CASE(pinned_memory_is_limited)
{
	static unsigned char memory[1 << 20];
	struct verbs_host *host = verbs_host_new();
	struct ibv_mr *first, *second;
	struct ibv_pd *pd;
	struct ibv_context *context;

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_set(host, "a", "memlock", "65536");
	verbs_host_enter(host);
	context = pair_open("a");
	REQUIRE(context != NULL);
	pd = ibv_alloc_pd(context);
	CHECK(!ibv_reg_mr(pd, memory, sizeof(memory), 0));
	CHECK_EQ(errno, ENOMEM);
	first = ibv_reg_mr(pd, memory, 32768, 0);
	CHECK(first != NULL);
	second = ibv_reg_mr(pd, memory, 32768, 0);
	CHECK(!second);
	ibv_dereg_mr(first);
	first = ibv_reg_mr(pd, memory, 32768, 0);
	CHECK(first != NULL);
	CHECK(!ibv_reg_mr(pd, memory, 64, IBV_ACCESS_REMOTE_WRITE));
	CHECK_EQ(errno, EINVAL);
	ibv_dereg_mr(first);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	verbs_host_free(host);
}

/* The limit of the process, which holds for all but root; a QP of hardware is pinned, too. */
static void as_a_user(void *unused)
{
	const struct rlimit limit = {61440, 61440};
	struct end end;

	(void)unused;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	CHECK_EQ(pair_end(&end, "hard", 1024, 0), -ENOMEM);
	/* 64 KiB of memory, which is more by a page. */
	CHECK_EQ(pair_end(&end, "soft", 16, 0), -ENOMEM);
}

TAP_CASE(the_processes_own_limit_counts)
{
	struct verbs_host *host = verbs_host_new();

	verbs_host_add(host, "hard", "mlx5", "10.77.0.1");
	verbs_host_add(host, "soft", "rxe", "10.77.0.2");
	verbs_host_enter(host);
	if (child_can_switch())
		child_run(CHILD_UID_OTHER, as_a_user, NULL);
	else
		tap_skip("cannot become another user");
	verbs_host_free(host);
}

TAP_CASE(a_device_may_refuse_to_open)
{
	struct verbs_host *host = verbs_host_new();

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_set(host, "a", "open", "EACCES");
	verbs_host_enter(host);
	CHECK_EQ(count_devices(), 1);
	CHECK(!pair_open("a"));
	CHECK_EQ(errno, EACCES);
	verbs_host_set(host, "a", "open", NULL);
	CHECK(!verbs_host_is_held(host, "a"));
	verbs_host_free(host);
}

TAP_CASE(objects_are_limited)
{
	struct verbs_host *host = verbs_host_new();
	struct end first, second;

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_set(host, "a", "max_qp", "1");
	verbs_host_enter(host);
	REQUIRE_OK(pair_end(&first, "a", 4, 0));
	CHECK_EQ(pair_end(&second, "a", 4, 0), -ENOMEM);
	pair_close(&first);
	verbs_host_set(host, "a", "max_mr", "0");
	CHECK_EQ(pair_end(&second, "a", 4, 0), -ENOMEM);
	verbs_host_free(host);
}

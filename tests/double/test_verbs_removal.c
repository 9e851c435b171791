/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dial.h"
#include "lib/child.h"
#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "pair.h"

/* Devices and peers that go while the CM uses them. */

#define A "10.77.0.1"
#define B "10.77.0.2"

static struct verbs_host *host_with(const char *personality)
{
	struct verbs_host *host = verbs_host_new();

	verbs_host_add(host, "a", personality, A);
	verbs_host_add(host, "b", personality, B);
	verbs_host_enter(host);
	return host;
}

static void resync(void)
{
	struct ibv_context **devices = rdma_get_devices(NULL);

	if (devices)
		rdma_free_devices(devices);
}

DIAL_CASE(removal_is_an_event_here_and_a_farewell_there)
{
	struct verbs_host *host = host_with("rxe");
	bool removal = false, farewell = false;
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_connect(&dial));
	verbs_host_remove(host, "b");
	for (unsigned i = 0; i < 2; i++) {
		struct rdma_cm_event *event;
		struct pollfd readable = {.fd = dial.channel->fd, .events = POLLIN};

		REQUIRE(poll(&readable, 1, 5000) == 1);
		CHECK_EQ(rdma_get_cm_event(dial.channel, &event), 0);
		removal |= event->event == RDMA_CM_EVENT_DEVICE_REMOVAL && event->id == dial.active;
		farewell |= event->event == RDMA_CM_EVENT_DISCONNECTED && event->id == dial.passive;
		rdma_ack_cm_event(event);
	}
	CHECK(removal && farewell);
	dial_end(&dial);
	verbs_host_free(host);
}

/* As in rdma-core 44: what makes librdmacm let go, and what does not. */
DIAL_CASE(librdmacm_keeps_a_device_until_it_looks_again)
{
	struct verbs_host *host = host_with("rxe");
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_connect(&dial));
	CHECK(verbs_host_is_held(host, "a") && verbs_host_is_held(host, "b"));
	verbs_host_remove(host, "b");
	dial_end(&dial);
	CHECK(verbs_host_is_held(host, "b"));
	resync();
	CHECK(!verbs_host_is_held(host, "b"));
	/* The other one it keeps, in use or not. */
	CHECK(verbs_host_is_held(host, "a"));
	/* With the last device gone there is nothing to compare with. */
	verbs_host_remove(host, "a");
	resync();
	CHECK(verbs_host_is_held(host, "a"));
	verbs_host_add(host, "c", "rxe", "10.77.0.3");
	resync();
	CHECK(!verbs_host_is_held(host, "a"));
	verbs_host_remove(host, "c");
	verbs_host_free(host);
}

DIAL_CASE(an_id_keeps_its_device)
{
	struct verbs_host *host = host_with("rxe");
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	verbs_host_remove(host, "a");
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_DEVICE_REMOVAL));
	CHECK(dial.event->id == dial.listener);
	resync();
	CHECK(verbs_host_is_held(host, "a"));
	/* Marked dead at the resync, it goes with its last id. */
	dial_end(&dial);
	CHECK(!verbs_host_is_held(host, "a"));
	verbs_host_free(host);
}

DIAL_CASE(an_address_that_changes_is_an_event)
{
	struct verbs_host *host = host_with("rxe");
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_connect(&dial));
	verbs_host_address(host, "b", "10.77.0.7");
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ADDR_CHANGE));
	CHECK(dial.event->id == dial.active);
	dial_end(&dial);
	verbs_host_free(host);
}

/* Seen with rxe: no event ends the connection, this one just comes again and again. */
DIAL_CASE(a_peer_whose_port_is_down_is_told_of)
{
	struct verbs_host *host = host_with("rxe");
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_connect(&dial));
	verbs_host_port(host, "a", "down");
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_UNREACHABLE));
	CHECK(dial.event->id == dial.active);
	verbs_host_port(host, "a", "active");
	dial_end(&dial);
	verbs_host_free(host);
}

/* Seen with rxe, too: the CM of the device is of no use any more. */
DIAL_CASE(a_dial_without_a_port_ends_the_cm_of_the_device)
{
	struct verbs_host *host = host_with("rxe");
	struct rdma_conn_param param = {.retry_count = 1};
	struct dial dial;

	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_qps(dial.active));
	verbs_host_port(host, "b", "down");
	/* The question sees to it that the file is read. */
	ibv_query_port(dial.active->verbs, 1, &(struct ibv_port_attr){0});
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	verbs_host_port(host, "b", "active");
	CHECK(dial_expect(&dial, RDMA_CM_EVENT_UNREACHABLE));
	dial_acknowledge(&dial);
	rdma_destroy_qp(dial.active);
	rdma_destroy_id(dial.active);
	REQUIRE(dial_resolve(&dial, B, A, 0) && dial_qps(dial.active));
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	CHECK(dial_expect(&dial, RDMA_CM_EVENT_UNREACHABLE));
	dial_end(&dial);
	/* Plugged in again it is another one. */
	verbs_host_remove(host, "b");
	verbs_host_add(host, "b", "rxe", B);
	REQUIRE(dial_listen(&dial, A));
	REQUIRE(dial_resolve(&dial, B, A, 0));
	CHECK(dial_connect(&dial));
	dial_end(&dial);
	verbs_host_free(host);
}

static void dial_and_stay(void *arg)
{
	struct dial dial = {.channel = rdma_create_event_channel()};
	struct rdma_conn_param param = {.retry_count = 1};

	REQUIRE(dial.channel != NULL);
	REQUIRE(dial_resolve(&dial, B, A, *(const uint16_t *)arg) && dial_qps(dial.active));
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ESTABLISHED));
	for (;;)
		pause();
}

/* Another process dials and is killed: its kernel takes leave in its name. */
static void check_death(const char *personality)
{
	struct verbs_host *host = host_with(personality);
	struct rdma_conn_param param = {.retry_count = 1};
	struct dial dial;
	uint16_t port;
	pid_t pid;

	REQUIRE(dial_listen(&dial, A));
	port = be16toh(rdma_get_src_port(dial.listener));
	pid = child_start(CHILD_UID_SAME, dial_and_stay, &port);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_CONNECT_REQUEST));
	dial.passive = dial.event->id;
	REQUIRE(dial_qps(dial.passive));
	CHECK_EQ(rdma_accept(dial.passive, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_ESTABLISHED));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK(dial_expect(&dial, RDMA_CM_EVENT_DISCONNECTED));
	dial_end(&dial);
	verbs_host_free(host);
}

DIAL_CASE(a_peer_that_is_killed)
{
	check_death("rxe");
}

DIAL_CASE(an_iwarp_peer_that_is_killed)
{
	check_death("siw");
}

static void listen_and_die(void *unused)
{
	struct dial dial;

	(void)unused;
	REQUIRE(dial_listen(&dial, A));
	CHECK_EQ(be16toh(rdma_get_src_port(dial.listener)) > 0, 1);
	raise(SIGKILL);
}

/* The kernel of a host whose listener was killed says that nobody listens. */
DIAL_CASE(a_listener_that_was_killed)
{
	struct verbs_host *host = host_with("rxe");
	struct rdma_conn_param param = {.retry_count = 1};
	char path[512], entry[256];
	struct dial dial;
	unsigned port = 0;
	pid_t pid = child_start(CHILD_UID_SAME, listen_and_die, NULL);
	FILE *names;

	waitpid(pid, NULL, 0);
	/* Its port is in the name that it left. */
	snprintf(path, sizeof(path), "ls %s/fabric/cm", verbs_host_dir(host));
	names = popen(path, "r");
	REQUIRE(names && fgets(entry, sizeof(entry), names));
	pclose(names);
	CHECK_EQ(sscanf(strrchr(entry, '-'), "-%u", &port), 1);
	dial = (struct dial){.channel = rdma_create_event_channel()};
	REQUIRE(dial_resolve(&dial, B, A, (uint16_t)port) && dial_qps(dial.active));
	CHECK_EQ(rdma_connect(dial.active, &param), 0);
	REQUIRE(dial_expect(&dial, RDMA_CM_EVENT_REJECTED));
	CHECK_EQ(dial.event->status, 8);
	dial_end(&dial);
	verbs_host_free(host);
}

/* Descriptors, as soon as there are @most or fewer: what closes is seen a moment later. */
static int settled_fds(int most)
{
	int count = child_count_fds();

	for (unsigned waited = 0; waited < 200 && count > most; waited++) {
		usleep(5000);
		count = child_count_fds();
	}
	return count;
}

/* Descriptors are back where they were, but for the devices that librdmacm keeps. */
DIAL_CASE(nothing_else_stays_open)
{
	struct verbs_host *host = host_with("rxe");
	int before = child_count_fds(), devices;
	struct dial dial;

	/* Of the engine 4, of each of librdmacm's contexts 2. */
	devices = before + 4 + 2 * 2;
	for (unsigned i = 0; i < 3; i++) {
		REQUIRE(dial_listen(&dial, A));
		REQUIRE(dial_resolve(&dial, B, A, 0) && dial_connect(&dial));
		dial_end(&dial);
		CHECK_EQ(settled_fds(devices), devices);
	}
	verbs_host_remove(host, "a");
	verbs_host_remove(host, "b");
	verbs_host_add(host, "c", "rxe", "10.77.0.3");
	resync();
	/* rdma_get_devices() opens what there is. */
	CHECK_EQ(settled_fds(devices - 2), devices - 2);
	verbs_host_free(host);
}

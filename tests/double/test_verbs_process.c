/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/child.h"
#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "pair.h"

/* Between processes: of one host, of two hosts, in network namespaces of their own. */

#define WAIT_MS 5000

struct party {
	struct verbs_host *host;
	const char *device;
	int fd; /* to the other: names, then a byte when done */
	bool own_netns;
};

static bool exchange(const struct party *party, const struct end *end, struct end_name *ret_peer)
{
	struct end_name own;

	pair_name(end, &own);
	return send(party->fd, &own, sizeof(own), 0) == sizeof(own) &&
	       recv(party->fd, ret_peer, sizeof(*ret_peer), MSG_WAITALL) == sizeof(*ret_peer);
}

static bool join(const struct party *party, struct end *end, struct end_name *ret_peer)
{
	/* Without receives for as long as it takes: the receiver may be slow. */
	const struct pair_patience patience = {16, 3, 7};

	verbs_host_enter(party->host);
	if (party->own_netns && !CHECK_EQ(unshare(CLONE_NEWNET), 0))
		return false;
	return CHECK_OK(pair_end(end, party->device, 16, 0)) &&
	       CHECK(exchange(party, end, ret_peer)) &&
	       CHECK_EQ(pair_connect(end, ret_peer, patience), 0);
}

static void await(const struct party *party)
{
	char byte;

	CHECK_EQ(send(party->fd, "x", 1, 0), 1);
	CHECK_EQ(recv(party->fd, &byte, 1, MSG_WAITALL), 1);
}

/* Receives 200 messages into its memory, and 4000 bytes by WRITE. */
static void receive(void *arg)
{
	const struct party *party = arg;
	struct end_name peer;
	struct ibv_wc wc;
	struct end end;

	REQUIRE(join(party, &end, &peer));
	for (unsigned i = 0; i < 16; i++)
		CHECK_EQ(pair_recv(&end, i * 100, 100), 0);
	await(party);
	for (unsigned i = 0; i < 200; i++) {
		REQUIRE(pair_poll(&end, &wc, WAIT_MS));
		if (!CHECK_EQ(wc.status, IBV_WC_SUCCESS) || !CHECK_EQ(wc.byte_len, 1 + i % 100) ||
		    !CHECK_EQ(end.memory[wc.wr_id - 3000], i))
			return;
		CHECK_EQ(pair_recv(&end, (unsigned)(wc.wr_id - 3000), 100), 0);
	}
	/* Once before the WRITE, which goes over the receives, and once behind it. */
	await(party);
	await(party);
	CHECK_EQ(end.memory[50000 - 1], 0);
	CHECK_EQ(end.memory[2000], 7);
	CHECK_EQ(end.memory[3999], 7);
	pair_close(&end);
}

static void transmit(void *arg)
{
	const struct party *party = arg;
	struct end_name peer;
	struct ibv_wc wc;
	struct end end;

	REQUIRE(join(party, &end, &peer));
	await(party);
	for (unsigned i = 0; i < 200; i++) {
		memset(end.memory, (int)i, 100);
		CHECK_EQ(pair_send(&end, 0, 1 + i % 100, IBV_SEND_SIGNALED), 0);
		REQUIRE(pair_poll(&end, &wc, WAIT_MS));
		if (!CHECK_EQ(wc.status, IBV_WC_SUCCESS))
			return;
	}
	await(party);
	memset(end.memory, 7, 4000);
	CHECK_EQ(pair_write(&end, &peer, 4000, IBV_SEND_SIGNALED), 0);
	REQUIRE(pair_poll(&end, &wc, WAIT_MS));
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	await(party);
	pair_close(&end);
}

static void run_two(struct verbs_host *first, struct verbs_host *second, bool own_netns)
{
	struct party parties[2] = {{.host = first, .device = "a"}, {.host = second, .device = "b"}};
	pid_t pids[2];
	int fds[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	for (unsigned i = 0; i < 2; i++) {
		parties[i].fd = fds[i];
		parties[i].own_netns = own_netns;
		pids[i] = child_start(CHILD_UID_SAME, i ? receive : transmit, &parties[i]);
	}
	close(fds[0]);
	close(fds[1]);
	child_finish(pids[0]);
	child_finish(pids[1]);
}

TAP_CASE(two_processes_of_one_host)
{
	struct verbs_host *host = verbs_host_new();

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_add(host, "b", "mlx5", "10.77.0.2");
	run_two(host, host, false);
	verbs_host_free(host);
}

TAP_CASE(two_hosts)
{
	struct verbs_host *first = verbs_host_new(), *second = verbs_host_join(first);

	verbs_host_add(first, "a", "mlx5-ib", "10.77.0.1");
	verbs_host_add(second, "b", "mlx4", "10.77.0.2");
	run_two(first, second, false);
	verbs_host_free(second);
	verbs_host_free(first);
}

TAP_CASE(two_network_namespaces)
{
	struct verbs_host *first, *second;

	if (geteuid() != 0)
		SKIP("network namespaces need root");
	first = verbs_host_new();
	second = verbs_host_join(first);
	verbs_host_add(first, "a", "rxe", "10.77.0.1");
	verbs_host_add(second, "b", "rxe", "10.77.0.2");
	run_two(first, second, true);
	verbs_host_free(second);
	verbs_host_free(first);
}

/* A host that isn't on the network is nowhere. */
TAP_CASE(networks_are_apart)
{
	const struct pair_patience patience = {10, 1, 1};
	struct verbs_host *first = verbs_host_new(), *second = verbs_host_new();
	struct end_name far;
	struct ibv_wc wc;
	struct end end;

	verbs_host_add(first, "a", "mlx5", "10.77.0.1");
	verbs_host_add(second, "b", "mlx5", "10.77.0.2");
	verbs_host_enter(first);
	REQUIRE_OK(pair_end(&end, "a", 4, 0));
	pair_name(&end, &far);
	memcpy(far.gid + 12, "\x0a\x4d\x00\x02", 4);
	CHECK_EQ(pair_connect(&end, &far, patience), 0);
	CHECK_EQ(pair_send(&end, 0, 8, 0), 0);
	REQUIRE(pair_poll(&end, &wc, WAIT_MS));
	CHECK_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
	pair_close(&end);
	verbs_host_free(first);
	verbs_host_free(second);
}

static void hold_for_ever(void *arg)
{
	const struct party *party = arg;
	struct end_name peer;
	struct end end;

	REQUIRE(join(party, &end, &peer));
	await(party);
	for (;;)
		pause();
}

TAP_CASE(a_killed_process_lets_go_and_its_peer_finds_out)
{
	struct verbs_host *host = verbs_host_new();
	struct party parties[2] = {{.host = host, .device = "a"}, {.host = host, .device = "b"}};
	struct end_name peer;
	struct ibv_wc wc;
	struct end end;
	pid_t pid;
	int fds[2];

	verbs_host_add(host, "a", "mlx5", "10.77.0.1");
	verbs_host_add(host, "b", "rxe", "10.77.0.2");
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	parties[0].fd = fds[0];
	parties[1].fd = fds[1];
	pid = child_start(CHILD_UID_SAME, hold_for_ever, &parties[1]);
	REQUIRE(join(&parties[0], &end, &peer));
	await(&parties[0]);
	CHECK_EQ(pair_write(&end, &peer, 8, IBV_SEND_SIGNALED), 0);
	REQUIRE(pair_poll(&end, &wc, WAIT_MS));
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK(verbs_host_is_held(host, "b"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK(verbs_host_wait_free(host, "b", 1000));
	CHECK_EQ(pair_write(&end, &peer, 8, IBV_SEND_SIGNALED), 0);
	REQUIRE(pair_poll(&end, &wc, WAIT_MS));
	CHECK_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
	pair_close(&end);
	close(fds[0]);
	close(fds[1]);
	verbs_host_free(host);
}

static void open_its_own(void *arg)
{
	struct end ends[2];
	struct ibv_wc wc;

	(void)arg;
	REQUIRE(pair_make(ends, "a", "a") == 0);
	CHECK_EQ(pair_write(&ends[0],
			    &(struct end_name){.addr = (uintptr_t)ends[1].memory,
					       .rkey = ends[1].mr->rkey},
			    8, IBV_SEND_SIGNALED),
		 0);
	CHECK(pair_poll(&ends[0], &wc, WAIT_MS) && wc.status == IBV_WC_SUCCESS);
	pair_close(&ends[0]);
	pair_close(&ends[1]);
}

static void do_nothing(void *unused)
{
	(void)unused;
}

/* A child holds nothing of its parent's, may use devices of its own accord, and disturbs nothing.
 */
TAP_CASE(a_forked_child_starts_afresh)
{
	/* A second, and no other try: a stream that the child broke would be dialled anew. */
	const struct pair_patience patience = {18, 0, 2};
	struct verbs_host *host = verbs_host_new();
	struct end_name names[2];
	struct end ends[2];
	struct ibv_wc wc;

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_enter(host);
	for (unsigned i = 0; i < 2; i++) {
		REQUIRE_OK(pair_end(&ends[i], "a", 4, 0));
		pair_name(&ends[i], &names[i]);
	}
	CHECK_EQ(pair_connect(&ends[0], &names[1], patience), 0);
	CHECK_EQ(pair_connect(&ends[1], &names[0], patience), 0);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(pair_recv(&ends[1], 0, 8), 0);
		CHECK_EQ(pair_send(&ends[0], 0, 8, IBV_SEND_SIGNALED), 0);
		REQUIRE(pair_poll(&ends[0], &wc, WAIT_MS));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		child_run(CHILD_UID_SAME, i ? do_nothing : open_its_own, NULL);
		CHECK(verbs_host_is_held(host, "a"));
	}
	pair_close(&ends[0]);
	pair_close(&ends[1]);
	CHECK(!verbs_host_is_held(host, "a"));
	verbs_host_free(host);
}

/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "os/clock.h"

#include "lib/child.h"
#include "lib/tap.h"
#include "peer.h"

/*
 * Links between two processes, each with a device of its own host: what the daemon does to make
 * one, with its real code, on the verbs double.
 */

/* A case in a process of its own: a process is on one host of the double for all its life. */
#define LINK_CASE(name)                                                                            \
	static void name##_body(void *arg);                                                        \
	TAP_CASE(name)                                                                             \
	{                                                                                          \
		child_run(CHILD_UID_SAME, name##_body, NULL);                                      \
	}                                                                                          \
	static void name##_body(__attribute__((unused)) void *arg)

#define LINKS 50
#define POOL (LINKS + 2)

static const char *const addresses[] = {"10.77.0.1", "10.77.0.2"};

struct scene {
	const char *personality;
	struct verbs_host *hosts[2];
	struct peer_board *board;
	uint32_t pool[2];
	int admit_max;
	pid_t pid;
};

static struct scene scene;
static struct peer peer;

/* Control jobs of the listener are few enough to be waited for. */
struct listening {
	struct control_job job;
	uint16_t port;
	int result;
	bool is_done;
};

static void listen_run(struct control_job *job)
{
	struct listening *listening = container_of(job, struct listening, job);
	union gid_address address = peer_address(addresses[1], 0);

	listening->result = cm_listen(&peer.cm, &address, &listening->port);
}

static void listen_done(struct control_job *job)
{
	container_of(job, struct listening, job)->is_done = true;
}

static void answer(void *arg)
{
	struct listening listening = {.job = {.run = listen_run, .done = listen_done}};
	struct peer_board *board = scene.board;

	(void)arg;
	verbs_host_enter(scene.hosts[1]);
	if (!peer_open(&peer, scene.hosts[1], "b0", scene.pool[1]))
		_exit(1);
	peer.board = board;
	peer.admit_max = scene.admit_max;
	CHECK_EQ(control_submit(&peer.rig.control, &listening.job), 0);
	PEER_AWAIT(&peer, listening.is_done);
	CHECK_OK(listening.result);
	atomic_store(&board->port, listening.port);
	while (!atomic_load(&board->leave)) {
		peer_turn(&peer, 5);
		atomic_fetch_add(&board->received, peer_receive(&peer));
		atomic_store(&board->taken, (int)peer.pool.counts.taken);
		atomic_store(&board->ready, (int)peer.pool.n_ready);
		for (int i = 0; i < peer.n_links; i++) {
			const struct qp *qp = peer.links[i].link.qp;

			if (qp && !atomic_load(&board->refill))
				CHECK(peer_knew(&peer, qp->verbs->qp_num));
		}
	}
	peer_close(&peer);
}

/* Two hosts; the second listens. The first is this process. */
static bool scene_open(const char *personality)
{
	scene.personality = personality;
	scene.hosts[0] = verbs_host_new();
	scene.hosts[1] = verbs_host_join(scene.hosts[0]);
	verbs_host_add(scene.hosts[0], "a0", personality, addresses[0]);
	verbs_host_add(scene.hosts[1], "b0", personality, addresses[1]);
	scene.board = mmap(NULL, sizeof(*scene.board), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!CHECK(scene.board != MAP_FAILED))
		return false;
	scene.pid = child_start(CHILD_UID_SAME, answer, NULL);
	verbs_host_enter(scene.hosts[0]);
	if (!peer_open(&peer, scene.hosts[0], "a0", scene.pool[0]))
		return false;
	for (int i = 0; i < RIG_WAIT_MS && !atomic_load(&scene.board->port); i++)
		usleep(1000);
	return CHECK(atomic_load(&scene.board->port) != 0);
}

static void scene_close(void)
{
	atomic_store(&scene.board->leave, true);
	peer_close(&peer);
	if (scene.pid > 0)
		child_finish(scene.pid);
	munmap(scene.board, sizeof(*scene.board));
	verbs_host_free(scene.hosts[1]);
	verbs_host_free(scene.hosts[0]);
}

static struct peer_link *dial(int i)
{
	return peer_dial(&peer, addresses[0], addresses[1], atomic_load(&scene.board->port), i);
}

static int count_up(void)
{
	int n = 0;

	for (int i = 0; i < peer.n_links; i++)
		n += peer.links[i].is_up;
	return n;
}

/*
 * Fifty links within the size of the pools. While they are made every creation of a queue pair
 * fails, on both hosts: none is needed. Behind them the pools are refilled.
 */
static void fifty(const char *personality)
{
	const char *broken = "create_qp count=inf errno=ENOMEM";
	uint64_t started;

	scene.pool[0] = scene.pool[1] = POOL;
	scene.admit_max = LINKS;
	REQUIRE(scene_open(personality));
	CHECK_EQ(peer.pool.counts.created, POOL);
	verbs_host_faults(scene.hosts[0], broken);
	verbs_host_faults(scene.hosts[1], broken);
	started = clock_now_ns();
	for (int i = 0; i < LINKS; i++)
		REQUIRE(dial(i));
	PEER_AWAIT(&peer, count_up() == LINKS);
	PEER_AWAIT(&peer, atomic_load(&scene.board->up) == LINKS);
	tap_diag("%s: %d links in %u ms", personality, LINKS,
		 (unsigned int)((clock_now_ns() - started) / 1000000));
	CHECK_EQ(peer.pool.counts.created, POOL);
	CHECK_EQ(peer.pool.counts.waited, 0);
	CHECK_EQ(peer.pool.counts.taken, LINKS);
	CHECK_EQ(atomic_load(&scene.board->taken), LINKS);
	for (int i = 0; i < LINKS; i++) {
		CHECK(peer_knew(&peer, peer.links[i].link.qp->verbs->qp_num));
		CHECK(peer.links[i].link.has_peer);
		CHECK_EQ(peer.links[i].link.peer.generation, i);
	}
	/* They carry messages, inline as ever. */
	for (int i = 0; i < LINKS; i++)
		peer_send(&peer, &peer.links[i]);
	PEER_AWAIT(&peer, atomic_load(&scene.board->received) == LINKS);
	/* And now there are new ones, behind them. */
	atomic_store(&scene.board->refill, true);
	verbs_host_faults(scene.hosts[0], "");
	verbs_host_faults(scene.hosts[1], "");
	PEER_AWAIT(&peer, peer.pool.n_ready == POOL);
	PEER_AWAIT(&peer, atomic_load(&scene.board->ready) == POOL);
	CHECK_EQ(peer.pool.counts.created, POOL + LINKS);
	CHECK_EQ(peer.rig.budget.in_use, POOL + LINKS);
	scene_close();
}

LINK_CASE(fifty_links_create_nothing_roce)
{
	fifty("rxe");
}

LINK_CASE(fifty_links_create_nothing_infiniband)
{
	fifty("mlx5-ib");
}

LINK_CASE(fifty_links_create_nothing_iwarp)
{
	fifty("siw");
}

/* Nobody gets a queue pair who isn't expected. */
static void stranger(const char *personality)
{
	struct peer_link *link;

	scene.pool[0] = scene.pool[1] = 2;
	scene.admit_max = 1;
	REQUIRE(scene_open(personality));
	link = dial(7);
	PEER_AWAIT(&peer, link->is_closed);
	CHECK(link->is_down && !link->is_up);
	CHECK_STR(link->why, "rejected: The other daemon does not expect this link.");
	CHECK_EQ(atomic_load(&scene.board->taken), 0);
	/* One that speaks another version. */
	link = peer_link(&peer);
	link->link.own.version = 9;
	{
		union gid_address from = peer_address(addresses[0], 0);
		union gid_address to = peer_address(addresses[1], atomic_load(&scene.board->port));

		CHECK_OK(link_dial(&link->link, &from, &to));
	}
	PEER_AWAIT(&peer, link->is_closed);
	CHECK_STR(link->why, "rejected: The other daemon speaks another version.");
	CHECK_EQ(atomic_load(&scene.board->taken), 0);
	/* One that is expected comes in all the same. */
	link = dial(0);
	PEER_AWAIT(&peer, link->is_up);
	scene_close();
}

LINK_CASE(a_stranger_is_rejected_and_costs_no_queue_pair_roce)
{
	stranger("rxe");
}

LINK_CASE(a_stranger_is_rejected_and_costs_no_queue_pair_iwarp)
{
	stranger("siw");
}

/* More links than queue pairs are ready: they wait for the refill. */
LINK_CASE(an_empty_pool_delays_links_and_loses_none)
{
	scene.pool[0] = scene.pool[1] = 1;
	scene.admit_max = 20;
	REQUIRE(scene_open("rxe"));
	atomic_store(&scene.board->refill, true);
	for (int i = 0; i < 20; i++)
		REQUIRE(dial(i));
	PEER_AWAIT(&peer, count_up() == 20);
	CHECK(peer.pool.counts.waited > 0);
	scene_close();
}

/* Over the budget of the answering side: told so, and the budget holds. */
LINK_CASE(a_peer_without_queue_pairs_says_so)
{
	struct peer_link *link;

	scene.pool[0] = 4;
	scene.pool[1] = 1;
	scene.admit_max = 4;
	REQUIRE(scene_open("rxe"));
	/* Its refill, and all that comes later, fails. */
	verbs_host_faults(scene.hosts[1], "create_qp count=inf errno=ENOMEM");
	link = dial(0);
	PEER_AWAIT(&peer, link->is_up);
	link = dial(1);
	PEER_AWAIT(&peer, link->is_closed);
	CHECK_STR(link->why, "rejected: The other daemon has no queue pair left.");
	scene_close();
}

LINK_CASE(nobody_listens_there)
{
	struct peer_link *link;

	scene.pool[0] = scene.pool[1] = 2;
	REQUIRE(scene_open("rxe"));
	link = peer_dial(&peer, addresses[0], addresses[1],
			 atomic_load(&scene.board->port) == 1111 ? 2222 : 1111, 0);
	PEER_AWAIT(&peer, link->is_closed);
	CHECK(strncmp(link->why, "rejected by the other host", 26) == 0);
	/* An address that no host has. */
	link = peer_dial(&peer, addresses[0], "10.77.9.9", 1111, 0);
	PEER_AWAIT(&peer, link->is_closed);
	CHECK(link->is_down);
	tap_diag("%s", link->why);
	/* The queue pair of the first was used, and is gone. */
	PEER_AWAIT(&peer, peer.pool.n_ready == 2);
	CHECK_EQ(peer.pool.n_out, 0);
	scene_close();
}

/* Ended by one end, the other is told, and both give their queue pairs back. */
LINK_CASE(a_link_that_is_closed_is_closed_at_both_ends)
{
	struct peer_link *link;

	scene.pool[0] = scene.pool[1] = 2;
	scene.admit_max = 4;
	REQUIRE(scene_open("rxe"));
	link = dial(0);
	PEER_AWAIT(&peer, link->is_up);
	PEER_AWAIT(&peer, atomic_load(&scene.board->up) == 1);
	link_close(&link->link, "enough");
	PEER_AWAIT(&peer, link->is_closed);
	CHECK(!link->is_down);
	PEER_AWAIT(&peer, atomic_load(&scene.board->down) == 1);
	PEER_AWAIT(&peer, atomic_load(&scene.board->closed) == 1);
	PEER_AWAIT(&peer, peer.pool.counts.destroyed == 1);
	/* Another one, over a fresh queue pair. */
	link = dial(1);
	PEER_AWAIT(&peer, link->is_up);
	scene_close();
}

/* A link ends while its port is down: whoever tells the other end then has no connection manager
 * any more (rxe). It is told when the port is back. */
static void cut_off(const char *personality)
{
	struct peer_link *link;

	scene.pool[0] = scene.pool[1] = 4;
	scene.admit_max = 4;
	REQUIRE(scene_open(personality));
	link = dial(0);
	PEER_AWAIT(&peer, link->is_up);
	PEER_AWAIT(&peer, atomic_load(&scene.board->up) == 1);
	verbs_host_port(scene.hosts[0], "a0", "down");
	link_close(&link->link, "its port is down");
	PEER_AWAIT(&peer, link->is_closed);
	PEER_AWAIT(&peer, peer.pool.counts.destroyed == 1);
	verbs_host_port(scene.hosts[0], "a0", "active");
	PEER_AWAIT(&peer, atomic_load(&scene.board->closed) == 1);
	link = dial(1);
	PEER_AWAIT(&peer, link->is_up);
	CHECK_EQ(peer.cm.n_parked, 0);
	scene_close();
}

LINK_CASE(a_link_that_is_cut_off_is_told_of_later_roce)
{
	cut_off("rxe");
}

/* The same, and the port never comes back. */
LINK_CASE(a_link_that_stays_cut_off_goes_with_its_device)
{
	struct peer_link *link;

	scene.pool[0] = scene.pool[1] = 4;
	scene.admit_max = 4;
	REQUIRE(scene_open("rxe"));
	link = dial(0);
	PEER_AWAIT(&peer, link->is_up);
	verbs_host_port(scene.hosts[0], "a0", "down");
	link_close(&link->link, "its port is down");
	PEER_AWAIT(&peer, link->is_closed);
	CHECK_EQ(peer.cm.n_parked, 1);
	scene_close();
}

/* The answer to the question who has the address may be lost: it is asked again. */
LINK_CASE(an_address_that_is_not_found_at_once)
{
	struct peer_link *link;

	scene.pool[0] = scene.pool[1] = 2;
	scene.admit_max = 4;
	REQUIRE(scene_open("rxe"));
	verbs_host_faults(scene.hosts[0], "resolve_addr count=3 event=ETIMEDOUT\n");
	link = dial(0);
	PEER_AWAIT(&peer, link->is_up);
	CHECK_STR(verbs_host_faults_left(scene.hosts[0]), "");
	CHECK(!link->is_down);
	scene_close();
}

LINK_CASE(closing_in_every_stage_leaves_nothing)
{
	struct peer_link *idle;

	scene.pool[0] = scene.pool[1] = 4;
	scene.admit_max = 40;
	REQUIRE(scene_open("rxe"));
	atomic_store(&scene.board->refill, true);
	idle = peer_link(&peer);
	link_close(&idle->link, "never dialled");
	CHECK(idle->is_closed);
	CHECK_EQ(peer.cm.n_pending, 0);
	for (int i = 0; i < 40; i++) {
		struct peer_link *link = dial(i);

		for (int turn = 0; turn < i; turn++)
			peer_turn(&peer, 1);
		link_close(&link->link, "enough");
		PEER_AWAIT(&peer, link->is_closed);
	}
	CHECK_EQ(peer.cm.n_pending, 0);
	CHECK(list_is_empty(&peer.cm.links));
	scene_close();
}

/* The answering process is killed in the middle: our end is told or asked, and lets go. */
LINK_CASE(a_peer_that_dies_takes_nothing_with_it)
{
	struct peer_link *link;

	scene.pool[0] = scene.pool[1] = 4;
	scene.admit_max = 4;
	REQUIRE(scene_open("siw"));
	link = dial(0);
	PEER_AWAIT(&peer, link->is_up);
	kill(scene.pid, SIGKILL);
	waitpid(scene.pid, NULL, 0);
	scene.pid = 0;
	PEER_AWAIT(&peer, link->is_closed);
	tap_diag("%s", link->why);
	scene_close();
}

/* Our own device goes, with links up and others being made. */
LINK_CASE(a_removed_device_ends_its_links)
{
	scene.pool[0] = scene.pool[1] = 8;
	scene.admit_max = 8;
	REQUIRE(scene_open("rxe"));
	for (int i = 0; i < 4; i++)
		dial(i);
	PEER_AWAIT(&peer, count_up() == 4);
	dial(4);
	verbs_host_remove(scene.hosts[0], "a0");
	peer.rig.is_removed = true;
	for (int i = 0; i < 4; i++)
		PEER_AWAIT(&peer, peer.links[i].is_closed);
	scene_close();
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "os/bell.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/memfd.h"

#include "lib/child.h"
#include "lib/tap.h"
#include "stage.h"

#define EPOCH 1

const struct stage_conf stage_usual = {
	.personality = "rxe",
	.inline_bytes = 256,
	.depth = 64,
	.credits = 64,
	.ring_bytes = {65536, 65536},
	.spin_ns = WORKER_SPIN_NS,
	.lanes = 1,
};

static struct stage the_stage;
/* A process has one stage; the ops find it here. */
static struct stage *const stage_self = &the_stage;

/* --- what the worker tells -------------------------------------------------------------------- */

static void on_words(struct worker_lane *worker, const struct worker_report *report)
{
	struct stage_lane *lane = worker_lane_user(worker);

	lane->words = *report;
	lane->n_words++;
	CHECK_EQ(lane->n_over, 0);
}

static void on_ended(struct worker_lane *worker, const struct worker_report *report)
{
	struct stage_lane *lane = worker_lane_user(worker);

	lane->report = *report;
	lane->n_ended++;
	if (report->end > WORKER_PEER_DONE)
		tap_diag("side %d: a lane ends: %s: %s", lane->stage->side,
			 worker_end_name(report->end), report->why);
	CHECK_EQ(lane->n_over, 0);
}

static void on_over(struct worker_lane *worker, bool link_lost)
{
	struct stage_lane *lane = worker_lane_user(worker);

	lane->link_lost = link_lost;
	lane->n_over++;
	CHECK_EQ(lane->n_ended, 1);
	CHECK(!lane->stage->is_gone);
	lane->worker = worker_lane_free(worker);
}

static void on_link_down(struct worker_link *link, const char *why)
{
	struct stage *stage = worker_link_user(link);

	stage->is_down = true;
	snprintf(stage->why, sizeof(stage->why), "%s", why);
}

static void on_link_gone(struct worker_link *link)
{
	struct stage *stage = worker_link_user(link);

	CHECK(stage->is_down);
	CHECK(!stage->is_gone);
	stage->is_gone = true;
	CHECK_EQ(worker_link_lanes(link), 0);
}

static const struct worker_ops worker_ops = {
	.lane_words = on_words,
	.lane_ended = on_ended,
	.lane_over = on_over,
	.link_down = on_link_down,
	.link_gone = on_link_gone,
};

/* --- lanes ------------------------------------------------------------------------------------ */

/* What one daemon tells the other of a lane. */
struct lane_name {
	struct cdc_token token;
	uint64_t address, ring_bytes, source_bytes;
	uint32_t rkey;
};

/* ThreadSanitizer knows memory by its address: under it the client's half has one for all threads.
 */
static bool one_address(struct stage_lane *lane)
{
#ifdef __SANITIZE_THREAD__
	size_t bytes = half_bytes(lane->client->ring_bytes);

	lane->map =
		mremap(lane->map, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, lane->client->ctl);
	return CHECK(lane->map == lane->client->ctl);
#else
	return CHECK(lane->map != lane->client->ctl);
#endif
}

static bool lane_open(struct stage *stage, uint32_t i)
{
	struct stage_lane *lane = &stage->lanes[i];
	uint64_t bytes = stage->conf.ring_bytes[stage->side];
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	lane->stage = stage;
	lane->client_bell = bell_make();
	lane->own_bell = bell_make();
	lane->fd = memfd_make("client", half_bytes(bytes));
	lane->map = mmap(NULL, half_bytes(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, lane->fd, 0);
	return CHECK(lane->map != MAP_FAILED) && CHECK_OK(memfd_seal_writers(lane->fd)) &&
	       CHECK_OK(mr_half_attach(stage->rig.device, lane->fd, bytes, &lane->client)) &&
	       one_address(lane) && CHECK_OK(mr_half_make(stage->rig.device, bytes, &lane->fed)) &&
	       CHECK_EQ(worker_lane_make(stage->worker_link, lane, &lane->worker), 0) &&
	       CHECK_OK(epoll_ctl(stage->bells, EPOLL_CTL_ADD, lane->client_bell, &event));
}

static void lane_tell(struct stage_lane *lane)
{
	const struct lane_name name = {
		.token = worker_lane_token(lane->worker),
		.address = (uintptr_t)lane->fed->region->addr,
		.ring_bytes = lane->fed->ring_bytes,
		.source_bytes = lane->client->ring_bytes,
		.rkey = lane->fed->region->rkey,
	};

	CHECK_EQ(send(lane->stage->sock, &name, sizeof(name), 0), sizeof(name));
}

static void lane_start(struct stage_lane *lane, const struct lane_name *name, uint32_t i)
{
	const struct worker_lane_setup setup = {
		.peer = name->token,
		.epoch = EPOCH,
		.client = lane->client->ctl,
		.client_bytes = lane->client->ring_bytes,
		.client_lkey = lane->client->region->lkey,
		.fed = lane->fed->ctl,
		.fed_bytes = lane->fed->ring_bytes,
		.peer_address = name->address,
		.peer_rkey = name->rkey,
		.peer_bytes = name->ring_bytes,
		.peer_source_bytes = name->source_bytes,
		.client_bell = lane->client_bell,
		.own_bell = lane->own_bell,
		.is_second = lane->stage->side == 1,
	};

	lane->peer = name->token;
	lane->stub = (struct stub){
		.lane = {.own = lane->map,
			 .peer = lane->fed->ctl,
			 .own_bytes = lane->client->ring_bytes,
			 .peer_bytes = lane->fed->ring_bytes},
		.own_bell = lane->client_bell,
		.their_bell = lane->own_bell,
		.seed_out = (uint8_t)(i * 16 + (uint32_t)lane->stage->side),
		.seed_in = (uint8_t)(i * 16 + (uint32_t)!lane->stage->side),
		.role = STUB_MUTE,
	};
	CHECK_EQ(worker_lane_begin(lane->worker, &setup), 0);
	stub_begin(&lane->stub, EPOCH);
}

static bool lanes_open(struct stage *stage)
{
	struct lane_name names[STAGE_LANES];

	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		if (!lane_open(stage, i))
			return false;
	}
	/* The second end has begun when the first hears of it. */
	for (uint32_t i = 0; stage->side == 0 && i < stage->conf.lanes; i++)
		lane_tell(&stage->lanes[i]);
	for (uint32_t i = 0; i < stage->conf.lanes; i++)
		CHECK_EQ(recv(stage->sock, &names[i], sizeof(names[i]), 0), sizeof(names[i]));
	for (uint32_t i = 0; i < stage->conf.lanes; i++)
		lane_start(&stage->lanes[i], &names[i], i);
	for (uint32_t i = 0; stage->side == 1 && i < stage->conf.lanes; i++)
		lane_tell(&stage->lanes[i]);
	return true;
}

static void lane_close_all(struct stage *stage)
{
	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		struct stage_lane *lane = &stage->lanes[i];

		CHECK_EQ(lane->n_ended, 1);
		CHECK_EQ(lane->n_over, 1);
		CHECK(!lane->worker);
		CHECK(!lane->stub.has_failed);
		if (lane->map != lane->client->ctl)
			munmap(lane->map, half_bytes(lane->client->ring_bytes));
		mr_half_free(lane->client);
		mr_half_free(lane->fed);
		fd_close(lane->fd);
		fd_close(lane->client_bell);
		fd_close(lane->own_bell);
	}
}

/* --- turns ------------------------------------------------------------------------------------ */

static bool is_played(const struct stage_lane *lane)
{
	return lane->stub.lane.own && !lane->n_ended;
}

static bool clients_step(struct stage *stage)
{
	bool any = false;

	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		if (is_played(&stage->lanes[i]))
			any |= stub_step(&stage->lanes[i].stub);
	}
	return any;
}

static bool clients_may_sleep(struct stage *stage)
{
	bool all = true;

	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		if (is_played(&stage->lanes[i]))
			all &= stub_may_sleep(&stage->lanes[i].stub);
	}
	return all;
}

/* An operator looks all the time: no figure goes back, and ThreadSanitizer sees it. */
static void look_at_counters(struct stage *stage)
{
	uint64_t wrs, turns = worker_counts(stage->worker).turns;

	CHECK(turns >= stage->seen_turns);
	stage->seen_turns = turns;
	if (!stage->is_up || stage->is_gone)
		return;
	wrs = worker_link_counts(stage->worker_link).send.wrs;
	CHECK(wrs >= stage->seen_wrs);
	stage->seen_wrs = wrs;
	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		struct stage_lane *lane = &stage->lanes[i];

		if (!lane->worker)
			continue;
		wrs = worker_lane_counts(lane->worker).wrs;
		CHECK(wrs >= lane->seen_wrs);
		lane->seen_wrs = wrs;
	}
}

void stage_turn(struct stage *stage, int timeout_ms)
{
	struct pollfd wait[] = {
		{.fd = control_fd(&stage->rig.control), .events = POLLIN},
		{.fd = stage->cm.poll.in_flight ? -1 : cm_fd(&stage->cm), .events = POLLIN},
		{.fd = worker_fd(stage->worker), .events = POLLIN},
		{.fd = stage->bells, .events = POLLIN},
	};
	struct epoll_event events[STAGE_LANES];
	bool did = clients_step(stage);

	look_at_counters(stage);
	if (did || !clients_may_sleep(stage))
		timeout_ms = 0;
	if (poll(wait, ARRAY_SIZE(wait), timeout_ms) > 0 || did)
		stage->busy_ns = clock_now_ns();
	if (wait[0].revents)
		control_reap(&stage->rig.control);
	if (wait[1].revents)
		cm_poll(&stage->cm);
	if (wait[2].revents)
		worker_reap(stage->worker);
	if (wait[3].revents)
		epoll_wait(stage->bells, events, STAGE_LANES, 0);
	cm_tick(&stage->cm, clock_now_ns());
	qp_pool_tick(&stage->pool, clock_now_ns());
}

void stage_meet(struct stage *stage)
{
	char byte = 'm';
	bool is_here = false;

	CHECK_EQ(send(stage->sock, &byte, 1, MSG_NOSIGNAL), 1);
	STAGE_AWAIT(stage, is_here || (is_here = recv(stage->sock, &byte, 1, MSG_DONTWAIT) == 1));
}

void stage_end_lanes(struct stage *stage)
{
	stage_meet(stage);
	for (uint32_t i = 0; i < stage->conf.lanes; i++) {
		if (stage->lanes[i].worker)
			worker_lane_end(stage->lanes[i].worker);
	}
	for (uint32_t i = 0; i < stage->conf.lanes; i++)
		STAGE_AWAIT(stage, stage->lanes[i].n_over == 1);
	stage_meet(stage);
}

uint64_t stage_received(const struct stage *stage)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < stage->conf.lanes; i++)
		sum += stage->lanes[i].stub.received;
	return sum;
}

/* --- life ------------------------------------------------------------------------------------- */

static bool stage_open(struct stage *stage)
{
	const struct qp_pool_config pool = {
		.device = NULL,
		.control = &stage->rig.control,
		.cqs = &stage->rig.cqs,
		.budget = &stage->rig.budget,
		.min = 1,
		.max = 2,
	};
	const struct qp_spec spec = {
		.send_wr = stage->conf.depth,
		.recv_wr = stage->conf.credits,
		.send_sge = 1,
		.recv_sge = 1,
		.inline_bytes = stage->conf.inline_bytes,
	};
	struct worker_config config = {
		.ops = &worker_ops,
		.name = "worker",
		.spin_ns = stage->conf.spin_ns,
		.lanes_max = STAGE_LANES,
		.user = stage,
	};
	struct qp_pool_config with_device = pool;

	verbs_host_enter(stage->host);
	if (!rig_open_on(&stage->rig, stage->host, stage->name))
		return false;
	with_device.device = stage->rig.device;
	qp_pool_init(&stage->pool, &with_device, &spec, 1);
	config.device = stage->rig.device;
	config.channel = stage->rig.cqs.channel;
	stage->bells = epoll_create1(EPOLL_CLOEXEC);
	if (!CHECK_OK(worker_new(&config, &stage->worker)) || !stage_open_link(stage))
		return false;
	STAGE_AWAIT(stage, stage->is_up);
	return stage->is_up && lanes_open(stage);
}

static void stage_close(struct stage *stage)
{
	if (!stage->is_down)
		stage_meet(stage);
	worker_link_end(stage->worker_link, "the end of the case");
	STAGE_AWAIT(stage, stage->is_gone);
	for (uint32_t i = 0; i < stage->conf.lanes; i++)
		STAGE_AWAIT(stage, stage->lanes[i].n_over == 1);
	stage->worker_link = worker_link_free(stage->worker_link);
	qp_pool_retire(&stage->pool, TAKE(stage->qp, NULL));
	cm_stop(&stage->cm);
	STAGE_AWAIT(stage, cm_is_quiet(&stage->cm));
	CHECK(stage->link_is_closed);
	rig_pool_end(&stage->rig, &stage->pool);
	cm_close(&stage->cm);
	stage->worker = worker_free(stage->worker);
	lane_close_all(stage);
	fd_close(stage->bells);
	rig_close(&stage->rig);
}

struct running {
	const struct stage_conf *conf;
	void (*body)(struct stage *stage);
	struct verbs_host *hosts[2];
	int socks[2];
	int side;
};

static void run_side(void *arg)
{
	const struct running *running = arg;
	struct stage *stage = stage_self;

	memset(stage, 0, sizeof(*stage));
	stage->conf = *running->conf;
	stage->side = running->side;
	stage->sock = running->socks[running->side];
	fd_close(running->socks[!running->side]);
	stage->host = running->hosts[running->side];
	snprintf(stage->name, sizeof(stage->name), running->side ? "b0" : "a0");
	if (!stage_open(stage))
		_exit(1);
	running->body(stage);
	stage_close(stage);
}

void stage_run(const struct stage_conf *conf, void (*body)(struct stage *stage))
{
	struct running running = {.conf = conf, .body = body};
	pid_t pids[2];

	running.hosts[0] = verbs_host_new();
	running.hosts[1] = verbs_host_join(running.hosts[0]);
	verbs_host_add(running.hosts[0], "a0", conf->personality, stage_addresses[0]);
	verbs_host_add(running.hosts[1], "b0", conf->personality, stage_addresses[1]);
	CHECK_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, running.socks));
	for (running.side = 0; running.side < 2; running.side++)
		pids[running.side] = child_start(CHILD_UID_SAME, run_side, &running);
	fd_close(running.socks[0]);
	fd_close(running.socks[1]);
	child_finish(pids[0]);
	child_finish(pids[1]);
	verbs_host_free(running.hosts[1]);
	verbs_host_free(running.hosts[0]);
}

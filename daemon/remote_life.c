/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "base/map.h"
#include "base/util.h"
#include "os/bell.h"
#include "os/fd.h"
#include "os/memfd.h"
#include "os/tcp.h"
#include "pair.h"
#include "remote_lane.h"
#include "server.h"
#include "session.h"

struct list remote_lanes;
static struct map by_key;

void remote_lanes_init(uint64_t seed)
{
	list_init(&remote_lanes);
	map_init(&by_key, seed);
}

void remote_lanes_deinit(void)
{
	map_deinit(&by_key);
}

int remote_lane_name(struct remote_lane *lane, uint64_t id)
{
	int rc;

	lane->key = (struct remote_key){.name = lane->name, .id = id, .epoch = lane->epoch};
	rc = map_put_bytes(&by_key, &lane->key, sizeof(lane->key), lane);
	lane->has_key = rc == 0;
	return rc;
}

struct remote_lane *remote_lane_by_key(const struct remote_key *key)
{
	return map_get_bytes(&by_key, key, sizeof(*key));
}

static void *map(int fd, uint64_t ring_bytes, int prot)
{
	void *at = mmap(NULL, half_bytes(ring_bytes), prot, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* --- memory ----------------------------------------------------------------------------------- */

static struct remote_lane_memory *memory_of(struct mr_job *job)
{
	return container_of(job, struct remote_lane_memory, job);
}

/* @memory has been made, or can't be. */
static void made(struct remote_lane *lane, struct remote_lane_memory *memory)
{
	memory->is_busy = false;
	if (memory->job.result == 0)
		memory->half = memory->job.half;
	if (lane->is_failed)
		remote_lane_settle(lane);
	else if (!memory->half)
		remote_take_back(lane, REASON_NO_MEMORY, REASON_NO_MEMORY);
	else
		remote_lane_go_on(lane);
}

static void fed_made(struct mr_job *job)
{
	made(container_of(memory_of(job), struct remote_lane, fed), memory_of(job));
}

static void client_made(struct mr_job *job)
{
	made(container_of(memory_of(job), struct remote_lane, client), memory_of(job));
}

static enum reason submit(struct remote_lane *lane, struct remote_lane_memory *memory,
			  enum mr_work work)
{
	struct host_device *dev = lane->host_link->dev;
	int rc;

	memory->job = (struct mr_job){
		.device = dev->device,
		.budget = &dev->mrs,
		.work = work,
		.ring_bytes = lane->ring_bytes,
		.client_fd = lane->half,
		.done = memory == &lane->fed ? fed_made : client_made,
	};
	rc = mr_submit(&dev->control, &memory->job);
	memory->is_busy = rc == 0;
	if (rc == 0)
		return REASON_NONE;
	return rc == MR_OVER_BUDGET ? REASON_OVER_QUOTA : REASON_NO_MEMORY;
}

enum reason remote_lane_attach(struct remote_lane *lane)
{
	return submit(lane, &lane->client, MR_ATTACH);
}

static void fed_freed(struct mr_job *job)
{
	struct remote_lane *lane = container_of(memory_of(job), struct remote_lane, fed);

	lane->fed.is_busy = false;
	remote_lane_settle(lane);
}

static void client_freed(struct mr_job *job)
{
	struct remote_lane *lane = container_of(memory_of(job), struct remote_lane, client);

	lane->client.is_busy = false;
	remote_lane_settle(lane);
}

/* A full queue is tried again by the lane's timer. */
static void free_memory(struct remote_lane *lane, struct remote_lane_memory *memory)
{
	struct host_device *dev = lane->host_link->dev;
	int rc;

	if (memory->is_busy || !memory->half)
		return;
	memory->job = (struct mr_job){
		.device = dev->device,
		.budget = &dev->mrs,
		.work = MR_FREE,
		.half = memory->half,
		.done = memory == &lane->fed ? fed_freed : client_freed,
	};
	rc = mr_submit(&dev->control, &memory->job);
	if (rc == CONTROL_FULL) {
		remote_act_soon(lane);
		return;
	}
	memory->half = NULL;
	memory->is_busy = rc == 0;
	if (rc == CONTROL_STOPPED)
		mr_half_free(memory->job.half);
}

/* --- making ----------------------------------------------------------------------------------- */

static void on_hangup(struct source *source, uint32_t events)
{
	struct remote_lane *lane = container_of(source, struct remote_lane, hangup);

	if (!(events & EPOLLHUP))
		return;
	/* No process has the lane any more: it says so before or soon, or is dead. */
	loop_remove(source);
	lane->gone_ns = loop_now(&lane->server->loop);
	remote_act_soon(lane);
}

int remote_lane_watch(struct remote_lane *lane, int ear)
{
	lane->hangup.fd = ear;
	return loop_add(&lane->server->loop, &lane->hangup, ear, 0, on_hangup);
}

static int open_bells(struct remote_lane *lane)
{
	int ear;

	lane->bell = bell_make();
	lane->ear_bell = bell_make();
	if (lane->bell < 0 || lane->ear_bell < 0)
		return -EMFILE;
	lane->ear = bell_ear(lane->ear_bell);
	ear = bell_ear(lane->ear_bell);
	if (lane->ear < 0 || ear < 0) {
		fd_close(ear);
		return -EMFILE;
	}
	return remote_lane_watch(lane, ear);
}

static enum reason fill(struct remote_lane *lane, struct end *end)
{
	struct quota *quota = &lane->server->quota;
	struct quota_user *user = end->session->user;
	struct tcp_facts facts;
	enum reason reason = pair_read(end, &facts);

	if (reason != REASON_NONE)
		return reason;
	lane->r.syn_bias = facts.syn_bias;
	lane->link_serial = lane->host_link->cm.own.generation;
	lane->base_tx = end->totals.lane_tx;
	lane->base_rx = end->totals.lane_rx;
	if (!quota_take_ring(quota, user, 2 * lane->ring_bytes))
		return REASON_OVER_QUOTA;
	lane->user = quota_user_ref(user);
	/* The rings alone are registered. */
	if (!quota_take_pinned(quota, user, 2 * lane->ring_bytes))
		return REASON_OVER_QUOTA;
	lane->pinned_bytes = 2 * lane->ring_bytes;
	lane->half = memfd_make("shunt-half", half_bytes(lane->ring_bytes));
	if (lane->half < 0 || open_bells(lane) < 0)
		return REASON_NO_DESCRIPTORS;
	lane->r.half = map(lane->half, lane->ring_bytes, PROT_READ);
	if (!lane->r.half || worker_lane_make(lane->host_link->worker, lane, &lane->worker) != 0)
		return REASON_NO_MEMORY;
	lane->fed.half = mr_store_take(&lane->host_link->dev->store);
	return lane->fed.half ? REASON_NONE : submit(lane, &lane->fed, MR_MAKE);
}

static void on_act(struct timer *timer)
{
	remote_act(container_of(timer, struct remote_lane, act));
}

struct remote_lane *remote_lane_alloc(struct server *server, const struct tcp_name *name)
{
	struct remote_lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	*lane = (struct remote_lane){
		.server = server,
		.name = *name,
		.half = -1,
		.bell = -1,
		.ear_bell = -1,
		.ear = -1,
		.hangup = {.fd = -1},
		.r = {.sock = -1},
		.told = PEER_OFFSET_NONE,
		.heard = PEER_OFFSET_NONE,
	};
	timer_init(&lane->act, on_act);
	list_push_back(&remote_lanes, &lane->link);
	return lane;
}

struct remote_lane *remote_lane_new(struct host_link *link, struct end *end,
				    const struct peer_offer *offer, uint64_t own_id,
				    enum reason *ret_reason)
{
	struct remote_lane *lane = remote_lane_alloc(end->session->server, &end->name);

	*ret_reason = REASON_NO_MEMORY;
	if (!lane)
		return NULL;
	lane->own_id = own_id;
	lane->peer_id = offer->id;
	lane->epoch = end->next_epoch > offer->epoch ? end->next_epoch : offer->epoch;
	lane->ring_bytes = lane->server->conf.ring_bytes;
	lane->source_bytes = offer->ring_bytes;
	lane->peer = link->peer;
	lane->host_link = link;
	link->lanes++;
	link->peer->refs++;
	if (remote_lane_name(lane, link_peer_we_are_lower(link->peer) ? own_id : offer->id) == 0)
		*ret_reason = fill(lane, end);
	if (*ret_reason == REASON_NONE)
		return lane;
	lane->is_failed = true;
	remote_lane_settle(lane);
	return NULL;
}

/* --- unmaking --------------------------------------------------------------------------------- */

static void lane_free(struct remote_lane *lane)
{
	struct link_peer *peer = lane->peer;

	if (lane->has_begun)
		remote_bury(lane);
	remote_unkeep(lane);
	if (lane->is_adopted)
		remote_adopted_gone();
	if (lane->has_key)
		map_del_bytes(&by_key, &lane->key, sizeof(lane->key));
	timer_clear(&lane->server->loop.timers, &lane->act);
	if (lane->r.half) {
		sizes_add_half(&lane->server->tally.sizes[LANE_RDMA], lane->r.half);
		munmap((void *)(uintptr_t)lane->r.half, half_bytes(lane->ring_bytes));
	}
	if (lane->r.fed)
		munmap(lane->r.fed, half_bytes(lane->ring_bytes));
	loop_remove(&lane->hangup);
	fd_close(lane->hangup.fd);
	fd_close(lane->ear);
	fd_close(lane->ear_bell);
	fd_close(lane->bell);
	fd_close(lane->half);
	fd_close(lane->r.sock);
	if (lane->user) {
		lane->user->ring_bytes -= 2 * lane->ring_bytes;
		quota_user_put(&lane->server->quota, lane->user);
	}
	list_unlink(&lane->link);
	free(lane);
	if (peer)
		link_peer_put(peer);
}

/* Whether it is still of use to anybody. */
static bool is_wanted(const struct remote_lane *lane)
{
	if (lane->is_failed)
		return false;
	return lane->end || lane->r.sock >= 0 || !(lane->r.settled || lane->is_unwanted);
}

bool remote_lane_settle(struct remote_lane *lane)
{
	bool is_idle = lane->has_begun ? !lane->worker : lane->is_failed;

	if (!is_idle)
		return false;
	if (lane->host_link) {
		/* One that was never begun the worker does not know. */
		lane->worker = worker_lane_free(lane->worker);
		free_memory(lane, &lane->fed);
		free_memory(lane, &lane->client);
		if (lane->fed.is_busy || lane->client.is_busy || lane->fed.half ||
		    lane->client.half)
			return false;
		host_link_put(TAKE(lane->host_link, NULL));
		if (lane->user)
			lane->user->pinned_bytes -= TAKE(lane->pinned_bytes, 0);
	}
	if (is_wanted(lane))
		return false;
	lane_free(lane);
	return true;
}

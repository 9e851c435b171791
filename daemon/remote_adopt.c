/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/util.h"
#include "core/ring.h"
#include "os/bell.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/memfd.h"
#include "os/sys.h"
#include "os/tcp.h"
#include "remote_lane.h"
#include "server.h"
#include "session.h"

/*
 * Lanes of a predecessor. Its client, or the service manager with which the predecessor has left
 * them (remote_keep.c), brings the socket, both halves and both bells; nothing else of the lane has
 * outlived it, and nothing else is needed: the lane is lost, since the link is, and from what
 * stands in the halves and in the kernel remote_replay.h goes on where the predecessor stopped,
 * between any two of its stores. What the other daemon has to tell it tells again (remote_lost.c).
 *
 * A client may write what it likes into halves that it brings, also into ours: what we believe of
 * it concerns its own connection alone, which it proves by the socket. So does the lane's id, since
 * the other daemon goes by the connection's name as well.
 *
 * When the lane is here already, since the manager had it, or since the daemon lives and only the
 * session with the client was cut, it is held again.
 */

/* Adopted lanes at a time. Chosen: a quarter of the kernel's usual vm.max_map_count, with two
 * mappings each; the rest is for everything else. */
#define ADOPTED_MAX 16384u

/* Looks at counters that move. Chosen: a predecessor's replay may be on its way still, and each
 * look tries many times itself. */
#define LOOKS_MAX 16

static uint32_t n_adopted;

/* Whether the descriptors in @bag can be those of a lane; the size of its rings. */
static bool check(const struct fd_bag *bag, uint64_t *ret_ring_bytes)
{
	struct stat st;
	uint64_t ring;

	if (sys_fstat(bag->fds[BROUGHT_HALF], &st) || st.st_size <= (off_t)HALF_CTL_BYTES)
		return false;
	ring = (uint64_t)st.st_size - HALF_CTL_BYTES;
	*ret_ring_bytes = ring;
	return ring_size_ok(ring) &&
	       !memfd_check(bag->fds[BROUGHT_HALF], half_bytes(ring), MEMFD_SEALS_WRITERS) &&
	       !memfd_check(bag->fds[BROUGHT_FED], half_bytes(ring), MEMFD_SEALS_SIZE) &&
	       !bell_check(bag->fds[BROUGHT_BELL]) && !bell_check(bag->fds[BROUGHT_EAR]);
}

/* The id that the daemons have given to the lane that is fed by the half @fed; 0: none. */
static uint64_t read_id(int fed)
{
	const struct half_ctl *ctl = mmap(NULL, HALF_CTL_BYTES, PROT_READ, MAP_SHARED, fed, 0);
	uint64_t id;

	if (ctl == MAP_FAILED)
		return 0;
	id = atomic_load(&ctl->lane);
	munmap((void *)(uintptr_t)ctl, HALF_CTL_BYTES);
	return id;
}

/* What the kernel tells of the socket: whether its FIN is sent, and how its bytes are counted. */
static bool read_socket(struct remote_lane *lane, int sock)
{
	int rc = -EAGAIN;

	for (int i = 0; i < LOOKS_MAX && rc == -EAGAIN; i++)
		rc = tcp_syn_bias(sock, &lane->r.syn_bias);
	lane->r.shut = rc == -ESHUTDOWN;
	/* Of one that is over the kernel tells all that is still of interest. */
	return rc == 0 || rc == -ESHUTDOWN || rc == -ENOTCONN;
}

static bool map_halves(struct remote_lane *lane, const struct fd_bag *bag)
{
	size_t bytes = half_bytes(lane->ring_bytes);
	void *half, *fed;

	half = mmap(NULL, bytes, PROT_READ, MAP_SHARED, bag->fds[BROUGHT_HALF], 0);
	if (half == MAP_FAILED)
		return false;
	lane->r.half = half;
	fed = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bag->fds[BROUGHT_FED], 0);
	if (fed == MAP_FAILED)
		return false;
	lane->r.fed = fed;
	lane->r.half_ring_bytes = lane->r.fed_ring_bytes = lane->ring_bytes;
	return true;
}

/* Take what was brought. */
static enum reason fill(struct remote_lane *lane, struct quota_user *user, int *sock,
			const struct fd_bag *bag)
{
	int ear;

	if (!quota_take_ring(&lane->server->quota, user, 2 * lane->ring_bytes))
		return REASON_OVER_QUOTA;
	lane->user = quota_user_ref(user);
	if (!map_halves(lane, bag))
		return REASON_NO_MEMORY;
	if (atomic_load(&lane->r.half->epoch) != lane->epoch)
		return REASON_LANE_CORRUPT;
	if (!read_socket(lane, *sock))
		return REASON_NOT_CONNECTED;
	lane->bell = bell_copy(bag->fds[BROUGHT_BELL]);
	ear = bell_ear(bag->fds[BROUGHT_EAR]);
	if (lane->bell < 0 || ear < 0 || remote_lane_watch(lane, ear) < 0) {
		fd_close(ear);
		lane->hangup.fd = -1;
		return REASON_NO_DESCRIPTORS;
	}
	lane->r.sock = TAKE(*sock, -1);
	return REASON_NONE;
}

enum reason remote_adopt_make(const struct remote_adoption *from, int *sock,
			      const struct fd_bag *bag, struct remote_lane **ret_lane)
{
	struct remote_key key = {.name = *from->name, .epoch = from->epoch};
	struct remote_lane *lane;
	enum reason reason = REASON_NO_MEMORY;
	uint64_t ring;

	*ret_lane = NULL;
	if (!check(bag, &ring))
		return REASON_LANE_CORRUPT;
	key.id = read_id(bag->fds[BROUGHT_FED]);
	if (!key.id)
		return REASON_LANE_CORRUPT;
	lane = remote_lane_by_key(&key);
	if (lane) {
		*ret_lane = lane;
		return lane->has_begun ? REASON_NONE : REASON_LANE_CORRUPT;
	}
	lane = n_adopted < ADOPTED_MAX ? remote_lane_alloc(from->server, from->name) : NULL;
	if (!lane)
		return REASON_OVER_QUOTA;
	lane->epoch = from->epoch;
	lane->ring_bytes = ring;
	lane->is_adopted = true;
	n_adopted++;
	if (remote_lane_name(lane, key.id) == 0)
		reason = fill(lane, from->user, sock, bag);
	if (reason != REASON_NONE) {
		lane->is_failed = true;
		remote_lane_settle(lane);
		return reason;
	}
	lane->has_mapped = lane->has_match = lane->has_begun = lane->has_ended = true;
	lane->r.lost = true;
	lane->ended_ns = loop_now(&lane->server->loop);
	log_debug("epoch %u, port %u: adopted from a predecessor", lane->epoch,
		  lane->name.local.port);
	remote_keep(lane, bag->fds[BROUGHT_HALF], bag->fds[BROUGHT_FED]);
	remote_act_soon(lane);
	*ret_lane = lane;
	return REASON_NONE;
}

void remote_adopted_gone(void)
{
	n_adopted--;
}

enum reason remote_adopt(struct end *end, uint32_t epoch, int fd, struct fd_bag *bag)
{
	const struct remote_adoption from = {
		.server = end->session->server,
		.user = end->session->user,
		.name = &end->name,
		.epoch = epoch,
	};
	AUTO_FD int sock = fd;
	struct remote_lane *lane;
	enum reason reason = remote_adopt_make(&from, &sock, bag, &lane);

	if (reason == REASON_NONE)
		remote_hold(lane, end);
	return reason;
}

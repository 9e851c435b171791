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
 * Lanes of a predecessor. Its client brings the socket, both halves and both bells; nothing else of
 * the lane has outlived it, and nothing else is needed: the lane is lost, since the link is, and
 * from what stands in the halves and in the kernel remote_replay.h goes on where the predecessor
 * stopped, between any two of its stores. What the other daemon has to tell it tells again
 * (remote_lost.c).
 *
 * A client may write what it likes into halves that it brings, also into ours: what we believe of
 * it concerns its own connection alone, which it proves by the socket. So does the lane's id, since
 * the other daemon goes by the connection's name as well.
 *
 * When the daemon lives and only the session with the client was cut, the lane is here still, and
 * is held again.
 */

/* Adopted lanes at a time. Chosen: a quarter of the kernel's usual vm.max_map_count, with two
 * mappings each; the rest is for everything else. */
#define ADOPTED_MAX 16384u

/* Looks at counters that move. Chosen: a predecessor's replay may be on its way still, and each
 * look tries many times itself. */
#define LOOKS_MAX 16

/* What ADOPT brings, in the order of its descriptors. */
enum brought {
	BROUGHT_SOCKET,
	BROUGHT_HALF, /* the client's */
	BROUGHT_FED,  /* ours */
	BROUGHT_BELL, /* the client's */
	BROUGHT_EAR,  /* ours, which it rings */
};

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

/* The lane of @name and @epoch that is fed by the half @fed; @ret_adopted: how many were adopted.
 */
static struct remote_lane *find(const struct tcp_name *name, uint32_t epoch, int fed,
				uint32_t *ret_adopted)
{
	struct remote_lane *found = NULL;
	struct list *node;
	struct stat st;

	*ret_adopted = 0;
	if (sys_fstat(fed, &st) < 0)
		return NULL;
	list_for_each (node, &remote_lanes) {
		struct remote_lane *lane = list_entry(node, struct remote_lane, link);

		*ret_adopted += lane->has_begun && !lane->peer;
		if (lane->has_begun && lane->epoch == epoch && lane->fed_inode == st.st_ino &&
		    memcmp(&lane->name, name, sizeof(*name)) == 0)
			found = lane;
	}
	return found;
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

/* Take what the client has brought. */
static enum reason fill(struct remote_lane *lane, struct end *end, int *sock,
			const struct fd_bag *bag)
{
	struct quota_user *user = end->session->user;
	struct stat st;
	int ear;

	if (!quota_take_ring(&lane->server->quota, user, 2 * lane->ring_bytes))
		return REASON_OVER_QUOTA;
	lane->user = quota_user_ref(user);
	if (!map_halves(lane, bag))
		return REASON_NO_MEMORY;
	lane->id = atomic_load(&lane->r.fed->lane);
	if (!lane->id || atomic_load(&lane->r.half->epoch) != lane->epoch ||
	    sys_fstat(bag->fds[BROUGHT_FED], &st) < 0)
		return REASON_LANE_CORRUPT;
	lane->fed_inode = st.st_ino;
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

enum reason remote_adopt(struct end *end, uint32_t epoch, int fd, struct fd_bag *bag)
{
	AUTO_FD int sock = fd;
	struct remote_lane *lane;
	enum reason reason;
	uint32_t adopted;
	uint64_t ring;

	if (!check(bag, &ring))
		return REASON_LANE_CORRUPT;
	lane = find(&end->name, epoch, bag->fds[BROUGHT_FED], &adopted);
	if (lane) {
		remote_hold(lane, end);
		return REASON_NONE;
	}
	if (adopted >= ADOPTED_MAX)
		return REASON_OVER_QUOTA;
	lane = remote_lane_alloc(end);
	if (!lane)
		return REASON_NO_MEMORY;
	lane->epoch = epoch;
	lane->ring_bytes = ring;
	reason = fill(lane, end, &sock, bag);
	if (reason != REASON_NONE) {
		lane->is_failed = true;
		remote_lane_settle(lane);
		return reason;
	}
	lane->has_mapped = lane->has_match = lane->has_begun = lane->has_ended = true;
	lane->r.lost = true;
	lane->ended_ns = loop_now(&lane->server->loop);
	remote_hold(lane, end);
	remote_note_lost(lane);
	log_debug("epoch %u, port %u: adopted from a predecessor", epoch, end->name.local.port);
	remote_act_soon(lane);
	return REASON_NONE;
}

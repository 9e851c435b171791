/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/ring.h"
#include "lib/relay/relay.h"
#include "os/bell.h"
#include "os/fd.h"
#include "os/memfd.h"
#include "os/sys.h"
#include "os/tcp.h"
#include "session.h"

/* The place that @name has on a lane of @epoch: one that kin holds, or a free one opposite the
 * other end. */
static struct host_end *find_place(const struct tcp_name *name, uint32_t epoch)
{
	struct tcp_name mirror = tcp_name_mirror(name);
	struct list *node;

	list_for_each (node, &relay.lanes) {
		struct relay_lane *lane = list_entry(node, struct relay_lane, link);

		for (int i = 0; lane->epoch == epoch && i < 2; i++) {
			struct host_end *place = &lane->places[i];

			if (place->r.half && !memcmp(&place->name, name, sizeof(*name)))
				return place;
			if (!place->r.half && lane->places[!i].r.half &&
			    !memcmp(&lane->places[!i].name, &mirror, sizeof(mirror)))
				return place;
		}
	}
	return NULL;
}

/* Whether the halves in @bag can be those of a lane; their ring size. */
static bool check_halves(const struct fd_bag *bag, uint64_t *ret_ring_bytes)
{
	struct stat st;
	uint64_t ring;

	if (sys_fstat(bag->fds[1], &st) || st.st_size <= (off_t)HALF_CTL_BYTES)
		return false;
	ring = (uint64_t)st.st_size - HALF_CTL_BYTES;
	*ret_ring_bytes = ring;
	return ring_size_ok(ring) &&
	       !memfd_check(bag->fds[1], half_bytes(ring), MEMFD_SEALS_SIZE) &&
	       !memfd_check(bag->fds[2], half_bytes(ring), MEMFD_SEALS_SIZE) &&
	       !bell_check(bag->fds[3]) && !bell_check(bag->fds[4]);
}

enum reason relay_adopt(struct end *end, uint32_t epoch, int fd, struct fd_bag *bag)
{
	struct host_end *place = find_place(&end->name, epoch);
	AUTO_FD int sock = fd;
	struct relay_lane *lane;
	uint64_t ring;

	if (!check_halves(bag, &ring))
		return REASON_LANE_CORRUPT;
	if (place && place->r.half) {
		place_hold(place, end);
		return REASON_NONE;
	}
	lane = place ? place->lane : lane_new(end->session->server, epoch, ring);
	if (!lane)
		return REASON_NO_MEMORY;
	if (lane->ring_bytes != ring)
		return REASON_LANE_CORRUPT;
	if (!place)
		place = &lane->places[0];
	lane->complete = true;
	lane->lost = true;
	place->name = end->name;
	place->rung = (struct wake_arms){0};
	place->orphan_ns = 0;
	place->bell = bell_copy(bag->fds[3]);
	if (place->bell < 0 || place_listen_to(place, bag->fds[4]) < 0 ||
	    place_map(place, bag->fds[1], bag->fds[2]) < 0) {
		place_release(place);
		lane_try_free(lane);
		return REASON_NO_DESCRIPTORS;
	}
	remote_words_read(place->r.half, &place->told);
	place->r.shut = tcp_syn_bias(sock, &place->r.syn_bias) == -ESHUTDOWN;
	place->r.sock = TAKE(sock, -1);
	place_hold(place, end);
	relay_wake(place);
	relay_act(lane);
	return REASON_NONE;
}

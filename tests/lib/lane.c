/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/lane.h"
#include "lib/tap.h"

/* Chosen: a daemon that rings at all does so within a turn of its loop. */
#define SILENCE_MS 100

uint64_t lane_ring_bytes = LANE_RING_BYTES;

bool lane_init(const struct shuntd *daemon, const int tcp[2], struct lane_end ends[2])
{
	for (int i = 0; i < 2; i++) {
		ends[i] = (struct lane_end){
			.kick = -1,
			.tcp = tcp[i],
			.token = 100u + (unsigned int)i,
			.half = -1,
			.bell = -1,
			.peer_bell = -1,
			.peer_half = -1,
		};
		ends[i].sock = shuntd_session_with_kick(daemon, &ends[i].kick);
		if (ends[i].sock < 0)
			return false;
	}
	return true;
}

bool lane_await_pair(struct lane_end *end, uint32_t epoch)
{
	struct fd_bag bag = {0};
	struct ctl_msg msg;
	void *map;

	if (!msg_expect(end->sock, CTL_PAIR, &msg, &bag))
		return false;
	end->half = bag.fds[0];
	end->bell = bag.fds[1];
	end->peer_bell = bag.fds[2];
	map = mmap(NULL, half_bytes(msg.u.pair.own_ring_bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
		   end->half, 0);
	if (!CHECK(map != MAP_FAILED))
		return false;
	end->own = map;
	return CHECK_EQ(msg.token, end->token) && CHECK_EQ(msg.u.pair.epoch, epoch) &&
	       CHECK_EQ(msg.u.pair.own_ring_bytes, lane_ring_bytes) &&
	       CHECK_EQ(msg.u.pair.peer_ring_bytes, lane_ring_bytes);
}

bool lane_pair(struct lane_end ends[2], uint32_t epoch)
{
	for (int i = 0; i < 2; i++) {
		struct ctl_msg msg;

		msg_register(ends[i].sock, ends[i].token, ends[i].tcp, epoch);
		if (!msg_expect(ends[i].sock, CTL_REGISTERED, &msg, NULL) ||
		    !CHECK_EQ(msg.token, ends[i].token) || !CHECK_EQ(msg.u.registered.held, 1))
			return false;
	}
	return lane_await_pair(&ends[0], epoch) && lane_await_pair(&ends[1], epoch);
}

void lane_say_mapped(struct lane_end *end, uint32_t epoch)
{
	const struct ctl_msg msg = {
		.type = CTL_MAPPED,
		.token = end->token,
		.u.mapped = {.epoch = epoch},
	};

	CHECK_OK(msg_send(end->sock, &msg, NULL, 0));
}

void lane_say_drained(struct lane_end *end, uint32_t epoch)
{
	const struct ctl_msg msg = {
		.type = CTL_DRAINED,
		.token = end->token,
		.u.drained =
			{
				.epoch = epoch,
				.reason = REASON_REQUESTED,
				.totals = {.tcp_tx = 10 * epoch,
					   .lane_tx = 1000 * epoch,
					   .lane_rx = 2000 * epoch,
					   .rx_changes = 2 * epoch},
			},
	};

	CHECK_OK(msg_send(end->sock, &msg, NULL, 0));
}

bool lane_await_peer(struct lane_end *end, uint32_t epoch)
{
	struct fd_bag bag = {0};
	struct ctl_msg msg;

	if (!msg_expect(end->sock, CTL_PEER, &msg, &bag))
		return false;
	end->peer_half = bag.fds[0];
	return CHECK_EQ(msg.token, end->token) && CHECK_EQ(msg.u.peer.epoch, epoch);
}

bool lane_complete(struct lane_end ends[2], uint32_t epoch)
{
	lane_say_mapped(&ends[0], epoch);
	lane_say_mapped(&ends[1], epoch);
	return lane_await_peer(&ends[0], epoch) && lane_await_peer(&ends[1], epoch);
}

void lane_drop(struct lane_end *end)
{
	if (end->own)
		munmap(end->own, half_bytes(lane_ring_bytes));
	fd_close(end->half);
	fd_close(end->bell);
	fd_close(end->peer_bell);
	fd_close(end->peer_half);
	end->half = end->bell = end->peer_bell = end->peer_half = -1;
	end->own = NULL;
}

void lane_ends_close(struct lane_end ends[2])
{
	for (int i = 0; i < 2; i++) {
		lane_drop(&ends[i]);
		fd_close(ends[i].sock);
		fd_close(ends[i].kick);
		fd_close(ends[i].tcp);
	}
}

bool lane_rings(int fd)
{
	struct pollfd poll_in = {.fd = fd, .events = POLLIN};
	char rings[4096];

	return CHECK_EQ(poll(&poll_in, 1, SHUNTD_WAIT_MS), 1) &&
	       CHECK(read(fd, rings, sizeof(rings)) > 0);
}

bool lane_is_silent(int fd)
{
	struct pollfd poll_in = {.fd = fd, .events = POLLIN};

	return CHECK_EQ(poll(&poll_in, 1, SILENCE_MS), 0);
}

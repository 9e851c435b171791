/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/memfd.h"

#include "lib/child.h"
#include "lib/lane.h"
#include "lib/net.h"
#include "lib/tap.h"

/*
 * One writer per half: whatever the receiver of a half tries, and whoever he is, he can read it
 * and no more, while the owner goes on writing.
 */

#define HALF_BYTES (HALF_CTL_BYTES + (1u << 18))

static void try_descriptor(int fd)
{
	char byte = 1;
	void *map;

	CHECK(mmap(NULL, HALF_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	map = mmap(NULL, HALF_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	REQUIRE(map != MAP_FAILED);
	CHECK_EQ(mprotect(map, HALF_BYTES, PROT_READ | PROT_WRITE), -1);
	munmap(map, HALF_BYTES);
	CHECK(pwrite(fd, &byte, 1, 0) < 0);
	CHECK_EQ(ftruncate(fd, 0), -1);
	CHECK_EQ(ftruncate(fd, 2 * HALF_BYTES), -1);
	CHECK_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HALF_BYTES), -1);
	CHECK_EQ(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, HALF_BYTES), -1);
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	errno = 0;
}

/* The same through every way of opening the descriptor again. */
static void try_reopened(int fd)
{
	static const int modes[] = {O_RDONLY, O_WRONLY, O_RDWR};
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < 3; i++) {
		int again = open(path, modes[i] | O_CLOEXEC);
		char byte = 1;

		if (again < 0)
			continue; /* not even that: another user */
		CHECK(mmap(NULL, HALF_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) ==
		      MAP_FAILED);
		CHECK(mmap(NULL, HALF_BYTES, PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
		CHECK(pwrite(again, &byte, 1, 0) < 0);
		CHECK_EQ(ftruncate(again, 0), -1);
		CHECK(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HALF_BYTES));
		close(again);
	}
}

static void try_everything(void *arg)
{
	const int *fd = arg;

	try_descriptor(*fd);
	try_reopened(*fd);
	CHECK_OK(memfd_check(*fd, HALF_BYTES, MEMFD_SEALS_WRITERS));
}

static void try_as(uid_t uid)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	child_run(uid, try_everything, &ends[0].peer_half);
	/* The owner's own descriptor gives no second way either; his mapping still writes. */
	child_run(uid, try_everything, &ends[1].half);
	atomic_store(&ends[1].own->prod, 4711);
	CHECK_EQ(atomic_load(&ends[1].own->prod), 4711);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

TAP_CASE(the_same_user_or_root_can_not_write_a_half)
{
	try_as(CHILD_UID_SAME);
}

TAP_CASE(another_user_can_not_write_a_half)
{
	if (!child_can_switch())
		SKIP("only root can become another user");
	try_as(CHILD_UID_OTHER);
}

/* What the owner stores is what the other reads; both directions. */
TAP_CASE(each_half_is_the_other_sides_view)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1) && lane_complete(ends, 1));
	for (int i = 0; i < 2; i++) {
		const struct half_ctl *view =
			mmap(NULL, HALF_BYTES, PROT_READ, MAP_SHARED, ends[!i].peer_half, 0);

		REQUIRE((const void *)view != MAP_FAILED);
		CHECK_EQ(atomic_load(&view->prod), 0);
		memcpy(half_ring(ends[i].own), "hello", 5);
		atomic_store(&ends[i].own->prod, 5);
		CHECK_EQ(atomic_load(&view->prod), 5);
		CHECK(memcmp(half_ring_const(view), "hello", 5) == 0);
		munmap((void *)view, HALF_BYTES);
	}
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

/* An owner who seals his half so that we can't has only himself to blame. */
TAP_CASE(an_owner_who_spoils_the_seals_is_cut_off)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	struct ctl_msg msg;
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1));
	CHECK_OK(fcntl(ends[0].half, F_ADD_SEALS, F_SEAL_SEAL));
	lane_say_mapped(&ends[0], 1);
	msg_expect_cut(ends[0].sock);
	REQUIRE(msg_expect(ends[1].sock, CTL_UNPAIR, &msg, NULL));
	CHECK_EQ(msg.u.unpair.reason, REASON_LANE_CORRUPT);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

/* A hole would be filled at the reader's cost when he reads it. */
TAP_CASE(a_half_with_a_hole_is_not_passed_on)
{
	struct shuntd daemon;
	struct lane_end ends[2];
	int tcp[2];

	REQUIRE(shuntd_start(&daemon, ""));
	REQUIRE_OK(net_pair(NET_V4, tcp));
	REQUIRE(lane_init(&daemon, tcp, ends) && lane_pair(ends, 1));
	CHECK_OK(fallocate(ends[0].half, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 65536));
	lane_say_mapped(&ends[0], 1);
	msg_expect_cut(ends[0].sock);
	msg_expect(ends[1].sock, CTL_UNPAIR, NULL, NULL);
	lane_ends_close(ends);
	shuntd_stop(&daemon);
}

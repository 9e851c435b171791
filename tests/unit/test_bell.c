/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "os/bell.h"
#include "os/fd.h"
#include "os/syswait.h"

#include "lib/tap.h"

/* An epoll that watches @bell as a sleeper does, without the edge of the past. */
static int watch(int bell)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	int ep = sys_epoll_create1(EPOLL_CLOEXEC);

	CHECK_OK(sys_epoll_ctl(ep, EPOLL_CTL_ADD, bell, &event));
	sys_epoll_wait(ep, &event, 1, 0);
	return ep;
}

static int edges(int ep)
{
	struct epoll_event event;

	return sys_epoll_wait(ep, &event, 1, 0);
}

TAP_CASE(a_ring_wakes_every_sleeper_and_again)
{
	AUTO_FD int bell = bell_make();
	AUTO_FD int copy = bell_copy(bell);
	AUTO_FD int one = watch(bell);
	AUTO_FD int two = watch(copy);

	REQUIRE(bell >= 0 && copy >= 0);
	CHECK_EQ(edges(one) + edges(two), 0);
	for (int i = 0; i < 3; i++) {
		bell_ring(i == 1 ? bell : copy);
		CHECK_EQ(edges(one), 1);
		CHECK_EQ(edges(two), 1);
		CHECK_EQ(edges(one) + edges(two), 0);
	}
}

TAP_CASE(a_full_bell_rings)
{
	AUTO_FD int bell = bell_make();
	AUTO_FD int ep = watch(bell);
	static const char junk[65536];
	int lost = 0;

	while (sys_write(bell, junk, sizeof(junk)) > 0 || sys_write(bell, junk, 1) > 0)
		;
	edges(ep);
	for (int i = 0; i < 10000; i++) { /* past another filling */
		bell_ring(bell);
		lost += edges(ep) != 1;
	}
	CHECK_EQ(lost, 0);
}

TAP_CASE(the_flags_of_one_holder_are_not_anothers)
{
	AUTO_FD int ours = bell_make();
	AUTO_FD int theirs = bell_copy(ours);
	static const char junk[65536];

	/* A hostile holder makes his description block and fills the pipe. */
	while (sys_write(theirs, junk, sizeof(junk)) > 0 || sys_write(theirs, junk, 1) > 0)
		;
	CHECK_OK(sys_fcntl(theirs, F_SETFL, 0));
	CHECK(sys_fcntl(ours, F_GETFL, 0) & O_NONBLOCK);
	bell_ring(ours); /* returns */
	CHECK_EQ(bell_check(theirs), 0);
}

TAP_CASE(only_pipes_are_bells)
{
	AUTO_FD int ep = sys_epoll_create1(EPOLL_CLOEXEC);

	CHECK_EQ(bell_check(ep), -EINVAL);
	CHECK_EQ(bell_check(-1), -EBADF);
	CHECK_EQ(bell_copy(-1), -EBADF);
	bell_ring(-1);
}

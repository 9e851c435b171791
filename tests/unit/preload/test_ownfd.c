/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/util.h"
#include "client/ownfd.h"
#include "lib/tap.h"
#include "os/fd.h"

/* The numbers of the library's own descriptors. */

TAP_CASE(numbers_come_and_go)
{
	static const int fds[] = {0, 63, 64, 65, 1000, FDTABLE_SIZE - 1};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		CHECK(!ownfd_is(fds[i]));
		ownfd_add(fds[i]);
		CHECK(ownfd_is(fds[i]));
	}
	CHECK(!ownfd_is(1));
	CHECK(!ownfd_is(66));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		CHECK_EQ(ownfd_next(i ? (unsigned int)fds[i - 1] + 1 : 0), fds[i]);
		CHECK_EQ(ownfd_next((unsigned int)fds[i]), fds[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		ownfd_remove(fds[i]);
		CHECK(!ownfd_is(fds[i]));
	}
	CHECK_EQ(ownfd_next(0), FDTABLE_SIZE);
}

TAP_CASE(numbers_out_of_range)
{
	ownfd_add(-1);
	ownfd_add(FDTABLE_SIZE);
	CHECK(!ownfd_is(-1));
	CHECK(!ownfd_is(FDTABLE_SIZE));
	ownfd_remove(-1);
	CHECK_EQ(ownfd_next(FDTABLE_SIZE), FDTABLE_SIZE);
	CHECK_EQ(ownfd_next(UINT_MAX), FDTABLE_SIZE);
}

TAP_CASE(taken_and_closed)
{
	int fd = ownfd_take(open("/dev/null", O_RDONLY | O_CLOEXEC));

	REQUIRE(fd >= FD_HIGH_MIN);
	CHECK(ownfd_is(fd));
	ownfd_close(fd);
	CHECK(!ownfd_is(fd));
	CHECK_EQ(fcntl(fd, F_GETFD), -1);
	CHECK_EQ(ownfd_take(-5), -5);
	ownfd_close(-1);
}

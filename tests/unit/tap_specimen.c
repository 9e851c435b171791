/* SPDX-License-Identifier: MIT */
/* Cases that end in every way a case can, for tap_check.py. */
#include <stdlib.h>
#include <unistd.h>

#include "lib/child.h"
#include "lib/tap.h"

TAP_CASE(passes)
{
	CHECK(true);
	CHECK_EQ(2, 2);
	CHECK_STR("a", "a");
	CHECK_OK(0);
}

TAP_CASE(runs_no_check)
{
}

TAP_CASE(differs)
{
	CHECK_EQ(6 * 7, 43);
	CHECK_STR("got", "want");
	CHECK_OK(-9);
}

TAP_CASE(stops_at_require)
{
	REQUIRE(false);
	tap_diag("not reached");
}

TAP_CASE(is_skipped)
{
	SKIP("no %s here", "luck");
}

TAP_CASE(fails_and_is_skipped)
{
	CHECK(false);
	SKIP("too late");
}

static void fail(void *arg)
{
	(void)arg;
	CHECK(false);
}

TAP_CASE(fails_in_a_child)
{
	child_run(CHILD_UID_SAME, fail, NULL);
}

static void end_badly(void *arg)
{
	_exit(*(int *)arg);
}

TAP_CASE(child_ends_badly)
{
	int status = 3;

	child_run(CHILD_UID_SAME, end_badly, &status);
}

TAP_CASE(crashes)
{
	CHECK(true);
	abort();
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "os/clock.h"
#include "os/futex.h"

#include "lib/child.h"
#include "lib/tap.h"

static _Atomic uint32_t *shared_word(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return page == MAP_FAILED ? NULL : page;
}

TAP_CASE(wait_ends_at_the_deadline)
{
	uint64_t start_ns = clock_now_ns();
	_Atomic uint32_t word = 5;

	CHECK_EQ(futex_wait(&word, 4, FUTEX_FOREVER), -EAGAIN);
	CHECK_EQ(futex_wait(&word, 5, start_ns + 20000000), -ETIMEDOUT);
	CHECK(clock_now_ns() - start_ns >= 20000000);
	CHECK_EQ(futex_wait(&word, 5, 0), -ETIMEDOUT);
	CHECK_EQ(futex_wake(&word, 1), 0);
}

static void sleeper(void *arg)
{
	_Atomic uint32_t *word = arg;
	int ret;

	while (atomic_load(word) == 0) {
		ret = futex_wait(word, 0, clock_now_ns() + 10000000000u);
		CHECK(ret == 0 || ret == -EAGAIN);
		if (ret == -ETIMEDOUT)
			return;
	}
	CHECK_EQ(atomic_load(word), 1);
}

TAP_CASE(wake_reaches_another_process)
{
	_Atomic uint32_t *word = shared_word();
	pid_t pids[3];
	int woken = 0;

	REQUIRE(word);
	for (int i = 0; i < 3; i++)
		pids[i] = child_start(CHILD_UID_SAME, sleeper, word);
	/* One at a time, until all three were seen asleep. */
	while (woken < 3) {
		int n = futex_wake(word, 1);

		CHECK(n == 0 || n == 1);
		woken += n;
	}
	atomic_store(word, 1);
	CHECK_OK(futex_wake(word, 3));
	for (int i = 0; i < 3; i++)
		child_finish(pids[i]);
	munmap(word, 4096);
}

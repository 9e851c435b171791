/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"
#include "fabric/mr.h"
#include "os/fd.h"
#include "os/memfd.h"

#include "lib/child.h"
#include "lib/tap.h"
#include "rig.h"

/* Registered halves, on devices of the verbs double. */

#define RING (64u << 10)

struct waiting {
	struct mr_job job;
	int calls;
};

static void on_done(struct mr_job *job)
{
	container_of(job, struct waiting, job)->calls++;
}

static void prepare(struct rig *rig, struct mr_budget *budget, struct waiting *waiting,
		    enum mr_work work)
{
	*waiting = (struct waiting){
		.job = {.device = rig->device,
			.budget = budget,
			.work = work,
			.ring_bytes = RING,
			.client_fd = -1,
			.done = on_done},
	};
}

TAP_CASE(our_half_is_fresh_and_only_its_ring_is_registered)
{
	struct mr_budget budget = {.max = 2 * RING};
	struct waiting make, make_more, release;
	struct rig rig;
	int fds;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	fds = child_count_fds();
	prepare(&rig, &budget, &make, MR_MAKE);
	CHECK_EQ(mr_submit(&rig.control, &make.job), 0);
	CHECK_EQ(budget.pinned, RING);
	RIG_AWAIT(&rig, make.calls == 1);
	REQUIRE(make.job.result == 0);
	CHECK(make.job.half->region->addr == half_ring(make.job.half->ctl));
	CHECK_EQ(make.job.half->region->length, RING);
	CHECK_OK(memfd_check(make.job.half->fd, half_bytes(RING), MEMFD_SEALS_SIZE));
	for (size_t i = 0; i < half_bytes(RING); i++) {
		if (((uint8_t *)make.job.half->ctl)[i])
			CHECK_EQ(i, -1);
	}
	/* One rkey each. */
	prepare(&rig, &budget, &make_more, MR_MAKE);
	CHECK_EQ(mr_submit(&rig.control, &make_more.job), 0);
	RIG_AWAIT(&rig, make_more.calls == 1);
	REQUIRE(make_more.job.result == 0);
	CHECK(make_more.job.half->region->rkey != make.job.half->region->rkey);
	CHECK_EQ(budget.count, 2);
	/* A third is over the budget: told at once. */
	prepare(&rig, &budget, &release, MR_MAKE);
	CHECK_EQ(mr_submit(&rig.control, &release.job), MR_OVER_BUDGET);
	CHECK_EQ(release.calls, 0);
	for (int i = 0; i < 2; i++) {
		prepare(&rig, &budget, &release, MR_FREE);
		release.job.half = i ? make_more.job.half : make.job.half;
		CHECK_EQ(mr_submit(&rig.control, &release.job), 0);
		RIG_AWAIT(&rig, release.calls == 1);
		CHECK(!release.job.half);
	}
	CHECK_EQ(budget.pinned, 0);
	CHECK_EQ(budget.count, 0);
	CHECK_EQ(child_count_fds(), fds);
	rig_close(&rig);
}

TAP_CASE(a_clients_half_is_taken_only_sealed_and_of_the_right_size)
{
	struct mr_budget budget = {.max = 1u << 20};
	struct waiting attach, release;
	AUTO_FD int fd = memfd_make("test-half", half_bytes(RING));
	AUTO_FD int small = memfd_make("test-half", half_bytes(RING) / 2);
	struct rig rig;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	prepare(&rig, &budget, &attach, MR_ATTACH);
	attach.job.client_fd = fd;
	CHECK_EQ(mr_submit(&rig.control, &attach.job), 0);
	RIG_AWAIT(&rig, attach.calls == 1);
	CHECK_EQ(attach.job.result, -EINVAL); /* its owner could take pages away */
	CHECK_EQ(budget.pinned, 0);

	CHECK_OK(memfd_seal_writers(fd));
	CHECK_OK(memfd_seal_writers(small));
	prepare(&rig, &budget, &attach, MR_ATTACH);
	attach.job.client_fd = small;
	CHECK_EQ(mr_submit(&rig.control, &attach.job), 0);
	RIG_AWAIT(&rig, attach.calls == 1);
	CHECK_EQ(attach.job.result, -EINVAL);

	prepare(&rig, &budget, &attach, MR_ATTACH);
	attach.job.client_fd = fd;
	CHECK_EQ(mr_submit(&rig.control, &attach.job), 0);
	RIG_AWAIT(&rig, attach.calls == 1);
	REQUIRE(attach.job.result == 0);
	CHECK_EQ(attach.job.half->region->length, RING);
	/* It is ours to read only. */
	CHECK_EQ(mprotect(attach.job.half->ctl, HALF_CTL_BYTES, PROT_READ | PROT_WRITE), -1);
	prepare(&rig, &budget, &release, MR_FREE);
	release.job.half = attach.job.half;
	CHECK_EQ(mr_submit(&rig.control, &release.job), 0);
	RIG_AWAIT(&rig, release.calls == 1);
	CHECK_EQ(budget.pinned, 0);
	rig_close(&rig);
}

TAP_CASE(a_refused_registration_leaves_nothing)
{
	struct mr_budget budget = {.max = 1u << 20};
	struct waiting make;
	struct rig rig;
	int fds;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	fds = child_count_fds();
	verbs_host_faults(rig.host, "reg_mr errno=ENOMEM");
	prepare(&rig, &budget, &make, MR_MAKE);
	CHECK_EQ(mr_submit(&rig.control, &make.job), 0);
	RIG_AWAIT(&rig, make.calls == 1);
	CHECK_EQ(make.job.result, -ENOMEM);
	CHECK(!make.job.half);
	CHECK_EQ(budget.pinned, 0);
	CHECK_EQ(budget.count, 0);
	CHECK_EQ(child_count_fds(), fds);
	rig_close(&rig);
}

TAP_CASE(a_few_are_kept_ready)
{
	struct mr_budget budget = {.max = 3 * RING};
	struct waiting release;
	struct mr_store store;
	struct mr_half *half;
	struct rig rig;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	mr_store_init(&store, rig.device, &rig.control, &budget, RING, 2);
	CHECK(!mr_store_take(&store));
	mr_store_tick(&store);
	RIG_AWAIT(&rig, store.n_ready == 2);
	CHECK(!rig_reap(&rig, 50)); /* and no more than that */
	half = mr_store_take(&store);
	REQUIRE(half);
	RIG_AWAIT(&rig, store.n_ready == 2);
	CHECK_EQ(budget.pinned, 3 * RING);
	/* The budget is used up: it makes no more, and goes on when there is room. */
	prepare(&rig, &budget, &release, MR_FREE);
	release.job.half = mr_store_take(&store);
	REQUIRE(release.job.half);
	CHECK_EQ(store.n_ready, 1);
	CHECK_EQ(mr_submit(&rig.control, &release.job), 0);
	RIG_AWAIT(&rig, release.calls == 1);
	mr_store_tick(&store);
	RIG_AWAIT(&rig, store.n_ready == 2);
	mr_store_stop(&store);
	RIG_AWAIT(&rig, mr_store_is_quiet(&store));
	prepare(&rig, &budget, &release, MR_FREE);
	release.job.half = half;
	CHECK_EQ(mr_submit(&rig.control, &release.job), 0);
	RIG_AWAIT(&rig, release.calls == 1);
	mr_store_deinit(&store);
	CHECK_EQ(budget.pinned, 0);
	CHECK_EQ(budget.count, 0);
	rig_close(&rig);
}

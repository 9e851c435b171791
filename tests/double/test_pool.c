/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#include "lib/tap.h"
#include "rig.h"

/* Pools of queue pairs, on devices of the verbs double. */

#define SECOND 1000000000ull

struct taker {
	struct qp_waiter waiter;
	struct qp *qp;
	int why, calls;
};

static void on_qp(struct qp_waiter *waiter, struct qp *qp, int why)
{
	struct taker *taker = container_of(waiter, struct taker, waiter);

	taker->qp = qp;
	taker->why = why;
	taker->calls++;
}

/* The verdict; 0: taker->qp is there. */
static int take(struct qp_pool *pool, struct taker *taker)
{
	*taker = (struct taker){.waiter = {.fn = on_qp}};
	return qp_pool_take(pool, &taker->waiter, &taker->qp);
}

static void give_back(struct qp_pool *pool, struct taker *taker)
{
	qp_pool_retire(pool, taker->qp);
	taker->qp = NULL;
}

TAP_CASE(a_pool_fills_itself_and_is_refilled_behind_a_take)
{
	struct qp_pool pool;
	struct taker taker;
	struct rig rig;
	uint64_t created;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	rig_pool(&rig, &pool, 8, 32, NULL);
	CHECK_EQ(pool.n_ready, 0);
	qp_pool_tick(&pool, 1);
	RIG_AWAIT(&rig, pool.n_ready == 8);
	created = pool.counts.created;
	CHECK_EQ(created, 8);
	/* Here it is, and nothing was created for it. */
	REQUIRE(take(&pool, &taker) == 0);
	CHECK_EQ(pool.counts.created, created);
	CHECK_EQ(taker.qp->verbs->qp_type, IBV_QPT_RC);
	CHECK_EQ(taker.qp->inline_max, rig_spec.inline_bytes);
	CHECK_EQ(taker.calls, 0);
	RIG_AWAIT(&rig, pool.n_ready == 8);
	CHECK_EQ(pool.n_out, 1);
	CHECK_EQ(rig.budget.in_use, 9);
	give_back(&pool, &taker);
	RIG_AWAIT(&rig, pool.counts.destroyed == 1);
	CHECK_EQ(rig.budget.in_use, 8);
	CHECK_EQ(pool.n_ready, 8);
	rig_pool_end(&rig, &pool);
	rig_close(&rig);
}

/* Whatever the control thread is given now it does before long. */
static void nothing_happens(struct rig *rig)
{
	for (int i = 0; i < 5; i++)
		rig_reap(rig, 10);
}

TAP_CASE(no_queue_pair_is_made_while_a_link_is)
{
	struct taker takers[4];
	struct qp_pool pool;
	struct rig rig;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	rig_pool(&rig, &pool, 2, 2, NULL);
	qp_pool_tick(&pool, 1);
	RIG_AWAIT(&rig, pool.n_ready == 2);
	qp_pool_hold(&pool);
	REQUIRE(take(&pool, &takers[0]) == 0);
	qp_pool_tick(&pool, SECOND);
	nothing_happens(&rig);
	CHECK_EQ(pool.n_ready, 1);
	CHECK_EQ(pool.counts.created, 2);
	/* It is made: now. */
	qp_pool_release(&pool);
	RIG_AWAIT(&rig, pool.n_ready == 2);
	/* Who finds none can't wait for links that others make. */
	qp_pool_hold(&pool);
	REQUIRE(take(&pool, &takers[1]) == 0);
	REQUIRE(take(&pool, &takers[2]) == 0);
	CHECK_EQ(take(&pool, &takers[3]), QP_POOL_WAIT);
	RIG_AWAIT(&rig, takers[3].qp && pool.n_ready == 2);
	/* And one that takes long does not keep the pool empty for ever. */
	give_back(&pool, &takers[0]);
	REQUIRE(take(&pool, &takers[0]) == 0);
	qp_pool_tick(&pool, 2 * SECOND);
	nothing_happens(&rig);
	CHECK_EQ(pool.n_ready, 1);
	qp_pool_tick(&pool, 2 * SECOND + QP_POOL_PUT_OFF_NS);
	RIG_AWAIT(&rig, pool.n_ready == 2);
	qp_pool_release(&pool);
	for (int i = 0; i < 4; i++)
		give_back(&pool, &takers[i]);
	rig_pool_end(&rig, &pool);
	rig_close(&rig);
}

/* A peer must not see the number of an old connection again. */
TAP_CASE(a_used_queue_pair_is_never_given_out_again)
{
	uint32_t seen[64];
	struct qp_pool pool;
	struct taker taker;
	struct rig rig;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	rig_pool(&rig, &pool, 2, 2, NULL);
	qp_pool_tick(&pool, 1);
	for (int i = 0; i < 64; i++) {
		RIG_AWAIT(&rig, pool.n_ready == 2);
		REQUIRE(take(&pool, &taker) == 0);
		seen[i] = taker.qp->verbs->qp_num;
		for (int j = 0; j < i; j++)
			CHECK(seen[i] != seen[j]);
		give_back(&pool, &taker);
	}
	RIG_AWAIT(&rig, pool.counts.destroyed == 64);
	CHECK_EQ(pool.counts.taken, 64);
	rig_pool_end(&rig, &pool);
	rig_close(&rig);
}

TAP_CASE(who_finds_none_waits_and_is_served_in_order)
{
	static struct taker takers[20];
	struct qp_pool pool;
	struct rig rig;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	rig_pool(&rig, &pool, 1, 64, NULL);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(take(&pool, &takers[i]), QP_POOL_WAIT);
	CHECK_EQ(pool.counts.waited, 20);
	qp_pool_forget(&pool, &takers[3].waiter);
	for (int i = 0; i < 20; i++) {
		RIG_AWAIT(&rig, takers[i].calls == (i == 3 ? 0 : 1));
		CHECK(!takers[i].qp == (i == 3));
		if (i > 0 && i != 3 && i != 4)
			CHECK(takers[i - 1].calls == 1);
	}
	CHECK_EQ(pool.n_out, 19);
	/* So many at once: more are kept from now on. */
	CHECK(pool.size.target > 1);
	for (int i = 0; i < 20; i++) {
		if (takers[i].qp)
			give_back(&pool, &takers[i]);
	}
	rig_pool_end(&rig, &pool);
	rig_close(&rig);
}

TAP_CASE(the_budget_holds_over_all_pools_of_a_device)
{
	struct taker takers[8];
	struct qp_pool pools[2];
	struct rig rig;
	int got = 0, over = 0;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	rig.budget.config_max = 5;
	rig_pool(&rig, &pools[0], 2, 8, NULL);
	rig_pool(&rig, &pools[1], 2, 8, NULL);
	qp_pool_tick(&pools[0], 1);
	qp_pool_tick(&pools[1], 1);
	RIG_AWAIT(&rig, pools[0].n_ready == 2 && pools[1].n_ready == 2);
	for (int i = 0; i < 8; i++) {
		int rc = take(&pools[i % 2], &takers[i]);

		while (rc == QP_POOL_WAIT && takers[i].calls == 0 && rig_reap(&rig, RIG_WAIT_MS))
			;
		got += takers[i].qp != NULL;
		over += rc == QP_POOL_OVER || takers[i].why == QP_POOL_OVER;
		CHECK(rig.budget.in_use + rig.budget.coming <= 5);
	}
	CHECK_EQ(got, 5);
	CHECK_EQ(over, 3);
	/* What is given back may be made anew. */
	give_back(&pools[0], &takers[0]);
	RIG_AWAIT(&rig, pools[0].n_ready == 1);
	CHECK_EQ(take(&pools[0], &takers[0]), 0);
	for (int i = 0; i < 8; i++) {
		if (takers[i].qp)
			give_back(&pools[i % 2], &takers[i]);
	}
	qp_pool_stop(&pools[0]);
	qp_pool_stop(&pools[1]);
	RIG_AWAIT(&rig, qp_pool_is_quiet(&pools[0]) && qp_pool_is_quiet(&pools[1]));
	qp_pool_deinit(&pools[0]);
	rig_pool_end(&rig, &pools[1]);
	rig_close(&rig);
}

/* Take until nothing comes any more. How many came. */
static int take_all(struct rig *rig, struct qp_pool *pool, struct taker *takers, int max)
{
	for (int i = 0; i < max; i++) {
		int rc = take(pool, &takers[i]);

		while (rc == QP_POOL_WAIT && takers[i].calls == 0 && rig_reap(rig, RIG_WAIT_MS))
			;
		if (!takers[i].qp)
			return i;
	}
	return max;
}

/* What the device has counts, less a share for others. */
TAP_CASE(max_qp_of_the_device_is_respected)
{
	struct taker takers[20];
	struct qp_pool pool;
	struct rig rig;
	int got;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	verbs_host_set(rig.host, "rxe0", "max_qp", "16");
	rig.budget.device_max = 16;
	rig_pool(&rig, &pool, 2, 64, NULL);
	got = take_all(&rig, &pool, takers, 20);
	CHECK_EQ(got, 14);
	CHECK_EQ(pool.counts.failed, 0);
	for (int i = 0; i < got; i++)
		give_back(&pool, &takers[i]);
	rig_pool_end(&rig, &pool);
	rig_close(&rig);
}

TAP_CASE(the_size_follows_the_demand)
{
	struct taker takers[40];
	struct qp_pool pool;
	struct rig rig;
	uint64_t now = 1;
	int got;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	rig_pool(&rig, &pool, 2, 16, NULL);
	got = take_all(&rig, &pool, takers, 40);
	CHECK_EQ(got, 40);
	CHECK_EQ(pool.size.target, 16);
	for (int i = 0; i < got; i++)
		give_back(&pool, &takers[i]);
	RIG_AWAIT(&rig, pool.n_ready == 16 && pool.counts.destroyed == 40);
	for (int i = 0; i < 60; i++) {
		qp_pool_tick(&pool, now += POOL_WINDOW_NS);
		while (rig_reap(&rig, 0))
			;
	}
	RIG_AWAIT(&rig, pool.n_ready == 2 && pool.counts.destroyed == 54);
	CHECK_EQ(rig.budget.in_use, 2);
	rig_pool_end(&rig, &pool);
	rig_close(&rig);
}

/* Out of memory: told at once to who waits, tried again later and not in a loop. */
TAP_CASE(a_failure_is_told_as_itself_and_tried_again_later)
{
	struct qp_pool pool;
	struct taker taker;
	struct rig rig;
	uint64_t failed;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	verbs_host_faults(rig.host, "create_qp count=inf errno=ENOMEM");
	rig_pool(&rig, &pool, 2, 8, NULL);
	CHECK_EQ(take(&pool, &taker), QP_POOL_WAIT);
	RIG_AWAIT(&rig, taker.calls == 1);
	CHECK(!taker.qp);
	CHECK_EQ(taker.why, -ENOMEM);
	CHECK_EQ(pool.error, -ENOMEM);
	CHECK_EQ(rig.budget.in_use + rig.budget.coming, 0);
	/* Until the next try nobody is kept waiting for it. */
	CHECK_EQ(take(&pool, &taker), QP_POOL_OVER);
	failed = pool.counts.failed;
	qp_pool_tick(&pool, SECOND);
	qp_pool_tick(&pool, SECOND + QP_POOL_RETRY_MIN_NS - 1);
	CHECK(!rig_reap(&rig, 50));
	CHECK_EQ(pool.counts.failed, failed);
	qp_pool_tick(&pool, SECOND + QP_POOL_RETRY_MIN_NS);
	RIG_AWAIT(&rig, pool.counts.failed == failed + 1);
	/* The pause is twice as long now. */
	qp_pool_tick(&pool, 3 * SECOND);
	qp_pool_tick(&pool, 3 * SECOND + QP_POOL_RETRY_MIN_NS);
	CHECK(!rig_reap(&rig, 50));
	verbs_host_faults(rig.host, "");
	qp_pool_tick(&pool, 3 * SECOND + 2 * QP_POOL_RETRY_MIN_NS);
	RIG_AWAIT(&rig, pool.n_ready >= 2);
	CHECK_EQ(pool.error, 0);
	CHECK_EQ(take(&pool, &taker), 0);
	give_back(&pool, &taker);
	rig_pool_end(&rig, &pool);
	rig_close(&rig);
}

static int refusals;

static void count_refusal(struct qp_pool *pool)
{
	(void)pool;
	refusals++;
}

/* The limits of the rig's spec are no longer the device's: refused, or granted less. */
static void outdated(const char *personality, const char *limit)
{
	struct qp_spec spec = rig_spec;
	struct qp_pool pool;
	struct taker taker;
	struct rig rig;

	refusals = 0;
	REQUIRE(rig_open(&rig, "dev0", personality));
	verbs_host_set(rig.host, "dev0", "inline", limit);
	rig_pool(&rig, &pool, 2, 8, count_refusal);
	CHECK_EQ(take(&pool, &taker), QP_POOL_WAIT);
	RIG_AWAIT(&rig, refusals == 1);
	/* He waits for the probe, and nothing is tried until it is over. */
	CHECK_EQ(taker.calls, 0);
	qp_pool_tick(&pool, 100 * SECOND);
	CHECK(!rig_reap(&rig, 50));
	CHECK_EQ(refusals, 1);
	CHECK_EQ(pool.counts.created, 0);
	CHECK_EQ(rig.cqs.count, 0);
	spec.inline_bytes = 32;
	qp_pool_set_spec(&pool, &spec);
	RIG_AWAIT(&rig, taker.calls == 1);
	REQUIRE(taker.qp);
	CHECK_EQ(taker.qp->inline_max, 32);
	give_back(&pool, &taker);
	rig_pool_end(&rig, &pool);
	rig_close(&rig);
}

TAP_CASE(a_device_that_refuses_what_it_granted_once_is_probed_again)
{
	outdated("rxe", "48");
}

TAP_CASE(so_is_one_that_grants_less_without_a_word)
{
	outdated("hns-hip08", "32");
}

TAP_CASE(another_spec_replaces_what_is_ready)
{
	struct qp_spec spec = rig_spec;
	struct qp_pool pool;
	struct taker taker;
	struct rig rig;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	rig_pool(&rig, &pool, 4, 8, NULL);
	qp_pool_tick(&pool, 1);
	RIG_AWAIT(&rig, pool.n_ready == 4);
	/* Also one that is being made just now. */
	CHECK_EQ(take(&pool, &taker), 0);
	give_back(&pool, &taker);
	spec.inline_bytes = 200;
	qp_pool_set_spec(&pool, &spec);
	for (int i = 0; i < 4; i++) {
		RIG_AWAIT(&rig, pool.n_ready > 0);
		REQUIRE(take(&pool, &taker) == 0);
		CHECK_EQ(taker.qp->inline_max, 200);
		give_back(&pool, &taker);
	}
	rig_pool_end(&rig, &pool);
	rig_close(&rig);
}

TAP_CASE(stopping_tells_who_waits_and_gives_nothing_any_more)
{
	struct taker waits, late;
	struct qp_pool pool;
	struct rig rig;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	rig_pool(&rig, &pool, 2, 8, NULL);
	CHECK_EQ(take(&pool, &waits), QP_POOL_WAIT);
	qp_pool_stop(&pool);
	CHECK_EQ(waits.calls, 1);
	CHECK_EQ(waits.why, -ENODEV);
	CHECK_EQ(take(&pool, &late), QP_POOL_OVER);
	rig_pool_end(&rig, &pool);
	rig_close(&rig);
}

/* A completion queue takes no more queue pairs than can never overrun it. */
TAP_CASE(completion_queues_are_shared_within_their_size)
{
	struct qp_spec deep = rig_spec;
	struct qp *qps[6];
	struct rig rig;

	REQUIRE(rig_open(&rig, "rxe0", "rxe"));
	deep.send_wr = deep.recv_wr = CQ_ENTRIES / 4; /* two fit */
	for (int i = 0; i < 6; i++) {
		REQUIRE(qp_create(rig.device, &rig.cqs, &deep, &qps[i]) == 0);
		CHECK_EQ(rig.cqs.count, i / 2 + 1);
		CHECK(qps[i]->cq->admitted <= qps[i]->cq->entries);
	}
	qp_destroy(&rig.cqs, qps[2]);
	REQUIRE(qp_create(rig.device, &rig.cqs, &deep, &qps[2]) == 0);
	CHECK_EQ(rig.cqs.count, 3);
	for (int i = 0; i < 6; i++)
		qp_destroy(&rig.cqs, qps[i]);
	CHECK_EQ(rig.cqs.count, 0);
	/* One that fits no completion queue of the device. */
	rig.device->info.max_cqe = 100;
	CHECK_EQ(qp_create(rig.device, &rig.cqs, &rig_spec, &qps[0]), -EINVAL);
	rig_close(&rig);
}

/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fabric/qp_pool.h"

/* On the control thread: the pool's own lists are the loop's, the turn has its own. */
static void turn_run(struct control_job *job)
{
	struct qp_pool_turn *turn = container_of(job, struct qp_pool_turn, job);
	const struct qp_pool_config *config = &turn->pool->config;
	struct list *node;
	struct qp *qp;

	while ((node = list_pop_front(&turn->doomed)) != NULL)
		qp_destroy(config->cqs, list_entry(node, struct qp, link));
	turn->result = 0;
	while (turn->n_made < turn->wanted) {
		if ((turn->n_made > 0 || !turn->is_urgent) && control_is_wanted(config->control))
			break;
		turn->result = qp_create(config->device, config->cqs, &turn->spec, &qp);
		if (turn->result)
			break;
		list_push_back(&turn->made, &qp->link);
		turn->n_made++;
	}
}

static void give_out(struct qp_pool *pool)
{
	pool->n_out++;
	pool->counts.taken++;
}

static void give(struct qp_pool *pool, struct qp_waiter *waiter, struct qp *qp, int why)
{
	list_unlink(&waiter->link);
	if (qp)
		give_out(pool);
	waiter->fn(waiter, qp, why);
}

static struct qp *pop_ready(struct qp_pool *pool)
{
	struct list *node = list_pop_front(&pool->ready);

	if (!node)
		return NULL;
	pool->n_ready--;
	return list_entry(node, struct qp, link);
}

static void serve_waiters(struct qp_pool *pool)
{
	while (!list_is_empty(&pool->waiters) && pool->n_ready > 0)
		give(pool, list_entry(list_first(&pool->waiters), struct qp_waiter, link),
		     pop_ready(pool), 0);
}

/* Whoever waits now is told; one who comes back from inside waits for the next try. */
static void fail_waiters(struct qp_pool *pool, int why)
{
	struct list all = LIST_INIT(all);
	struct list *node;

	while ((node = list_pop_front(&pool->waiters)) != NULL)
		list_push_back(&all, node);
	while ((node = list_first(&all)) != NULL)
		give(pool, list_entry(node, struct qp_waiter, link), NULL, why);
}

static void retire_all_ready(struct qp_pool *pool)
{
	struct qp *qp;

	while ((qp = pop_ready(pool)) != NULL) {
		list_push_back(&pool->retired, &qp->link);
		pool->n_retired++;
	}
}

static bool same_spec(const struct qp_spec *a, const struct qp_spec *b)
{
	return a->send_wr == b->send_wr && a->recv_wr == b->recv_wr && a->send_sge == b->send_sge &&
	       a->recv_sge == b->recv_sge && a->inline_bytes == b->inline_bytes;
}

/* What a turn has made goes to the pool; if the spec has changed meanwhile, to the retired. */
static void collect(struct qp_pool *pool, struct qp_pool_turn *turn)
{
	bool fits = same_spec(&turn->spec, &pool->spec);
	struct list *node;

	while ((node = list_pop_front(&turn->made)) != NULL) {
		list_push_back(fits ? &pool->ready : &pool->retired, node);
		if (fits)
			pool->n_ready++;
		else
			pool->n_retired++;
	}
}

static void note_failure(struct qp_pool *pool, int result)
{
	pool->counts.failed++;
	pool->error = result;
	if (result == QP_REFUSED) {
		pool->is_refused = true;
		return;
	}
	pool->is_failing = true;
	pool->pause_ns = pool->pause_ns ? u64_min(2 * pool->pause_ns, QP_POOL_RETRY_MAX_NS)
					: QP_POOL_RETRY_MIN_NS;
	pool->retry_at_ns = 0; /* set by the next tick, which knows the time */
}

static void note_success(struct qp_pool *pool)
{
	pool->error = 0;
	pool->is_failing = false;
	pool->pause_ns = 0;
}

static void next_turn(struct qp_pool *pool);
static uint32_t wanted_now(const struct qp_pool *pool);

/* What was to be destroyed and was not: the turn never ran. */
static void take_back_doomed(struct qp_pool *pool, struct qp_pool_turn *turn)
{
	struct list *node;

	while ((node = list_pop_front(&turn->doomed)) != NULL) {
		list_push_back(&pool->retired, node);
		pool->n_retired++;
		turn->n_doomed--;
	}
}

/* Account for what a turn has done. */
static void settle(struct qp_pool *pool, struct qp_pool_turn *turn)
{
	struct pool_budget *budget = pool->config.budget;

	pool->is_turning = pool->is_trying = false;
	pool->n_coming = 0;
	budget->coming -= turn->wanted;
	budget->in_use += turn->n_made;
	pool->counts.created += turn->n_made;
	take_back_doomed(pool, turn);
	budget->in_use -= turn->n_doomed;
	pool->counts.destroyed += turn->n_doomed;
	collect(pool, turn);
}

static void turn_done(struct control_job *job)
{
	struct qp_pool_turn *turn = container_of(job, struct qp_pool_turn, job);
	struct qp_pool *pool = turn->pool;
	/* What concerns a spec that is not wanted any more is no news. */
	int result = same_spec(&turn->spec, &pool->spec) ? turn->result : 0;
	bool newly_refused = !pool->is_refused && result == QP_REFUSED;

	settle(pool, turn);
	if (result)
		note_failure(pool, result);
	else if (turn->n_made > 0)
		note_success(pool);
	if (pool->is_stopped)
		return;
	serve_waiters(pool);
	if (result < 0)
		fail_waiters(pool, result);
	else if (!pool->is_refused && pool->n_retired == 0 && wanted_now(pool) == 0)
		fail_waiters(pool, QP_POOL_OVER);
	if (newly_refused && pool->config.on_refused)
		pool->config.on_refused(pool);
	next_turn(pool);
}

/* How many to make now: what the size wants and at least one for each who waits, in the budget. */
static uint32_t wanted_now(const struct qp_pool *pool)
{
	uint32_t wanted, waiters = 0;
	const struct list *node;

	if (pool->is_refused || (pool->is_failing && !pool->is_trying))
		return 0;
	list_for_each (node, &pool->waiters)
		waiters++;
	wanted = pool_size_wanted(&pool->size, pool->n_ready, 0) + waiters;
	wanted = (uint32_t)u64_min(wanted, pool_budget_left(pool->config.budget));
	return wanted < QP_POOL_TURN ? wanted : QP_POOL_TURN;
}

/* Whether links are being made that a turn would hold up. */
static bool is_put_off(const struct qp_pool *pool)
{
	return pool->n_holds > 0 && list_is_empty(&pool->waiters) && !pool->is_overdue;
}

/* Give the control thread what there is to do, if anything. */
static void next_turn(struct qp_pool *pool)
{
	struct qp_pool_turn *turn = &pool->turn;
	uint32_t wanted;
	struct list *node;

	if (pool->is_turning || pool->is_stopped || is_put_off(pool))
		return;
	wanted = wanted_now(pool);
	if (wanted == 0 && pool->n_retired == 0)
		return;
	turn->spec = pool->spec;
	turn->wanted = wanted;
	turn->is_urgent = !list_is_empty(&pool->waiters);
	turn->n_made = turn->n_doomed = 0;
	turn->result = 0;
	while ((node = list_pop_front(&pool->retired)) != NULL) {
		list_push_back(&turn->doomed, node);
		turn->n_doomed++;
	}
	pool->n_retired = 0;
	if (control_submit(pool->config.control, &turn->job)) {
		/* Full, or about to end: the next tick tries again. */
		take_back_doomed(pool, turn);
		return;
	}
	pool->is_turning = true;
	pool->n_coming = wanted;
	pool->config.budget->coming += wanted;
}

void qp_pool_init(struct qp_pool *pool, const struct qp_pool_config *config,
		  const struct qp_spec *spec, uint64_t now_ns)
{
	memset(pool, 0, sizeof(*pool));
	pool->config = *config;
	pool->spec = *spec;
	pool_size_init(&pool->size, config->min, config->max, now_ns);
	list_init(&pool->ready);
	list_init(&pool->retired);
	list_init(&pool->waiters);
	list_init(&pool->turn.made);
	list_init(&pool->turn.doomed);
	pool->turn.pool = pool;
	pool->turn.job = (struct control_job){.run = turn_run, .done = turn_done};
}

int qp_pool_take(struct qp_pool *pool, struct qp_waiter *waiter, struct qp **ret_qp)
{
	struct qp *qp;

	if (pool->is_stopped)
		return QP_POOL_OVER;
	qp = pop_ready(pool);
	pool_size_asked(&pool->size, pool->n_ready, qp != NULL);
	if (qp) {
		give_out(pool);
		next_turn(pool);
		*ret_qp = qp;
		return 0;
	}
	pool->counts.waited++;
	/* Refused: a probe is on its way, and a queue pair behind it. */
	if (pool->is_failing || (pool->n_coming == 0 && pool->n_retired == 0 && !pool->is_refused &&
				 pool_budget_left(pool->config.budget) == 0))
		return QP_POOL_OVER;
	list_init(&waiter->link);
	list_push_back(&pool->waiters, &waiter->link);
	next_turn(pool);
	return QP_POOL_WAIT;
}

void qp_pool_hold(struct qp_pool *pool)
{
	pool->n_holds++;
}

void qp_pool_release(struct qp_pool *pool)
{
	assert(pool->n_holds > 0);
	if (--pool->n_holds == 0) {
		pool->put_off_ns = 0;
		pool->is_overdue = false;
	}
	next_turn(pool);
}

void qp_pool_forget(struct qp_pool *pool, struct qp_waiter *waiter)
{
	(void)pool;
	if (waiter->link.next)
		list_unlink(&waiter->link);
}

void qp_pool_retire(struct qp_pool *pool, struct qp *qp)
{
	assert(pool->n_out > 0);
	pool->n_out--;
	pool->n_retired++;
	list_push_back(&pool->retired, &qp->link);
	next_turn(pool);
}

static void look_at_delay(struct qp_pool *pool, uint64_t now_ns)
{
	if (pool->n_holds > 0 && pool->put_off_ns == 0)
		pool->put_off_ns = now_ns;
	else if (pool->n_holds > 0 && now_ns - pool->put_off_ns >= QP_POOL_PUT_OFF_NS)
		pool->is_overdue = true;
}

void qp_pool_tick(struct qp_pool *pool, uint64_t now_ns)
{
	uint32_t above;
	struct qp *qp;

	if (pool->is_stopped)
		return;
	if (pool_size_tick(&pool->size, pool->n_ready, now_ns)) {
		above = pool->n_ready > pool->size.target ? pool->n_ready - pool->size.target : 0;
		while (above-- > 0 && (qp = pop_ready(pool)) != NULL) {
			list_push_back(&pool->retired, &qp->link);
			pool->n_retired++;
		}
	}
	if (pool->is_failing && pool->retry_at_ns == 0) {
		pool->retry_at_ns = now_ns + pool->pause_ns;
	} else if (pool->is_failing && now_ns >= pool->retry_at_ns) {
		pool->is_trying = true;
		if (wanted_now(pool) == 0)
			note_success(pool); /* nothing is wanted any more */
	}
	look_at_delay(pool, now_ns);
	next_turn(pool);
}

void qp_pool_set_spec(struct qp_pool *pool, const struct qp_spec *spec)
{
	if (!same_spec(&pool->spec, spec))
		retire_all_ready(pool);
	pool->spec = *spec;
	pool->is_refused = false;
	note_success(pool);
	next_turn(pool);
}

void qp_pool_stop(struct qp_pool *pool)
{
	pool->is_stopped = true;
	fail_waiters(pool, -ENODEV);
}

bool qp_pool_is_quiet(const struct qp_pool *pool)
{
	return !pool->is_turning && pool->n_out == 0;
}

void qp_pool_deinit(struct qp_pool *pool)
{
	struct list *node;

	assert(pool->is_stopped && qp_pool_is_quiet(pool));
	retire_all_ready(pool);
	while ((node = list_pop_front(&pool->retired)) != NULL) {
		qp_destroy(pool->config.cqs, list_entry(node, struct qp, link));
		pool->config.budget->in_use--;
		pool->counts.destroyed++;
	}
	pool->n_retired = 0;
}

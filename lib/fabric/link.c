/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fabric/link.h"

static void step_done(struct control_job *job);

static void step_run(struct control_job *job)
{
	link_step_run(container_of(job, struct link, job));
}

/* Begin @step. A full queue stalls it; when the thread has ended there is nobody else to do it. */
static void begin(struct link *link, enum link_step step)
{
	int rc;

	link->step = step;
	link->job = (struct control_job){.run = step_run, .done = step_done};
	rc = control_submit(link->cm->control, &link->job);
	link->is_stalled = rc == CONTROL_FULL;
	if (rc == CONTROL_STOPPED) {
		link->job.cancelled = true;
		step_done(&link->job);
	}
}

/* A link that is closing: go on with that as soon as no step is in flight. */
static void begin_close(struct link *link)
{
	if (link->is_waiting) {
		qp_pool_forget(link->pool, &link->waiter);
		link->is_waiting = false;
	}
	if (link->step == LINK_STEP_NONE || link->is_stalled)
		begin(link, LINK_STEP_CLOSE);
}

static void leave_pending(struct link *link)
{
	if (!link->was_up)
		link->cm->n_pending--;
}

__attribute__((format(printf, 2, 3))) static void fail(struct link *link, const char *format, ...)
{
	va_list args;

	if (link->state >= LINK_CLOSING)
		return;
	va_start(args, format);
	vsnprintf(link->why, sizeof(link->why), format, args);
	va_end(args);
	link->state = LINK_CLOSING;
	if (!link->was_up)
		link->cm->counts.failed++;
	link->ops->down(link, link->why);
	begin_close(link);
}

void link_close(struct link *link, const char *why)
{
	if (link->state >= LINK_CLOSING)
		return;
	if (link->state == LINK_IDLE) {
		/* Nothing was begun, nobody counts it. */
		link->state = LINK_CLOSED;
		link->ops->closed(link);
		return;
	}
	snprintf(link->why, sizeof(link->why), "%s", why);
	link->state = LINK_CLOSING;
	begin_close(link);
}

/* Its steps are done, but for its end. */
static void release_pool(struct link *link)
{
	if (TAKE(link->is_holding, false))
		qp_pool_release(link->pool);
}

static void finish(struct link *link)
{
	release_pool(link);
	if (link->qp)
		qp_pool_retire(link->pool, TAKE(link->qp, NULL));
	link->cm->n_parked += link->is_parked;
	list_unlink(&link->link);
	leave_pending(link);
	link->state = LINK_CLOSED;
	link->ops->closed(link);
}

static void go_up(struct link *link)
{
	link->state = LINK_UP;
	link->was_up = true;
	link->cm->n_pending--;
	link->cm->counts.up++;
	release_pool(link);
	link->ops->up(link);
}

static void with_qp(struct link *link, struct qp *qp)
{
	link->qp = qp;
	link->state = link->is_dialer ? LINK_CONNECT : LINK_ACCEPT;
	begin(link, link->is_dialer ? LINK_STEP_CONNECT : LINK_STEP_ACCEPT);
}

static void without_qp(struct link *link, int why)
{
	link->lacks_qp = true;
	if (!link->is_dialer)
		link->reject = LINK_REJECT_NO_QP;
	fail(link, "no queue pair: %s",
	     why < 0 ? strerror(-why) : "the device's budget is used up, or creating one fails");
}

static void on_qp(struct qp_waiter *waiter, struct qp *qp, int why)
{
	struct link *link = container_of(waiter, struct link, waiter);

	link->is_waiting = false;
	if (qp)
		with_qp(link, qp);
	else
		without_qp(link, why);
}

static void want_qp(struct link *link)
{
	struct qp *qp;
	int rc;

	link->state = LINK_QP;
	link->waiter.fn = on_qp;
	rc = qp_pool_take(link->pool, &link->waiter, &qp);
	if (rc == 0)
		with_qp(link, qp);
	else if (rc == QP_POOL_WAIT)
		link->is_waiting = true;
	else
		without_qp(link, rc);
}

static const char *step_text(enum link_step step)
{
	switch (step) {
	case LINK_STEP_RESOLVE:
		return "resolving the address";
	case LINK_STEP_ROUTE:
		return "finding a route";
	case LINK_STEP_CONNECT:
		return "dialling";
	case LINK_STEP_CONFIRM:
		return "confirming";
	case LINK_STEP_ACCEPT:
		return "accepting";
	case LINK_STEP_CLOSE:
		return "closing";
	case LINK_STEP_NONE:
		break;
	}
	return "?";
}

static void step_done(struct control_job *job)
{
	struct link *link = container_of(job, struct link, job);
	enum link_step step = link->step;

	if (job->cancelled && step == LINK_STEP_CLOSE)
		link_step_run(link); /* the thread has ended */
	else if (job->cancelled)
		link->result = -ECANCELED;
	link->step = LINK_STEP_NONE;
	link->is_stalled = false;
	if (step == LINK_STEP_CLOSE)
		finish(link);
	else if (link->state == LINK_CLOSING)
		begin_close(link);
	else if (link->result < 0)
		fail(link, "%s: %s", step_text(step), strerror(-link->result));
	else if (step == LINK_STEP_CONFIRM)
		go_up(link);
}

void link_init(struct link *link, struct cm *cm, struct qp_pool *pool, const struct link_ops *ops)
{
	memset(link, 0, sizeof(*link));
	list_init(&link->link);
	link->cm = cm;
	link->pool = pool;
	link->ops = ops;
	link->is_iwarp = cm->device->info.transport == FABRIC_IWARP;
	link->own.version = LINK_HELLO_VERSION;
}

void link_set_hello(struct link *link, const uint8_t nonce[LINK_NONCE_BYTES], uint32_t credits,
		    uint32_t generation)
{
	memcpy(link->own.nonce, nonce, LINK_NONCE_BYTES);
	link->own.credits = credits;
	link->own.generation = generation;
}

static void enter(struct link *link, enum link_state state)
{
	list_push_back(&link->cm->links, &link->link);
	link->cm->n_pending++;
	link->is_holding = true;
	qp_pool_hold(link->pool);
	link->state = state;
}

int link_dial(struct link *link, const union gid_address *source, const union gid_address *target)
{
	struct cm *cm = link->cm;

	assert(link->state == LINK_IDLE);
	if (cm->is_stopped)
		return -ESHUTDOWN;
	if (cm->n_pending >= CM_PENDING_MAX)
		return -EBUSY;
	link->is_dialer = true;
	link->own.kind = LINK_REQUEST;
	link->source = *source;
	link->target = *target;
	cm->counts.dials++;
	enter(link, LINK_ADDRESS);
	begin(link, LINK_STEP_RESOLVE);
	return 0;
}

void link_accept(struct link *link, struct rdma_cm_id *id, const struct link_hello *hello)
{
	assert(link->state == LINK_IDLE);
	link->id = id;
	link->own.kind = LINK_REPLY;
	memcpy(link->own.nonce, hello->nonce, LINK_NONCE_BYTES);
	link->peer = *hello;
	link->has_peer = true;
	enter(link, LINK_QP);
	want_qp(link);
}

/* The acceptor's hello: whether it answers our dial. */
static bool read_reply(struct link *link, const struct cm_event *event)
{
	enum link_verdict verdict =
		link_hello_decode(event->private_data, event->private_len, &link->peer);

	if (verdict != LINK_HELLO_OK || link->peer.kind != LINK_REPLY ||
	    memcmp(link->peer.nonce, link->own.nonce, LINK_NONCE_BYTES) != 0) {
		fail(link, "the other end answered something else");
		return false;
	}
	link->has_peer = true;
	return true;
}

static void on_rejected(struct link *link, const struct cm_event *event)
{
	struct link_hello hello;

	link->cm->counts.rejected_there++;
	if (link_hello_decode(event->private_data, event->private_len, &hello) == LINK_HELLO_OK &&
	    hello.kind == LINK_REJECTION) {
		link->lacks_qp = hello.reject == LINK_REJECT_NO_QP;
		fail(link, "rejected: %s", link_reject_text(hello.reject));
		return;
	}
	fail(link, "rejected by the other host (status %d); is its daemon listening?",
	     event->status);
}

/* What ends it, or is no concern of it. */
static void on_other(struct link *link, const struct cm_event *event)
{
	switch (event->type) {
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		/* Comes again and again while the peer's port is down. A link that is up is judged
		 * by messages of its own. */
		if (link->state != LINK_UP)
			fail(link, "the other host does not answer (status %d)", event->status);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		fail(link, "the other end has disconnected");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		fail(link, "the device is removed");
		break;
	default:
		fail(link, "%s (status %d)", rdma_event_str(event->type), event->status);
		break;
	}
}

void link_event(struct link *link, const struct cm_event *event)
{
	if (link->state >= LINK_CLOSING)
		return;
	if (event->type == RDMA_CM_EVENT_ADDR_ERROR && link->state == LINK_ADDRESS &&
	    event->status == -ETIMEDOUT && ++link->resolves < LINK_RESOLVE_TRIES) {
		begin(link, LINK_STEP_RESOLVE);
	} else if (event->type == RDMA_CM_EVENT_ADDR_RESOLVED && link->state == LINK_ADDRESS) {
		link->state = LINK_ROUTE;
		begin(link, LINK_STEP_ROUTE);
	} else if (event->type == RDMA_CM_EVENT_ROUTE_RESOLVED && link->state == LINK_ROUTE) {
		want_qp(link);
	} else if (event->type == RDMA_CM_EVENT_CONNECT_RESPONSE && link->state == LINK_CONNECT) {
		if (!read_reply(link, event))
			return;
		link->state = LINK_CONFIRM;
		begin(link, LINK_STEP_CONFIRM);
	} else if (event->type == RDMA_CM_EVENT_ESTABLISHED && link->state == LINK_CONNECT) {
		if (read_reply(link, event))
			go_up(link); /* iWARP: the kernel has done it all */
	} else if (event->type == RDMA_CM_EVENT_ESTABLISHED && link->state == LINK_ACCEPT) {
		go_up(link);
	} else if (event->type == RDMA_CM_EVENT_REJECTED) {
		on_rejected(link, event);
	} else {
		on_other(link, event);
	}
}

void link_tick(struct link *link, uint64_t now_ns)
{
	if (link->is_stalled)
		begin(link, link->step);
	if (link->state == LINK_UP || link->state >= LINK_CLOSING)
		return;
	if (link->begun_ns == 0)
		link->begun_ns = now_ns;
	if (now_ns - link->begun_ns <= LINK_MAKE_NS)
		return;
	link->lacks_qp = link->state == LINK_QP;
	fail(link, "not made within %llu s: %s", LINK_MAKE_NS / 1000000000ull,
	     link_state_name(link->state));
}

const char *link_state_name(enum link_state state)
{
	static const char *const names[LINK_STATES] = {
		[LINK_IDLE] = "idle",	     [LINK_ADDRESS] = "resolving the address",
		[LINK_ROUTE] = "routing",    [LINK_QP] = "waiting for a queue pair",
		[LINK_CONNECT] = "dialling", [LINK_CONFIRM] = "confirming",
		[LINK_ACCEPT] = "accepting", [LINK_UP] = "up",
		[LINK_CLOSING] = "closing",  [LINK_CLOSED] = "closed",
	};

	return (unsigned int)state < LINK_STATES ? names[state] : "invalid";
}

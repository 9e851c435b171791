/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric/cm_context.h"
#include "fabric/probe.h"
#include "station.h"

#define DEPTH 64

struct station stations[STATIONS];
struct use uses[USES_MAX];
struct counts counts;

void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr,
		"; %u dialled, %u ends up, %u failed, last: %s; %u sent, %u and %u received, "
		"%u stale, %u flawed, last: %s\n",
		counts.dialled, counts.up, counts.failed, counts.why, counts.sent,
		stations[0].received, stations[1].received, counts.stale, counts.flawed,
		ibv_wc_status_str(counts.flaw));
	exit(1);
}

static int prepare(struct link *link, struct qp *qp)
{
	const struct use *use = container_of(link, struct use, link);
	struct station *station = use->station;
	struct ibv_sge sge = {.addr = (uintptr_t)station->memory,
			      .length = MESSAGE_BYTES,
			      .lkey = station->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = use->number, .sg_list = &sge, .num_sge = 1}, *bad;
	int rc = ibv_post_recv(qp->verbs, &wr, &bad);

	return rc > 0 ? -rc : rc;
}

static void on_up(struct link *link)
{
	container_of(link, struct use, link)->is_up = true;
	counts.up++;
}

static void on_down(struct link *link, const char *why)
{
	struct use *use = container_of(link, struct use, link);

	if (!use->is_up)
		counts.failed++;
	snprintf(counts.why, sizeof(counts.why), "%s: %s", use->is_dialer ? "dialer" : "answerer",
		 why);
}

static void on_closed(struct link *link)
{
	container_of(link, struct use, link)->is_taken = false;
}

static const struct link_ops ops = {
	.prepare = prepare, .up = on_up, .down = on_down, .closed = on_closed};

static struct use *new_use(struct station *station)
{
	static const uint8_t nonce[LINK_NONCE_BYTES] = {1};

	for (int i = 0; i < USES_MAX; i++) {
		struct use *use = &uses[i];

		if (use->is_taken)
			continue;
		*use = (struct use){.station = station, .is_taken = true, .number = ++counts.uses};
		link_init(&use->link, &station->cm, &station->pool, &ops);
		link_set_hello(&use->link, nonce, 1, 0);
		return use;
	}
	return NULL;
}

static int admit(void *ctx, const struct link_hello *hello, const struct sockaddr *from,
		 struct link **ret_link)
{
	struct use *use = new_use(ctx);

	(void)hello;
	(void)from;
	if (!use)
		return LINK_REJECT_BUSY;
	*ret_link = &use->link;
	return 0;
}

static bool is_known(const struct station *station, uint64_t number)
{
	for (int i = 0; i < USES_MAX; i++) {
		if (uses[i].is_taken && uses[i].station == station && uses[i].number == number)
			return true;
	}
	return false;
}

/* A completion may outlive its queue pair, see verbs_facts.c. */
static void take_completion(struct station *station, const struct ibv_wc *done)
{
	if (!is_known(station, done->wr_id)) {
		counts.stale++;
	} else if (done->status != IBV_WC_SUCCESS) {
		counts.flawed++;
		counts.flaw = done->status;
	} else if (done->opcode == IBV_WC_RECV) {
		station->received++;
	} else {
		counts.sent++;
	}
}

/* Only queues of links, which live as long as these: the set itself is the control thread's. */
static void take_completions(void)
{
	struct ibv_wc done;

	for (int i = 0; i < USES_MAX; i++) {
		struct use *use = &uses[i];

		if (!use->is_taken || use->link.state != LINK_UP)
			continue;
		while (ibv_poll_cq(use->link.qp->cq->verbs, 1, &done) == 1)
			take_completion(use->station, &done);
	}
}

void turn(void)
{
	struct pollfd wait[2 * ARRAY_SIZE(stations)];

	for (size_t i = 0; i < ARRAY_SIZE(stations); i++) {
		const struct station *station = &stations[i];

		wait[2 * i] = (struct pollfd){.fd = -1, .events = POLLIN};
		wait[2 * i + 1] = wait[2 * i];
		if (!station->is_open)
			continue;
		wait[2 * i].fd = control_fd(&station->control);
		if (!station->cm.poll.in_flight && !station->is_lent)
			wait[2 * i + 1].fd = cm_fd(&station->cm);
	}
	poll(wait, ARRAY_SIZE(wait), 5);
	for (size_t i = 0; i < ARRAY_SIZE(stations); i++) {
		struct station *station = &stations[i];

		if (!station->is_open)
			continue;
		if (wait[2 * i].revents)
			control_reap(&station->control);
		if (station->is_lent)
			continue;
		if (wait[2 * i + 1].revents)
			cm_poll(&station->cm);
		cm_tick(&station->cm, clock_now_ns());
		qp_pool_tick(&station->pool, clock_now_ns());
	}
	take_completions();
}

struct errand {
	struct control_job job;
	struct station *station;
	int (*fn)(struct station *station);
	int result;
	bool is_done;
};

static void errand_run(struct control_job *job)
{
	struct errand *errand = container_of(job, struct errand, job);

	errand->result = errand->fn(errand->station);
}

static void errand_done(struct control_job *job)
{
	container_of(job, struct errand, job)->is_done = true;
}

/* Do @fn on the station's control thread, and wait for it. */
static void on_control(struct station *station, int (*fn)(struct station *station),
		       const char *what)
{
	struct errand errand = {
		.job = {.run = errand_run, .done = errand_done}, .station = station, .fn = fn};

	station->is_lent = true;
	if (control_submit(&station->control, &errand.job) != 0)
		die("%s: no control thread for %s", station->name, what);
	AWAIT(errand.is_done);
	station->is_lent = false;
	if (errand.result < 0)
		die("%s: %s: %s", station->name, what, strerror(-errand.result));
}

static int begin_listening(struct station *station)
{
	int rc = cm_open(&station->cm, station->device, &station->control);

	if (rc == 0)
		rc = cm_listen(&station->cm, &station->address, &station->port);
	if (rc == 0)
		cm_set_admit(&station->cm, admit, station);
	return rc;
}

static int end_all(struct station *station)
{
	cm_close(&station->cm);
	qp_pool_deinit(&station->pool);
	return -ibv_dereg_mr(station->mr);
}

void station_open(struct station *station, const char *name, const char *address,
		  uint32_t pool_size)
{
	static struct probe_report report;
	struct probe_order order = {.shape = {DEPTH, DEPTH, 1, 1},
				    .ask = {.ask = 256, .floor = 32, .cap = INLINE_BYTES_MAX},
				    .use = true};
	struct qp_pool_config config = {.control = &station->control,
					.cqs = &station->cqs,
					.budget = &station->budget,
					.min = pool_size,
					.max = pool_size};
	struct qp_spec spec = {DEPTH, DEPTH, 1, 1, 0};

	station->name = name;
	station->address.in.sin_family = AF_INET;
	if (inet_pton(AF_INET, address, &station->address.in.sin_addr) != 1 ||
	    device_open_name(name, &station->device) < 0)
		die("%s on %s can't be opened", name, address);
	probe_run(station->device, &order, &report);
	if (report.used < MESSAGE_BYTES)
		die("%s: %u bytes inline: %s", name, report.used, report.detail);
	spec.inline_bytes = report.used;
	config.device = station->device;
	station->budget =
		(struct pool_budget){.config_max = 1000, .memory_max = 1u << 30, .qp_bytes = 65536};
	station->mr = ibv_reg_mr(station->device->pd, station->memory, MESSAGE_BYTES,
				 IBV_ACCESS_LOCAL_WRITE);
	if (!station->mr || control_init(&station->control, name) < 0 ||
	    cq_set_init(&station->cqs, station->device) < 0)
		die("%s: memory, thread or completion channel", name);
	qp_pool_init(&station->pool, &config, &spec, clock_now_ns());
	station->is_open = true;
	on_control(station, begin_listening, "listening");
	AWAIT(station->pool.n_ready == pool_size);
}

bool has_uses(const struct station *station)
{
	for (int i = 0; i < USES_MAX; i++) {
		if (uses[i].is_taken && uses[i].station == station)
			return true;
	}
	return false;
}

void station_close(struct station *station)
{
	cm_stop(&station->cm);
	AWAIT(cm_is_quiet(&station->cm) && !has_uses(station));
	qp_pool_stop(&station->pool);
	AWAIT(qp_pool_is_quiet(&station->pool));
	on_control(station, end_all, "the end");
	station->is_open = false;
	control_deinit(&station->control);
	cq_set_deinit(&station->cqs);
	station->device = device_close(station->device);
	cm_context_drop_gone();
}

void dial(struct station *from, const struct station *to)
{
	union gid_address target = to->address;
	struct use *use = new_use(from);

	if (!use)
		return;
	target.in.sin_port = htons(to->port);
	use->is_dialer = true;
	counts.dialled++;
	if (link_dial(&use->link, &from->address, &target) < 0)
		use->is_taken = false;
}

static void send_over(struct use *use)
{
	struct ibv_sge sge = {.addr = (uintptr_t)use->station->memory, .length = MESSAGE_BYTES};
	struct ibv_send_wr wr = {.wr_id = use->number,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
			   *bad;
	int rc = ibv_post_send(use->link.qp->verbs, &wr, &bad);

	if (rc)
		die("%s: a message is not taken: %d", use->station->name, rc);
	use->has_sent = true;
}

void send_over_new(void)
{
	for (int i = 0; i < USES_MAX; i++) {
		if (uses[i].is_taken && uses[i].is_dialer && !uses[i].has_sent &&
		    uses[i].link.state == LINK_UP)
			send_over(&uses[i]);
	}
}

void close_all(void)
{
	for (int i = 0; i < USES_MAX; i++) {
		if (uses[i].is_taken && uses[i].is_dialer)
			link_close(&uses[i].link, "enough");
	}
	AWAIT(!has_uses(&stations[0]) && !has_uses(&stations[1]));
}

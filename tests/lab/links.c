/* SPDX-License-Identifier: MIT */
/*
 * Links between two devices of one process, on real drivers: pools, the connection manager and
 *links as the daemon has them, while one of the devices is taken away.
 *
 *	links DEVICE ADDRESS OTHER_DEVICE OTHER_ADDRESS COUNT
 *
 * Makes COUNT links from the first to the other at once, sends a message over each, and closes
 *them. Then makes and closes links without a pause, prints "busy", and waits for the first device
 *to be removed; gives it back, and shows that the other still makes links: with itself. Prints a
 *line for each of these. Exit status 0 if all went well.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "fabric/cm.h"
#include "fabric/cm_context.h"
#include "fabric/link.h"
#include "fabric/probe.h"
#include "fabric/qp_pool.h"
#include "os/clock.h"

#define DEPTH 64
#define MESSAGE_BYTES 32u
#define USES_MAX 128
#define BUSY_LINKS 8
#define WAIT_NS 30000000000ull
#define LOOK_NS 50000000ull

/* A device with everything that the daemon has for it. */
struct station {
	const char *name;
	union gid_address address; /* port 0 */
	uint16_t port;
	bool is_open;
	bool is_ending; /* its control thread has all of it */
	struct device *device;
	struct control control;
	struct cq_set cqs;
	struct pool_budget budget;
	struct qp_pool pool;
	struct cm cm;
	struct ibv_mr *mr;
	uint8_t memory[MESSAGE_BYTES];
	uint32_t received;
};

/* One end of a link. */
struct use {
	struct link link;
	struct station *station;
	bool is_taken, is_up, is_dialer, has_sent;
};

static struct station stations[2];
static struct use uses[USES_MAX];
static struct {
	uint32_t up, failed, dialled;
	char why[LINK_WHY_BYTES]; /* of the last that failed */
} counts;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "; %u dialled, %u ends up, %u failed, last: %s\n", counts.dialled,
		counts.up, counts.failed, counts.why);
	exit(1);
}

static int prepare(struct link *link, struct qp *qp)
{
	struct station *station = container_of(link, struct use, link)->station;
	struct ibv_sge sge = {.addr = (uintptr_t)station->memory,
			      .length = MESSAGE_BYTES,
			      .lkey = station->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
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
		*use = (struct use){.station = station, .is_taken = true};
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

static void take_messages(struct station *station)
{
	struct ibv_wc done;
	struct list *node;

	list_for_each (node, &station->cqs.cqs) {
		while (ibv_poll_cq(list_entry(node, struct cq, link)->verbs, 1, &done) == 1)
			station->received +=
				done.status == IBV_WC_SUCCESS && done.opcode == IBV_WC_RECV;
	}
}

/* One turn of the loop. */
static void turn(void)
{
	struct pollfd wait[2 * ARRAY_SIZE(stations)];

	for (size_t i = 0; i < ARRAY_SIZE(stations); i++) {
		const struct station *station = &stations[i];

		wait[2 * i] = (struct pollfd){.fd = -1, .events = POLLIN};
		wait[2 * i + 1] = wait[2 * i];
		if (!station->is_open)
			continue;
		wait[2 * i].fd = control_fd(&station->control);
		if (!station->cm.poll.in_flight && !station->is_ending)
			wait[2 * i + 1].fd = cm_fd(&station->cm);
	}
	poll(wait, ARRAY_SIZE(wait), 5);
	for (size_t i = 0; i < ARRAY_SIZE(stations); i++) {
		struct station *station = &stations[i];

		if (!station->is_open)
			continue;
		if (wait[2 * i].revents)
			control_reap(&station->control);
		if (station->is_ending)
			continue;
		if (wait[2 * i + 1].revents)
			cm_poll(&station->cm);
		cm_tick(&station->cm, clock_now_ns());
		qp_pool_tick(&station->pool, clock_now_ns());
		take_messages(station);
	}
}

#define AWAIT(condition)                                                                           \
	do {                                                                                       \
		uint64_t awaited_ns = clock_now_ns();                                              \
		while (!(condition)) {                                                             \
			turn();                                                                    \
			if (clock_now_ns() - awaited_ns > WAIT_NS)                                 \
				die("line %d: in vain: %s", __LINE__, #condition);                 \
		}                                                                                  \
	} while (0)

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

	if (control_submit(&station->control, &errand.job) != 0)
		die("%s: no control thread for %s", station->name, what);
	AWAIT(errand.is_done);
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

static void station_open(struct station *station, const char *name, const char *address,
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

static bool has_uses(const struct station *station)
{
	for (int i = 0; i < USES_MAX; i++) {
		if (uses[i].is_taken && uses[i].station == station)
			return true;
	}
	return false;
}

/* Let the kernel have the device back. */
static void station_close(struct station *station)
{
	cm_stop(&station->cm);
	AWAIT(cm_is_quiet(&station->cm) && !has_uses(station));
	qp_pool_stop(&station->pool);
	AWAIT(qp_pool_is_quiet(&station->pool));
	station->is_ending = true;
	on_control(station, end_all, "the end");
	station->is_open = false;
	control_deinit(&station->control);
	cq_set_deinit(&station->cqs);
	station->device = device_close(station->device);
	cm_context_drop_gone();
}

static void dial(struct station *from, const struct station *to)
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
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
			   *bad;
	int rc = ibv_post_send(use->link.qp->verbs, &wr, &bad);

	if (rc)
		die("%s: a message is not taken: %d", use->station->name, rc);
	use->has_sent = true;
}

/* A message over each link of the dialer that is up and has had none. */
static void send_over_new(void)
{
	for (int i = 0; i < USES_MAX; i++) {
		if (uses[i].is_taken && uses[i].is_dialer && !uses[i].has_sent &&
		    uses[i].link.state == LINK_UP)
			send_over(&uses[i]);
	}
}

static void close_all(void)
{
	for (int i = 0; i < USES_MAX; i++) {
		if (uses[i].is_taken && uses[i].is_dialer)
			link_close(&uses[i].link, "enough");
	}
	AWAIT(!has_uses(&stations[0]) && !has_uses(&stations[1]));
}

/* @n links from @from to @to, all at once, and a message over each. */
static void many(struct station *from, struct station *to, uint32_t n)
{
	uint64_t begun_ns = clock_now_ns();
	uint32_t received = to->received, up = counts.up, failed = counts.failed;

	for (uint32_t i = 0; i < n; i++)
		dial(from, to);
	AWAIT(counts.up - up == 2 * n || counts.failed != failed);
	if (counts.failed != failed)
		die("%s to %s: a link failed", from->name, to->name);
	send_over_new();
	AWAIT(to->received - received == n);
	printf("%s to %s: %u links in %u ms\n", from->name, to->name, n,
	       (unsigned int)((clock_now_ns() - begun_ns) / 1000000));
	fflush(stdout);
	close_all();
}

static uint32_t count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	uint32_t n = 0;

	if (!folder)
		die("/proc/self/fd");
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

static bool is_listed(const char *name)
{
	struct device_list list;
	bool found = false;

	if (device_list_get(&list) < 0)
		return false;
	for (size_t i = 0; i < list.n; i++)
		found |= strcmp(device_list_name(&list, i), name) == 0;
	device_list_free(&list);
	return found;
}

/* Make and close links until the device of @from is gone. */
static void busy(struct station *from, struct station *to)
{
	uint64_t looked_ns = 0;

	puts("busy");
	fflush(stdout);
	for (;;) {
		uint32_t n = 0;

		if (clock_now_ns() - looked_ns > LOOK_NS) {
			looked_ns = clock_now_ns();
			if (!is_listed(from->name))
				return;
		}
		for (int i = 0; i < USES_MAX; i++) {
			struct use *use = &uses[i];

			if (!use->is_taken || !use->is_dialer)
				continue;
			n++;
			if (use->has_sent)
				link_close(&use->link, "enough");
		}
		send_over_new();
		for (; n < BUSY_LINKS; n++)
			dial(from, to);
		turn();
	}
}

int main(int argc, char **argv)
{
	uint32_t count = argc == 6 ? (uint32_t)atoi(argv[5]) : 0, descriptors;

	if (count < 1 || count > USES_MAX / 2) {
		fputs("usage: links DEVICE ADDRESS OTHER_DEVICE OTHER_ADDRESS COUNT\n", stderr);
		return 2;
	}
	station_open(&stations[1], argv[3], argv[4], count);
	descriptors = count_descriptors();
	station_open(&stations[0], argv[1], argv[2], count);
	many(&stations[0], &stations[1], count);
	busy(&stations[0], &stations[1]);
	station_close(&stations[0]);
	AWAIT(!has_uses(&stations[1]) && stations[1].pool.n_ready == count);
	if (count_descriptors() != descriptors)
		die("%u descriptors instead of %u", count_descriptors(), descriptors);
	printf("%s: given back; %u links were dialled\n", stations[0].name, counts.dialled);
	fflush(stdout);
	many(&stations[1], &stations[1], 2);
	station_close(&stations[1]);
	return 0;
}

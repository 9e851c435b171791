/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/prng.h"
#include "base/util.h"
#include "fabric/probe.h"
#include "probe_rows.h"

#include "lib/child.h"
#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "lib/verbs/personality.h"

/*
 * The probe of the library, on every provider that there is a personality for. Each host is seen by
 * a process of its own, since librdmacm keeps what it has opened.
 */

struct fixture {
	struct verbs_host *host;
	struct device *device;
	struct device_conf conf;
	struct probe_settings settings;
	struct probe_order order;
	struct probe_report report;
};

/* A host with the device "d". Its address is that of the loopback device, since iWARP devices are
 * reached by the addresses of their network device. */
static void setup(struct fixture *fixture, const char *personality)
{
	memset(fixture, 0, sizeof(*fixture));
	fixture->host = verbs_host_new();
	verbs_host_add(fixture->host, "d", personality, "127.0.0.1");
	verbs_host_netdev(fixture->host, "d", "lo", 1);
	verbs_host_enter(fixture->host);
	device_conf_init(&fixture->conf);
	fixture->settings = (struct probe_settings){
		.depth = 256, .sges = 1, .ask = 256, .floor = 32, .devices = &fixture->conf};
}

static void probe(struct fixture *fixture)
{
	REQUIRE_OK(device_open_name("d", &fixture->device));
	probe_order_init(&fixture->order, &fixture->device->info, &fixture->settings);
	probe_run(fixture->device, &fixture->order, &fixture->report);
}

/* Nobody holds the device any more, but for librdmacm where that was needed. */
static void teardown(struct fixture *fixture)
{
	bool is_iwarp = fixture->device && fixture->device->info.transport == FABRIC_IWARP;

	fixture->device = device_close(fixture->device);
	if (!is_iwarp)
		CHECK(verbs_host_wait_free(fixture->host, "d", 2000));
	verbs_host_free(fixture->host);
}

static void tell_steps(const struct probe_report *report, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < report->n_steps && used < size; i++) {
		const struct probe_step *step = &report->steps[i];
		int len = step->ok ? snprintf(text + used, size - used, " %s %u>%u",
					      inline_state_name(step->state), step->asked,
					      step->granted)
				   : snprintf(text + used, size - used, " %s %u!%d",
					      inline_state_name(step->state), step->asked,
					      step->error);

		used += len > 0 ? (size_t)len : 0;
	}
}

static void check_row(void *arg)
{
	const struct probe_row *row = arg;
	struct fixture fixture;
	const struct probe_report *report = &fixture.report;
	char steps[512];

	setup(&fixture, row->personality);
	fixture.settings.depth = row->depth;
	fixture.settings.ask = row->ask;
	if (!row->shipped)
		fixture.conf.n = 0;
	probe(&fixture);
	tell_steps(report, steps, sizeof(steps));
	tap_diag("%s, depth %u, ask %u%s:%s | %u creations | got %u %s, expected %u %s",
		 row->personality, row->depth, row->ask, row->shipped ? "" : ", no policy", steps,
		 report->creations, report->used, inline_reason_name(report->reason), row->used,
		 inline_reason_name(row->reason));
	CHECK_EQ(report->used, row->used);
	CHECK_STR(inline_reason_name(report->reason), inline_reason_name(row->reason));
	if (row->creations)
		CHECK_EQ(report->creations, row->creations);
	CHECK(report->creations <= (row->ask > 256 ? 12 : 10));
	if (row->used > 0)
		CHECK_EQ(report->verified, row->used);
	else
		CHECK_EQ(report->verified, 0);
	if (report->reason == INLINE_UNVERIFIED)
		tap_diag("%s", report->detail);
	teardown(&fixture);
}

TAP_CASE(every_provider_gives_what_it_has)
{
	for (size_t i = 0; i < ARRAY_SIZE(probe_rows); i++)
		child_run(CHILD_UID_SAME, check_row, (void *)(uintptr_t)&probe_rows[i]);
}

static bool has_row(const char *personality, uint32_t ask)
{
	for (size_t i = 0; i < ARRAY_SIZE(probe_rows); i++) {
		if (probe_rows[i].ask == ask && probe_rows[i].depth == 256 &&
		    strcmp(probe_rows[i].personality, personality) == 0)
			return true;
	}
	return false;
}

TAP_CASE(every_personality_is_expected_to_be_something)
{
	const struct personality *personality;

	for (unsigned int i = 0; (personality = personality_at(i)); i++) {
		CHECK(has_row(personality->name, 256));
		CHECK(has_row(personality->name, 1024));
	}
}

/* Whatever runs out, it is told as itself and soon; or there was enough. */
TAP_CASE(too_little_locked_memory_is_told_as_itself)
{
	unsigned int no_qp = 0, stopped = 0, good = 0;

	for (unsigned int kib = 1; kib <= 2048; kib += kib / 4 + 1) {
		struct fixture fixture;
		const struct probe_report *report = &fixture.report;
		char bytes[16], cause[PROBE_CAUSE_BYTES];

		setup(&fixture, "mlx5");
		snprintf(bytes, sizeof(bytes), "%u", kib * 1024);
		verbs_host_set(fixture.host, "d", "memlock", bytes);
		probe(&fixture);
		no_qp += report->reason == INLINE_NO_QP;
		stopped += report->reason == INLINE_STOPPED;
		good += report->reason == INLINE_USABLE_CAPPED;
		CHECK(report->creations <= 2);
		if (report->reason == INLINE_USABLE_CAPPED) {
			CHECK_EQ(report->used, 236);
		} else {
			CHECK_EQ(report->error, ENOMEM);
			CHECK_EQ(report->used, 0);
			CHECK(!probe_is_lasting(report));
			CHECK(probe_cause(&fixture.device->info, report, cause)[0]);
		}
		teardown(&fixture);
	}
	tap_diag("no queue pair %u, stopped %u, good %u times", no_qp, stopped, good);
	CHECK(no_qp > 0);
	CHECK(stopped > 0);
	CHECK(good > 0);
}

static void check_fault(const char *faults, enum inline_reason reason, int error,
			uint32_t creations)
{
	struct fixture fixture;

	setup(&fixture, "rxe");
	verbs_host_faults(fixture.host, faults);
	probe(&fixture);
	CHECK_STR(inline_reason_name(fixture.report.reason), inline_reason_name(reason));
	CHECK_EQ(fixture.report.error, error);
	CHECK_EQ(fixture.report.creations, creations);
	CHECK_EQ(fixture.report.used, 0);
	CHECK(!probe_is_lasting(&fixture.report));
	teardown(&fixture);
}

TAP_CASE(errors_are_told_as_themselves)
{
	check_fault("create_qp errno=ENOMEM", INLINE_NO_QP, ENOMEM, 1);
	check_fault("create_qp errno=EPERM", INLINE_NO_QP, EPERM, 1);
	check_fault("create_qp errno=EINVAL", INLINE_NO_QP, EINVAL, 1);
	check_fault("create_qp errno=0", INLINE_NO_QP, 0, 1);
	check_fault("create_qp skip=1 errno=ENOMEM", INLINE_STOPPED, ENOMEM, 2);
	check_fault("create_qp skip=1 errno=EPERM", INLINE_STOPPED, EPERM, 2);
	check_fault("create_qp skip=1 errno=EAGAIN", INLINE_STOPPED, EAGAIN, 2);
	check_fault("create_cq errno=ENOMEM", INLINE_NO_QP, ENOMEM, 0);
	check_fault("reg_mr errno=ENOMEM", INLINE_STOPPED, ENOMEM, 2);
}

struct cause_case {
	rlim_t limit;
	const char *fault, *cause;
};

static void check_cause(void *arg)
{
	const struct cause_case *cause_case = arg;
	struct rlimit limit = {cause_case->limit, cause_case->limit};
	struct fixture fixture;
	char cause[PROBE_CAUSE_BYTES];

	REQUIRE_OK(setrlimit(RLIMIT_MEMLOCK, &limit));
	setup(&fixture, "rxe");
	verbs_host_faults(fixture.host, cause_case->fault);
	probe(&fixture);
	probe_cause(&fixture.device->info, &fixture.report, cause);
	CHECK(strstr(cause, cause_case->cause));
	tap_diag("%s", cause);
	teardown(&fixture);
}

TAP_CASE(the_likely_cause_is_named)
{
	static struct cause_case cases[] = {
		{65536, "create_qp errno=ENOMEM", "locked memory, which is 64 KiB here"},
		{65536, "reg_mr errno=ENOMEM", "locked memory, which is 64 KiB here"},
		{65536, "create_qp errno=EPERM", "/dev/infiniband/uverbs*"},
		/* The kernel, where nothing may be locked. */
		{0, "reg_mr errno=EPERM", "locked memory, which is 0 KiB here"},
		{0, "create_qp errno=EACCES", "/dev/infiniband/uverbs*"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		child_run(CHILD_UID_SAME, check_cause, &cases[i]);
}

TAP_CASE(a_queue_that_is_too_deep_is_told_with_the_remedy)
{
	struct fixture fixture;
	char cause[PROBE_CAUSE_BYTES];

	setup(&fixture, "rxe");
	verbs_host_set(fixture.host, "d", "max_qp_wr", "100");
	probe(&fixture);
	CHECK_EQ(fixture.report.reason, INLINE_NO_QP);
	CHECK_EQ(fixture.report.error, EINVAL);
	CHECK_EQ(fixture.report.creations, 1);
	CHECK_STR(probe_cause(&fixture.device->info, &fixture.report, cause),
		  "The device has queues of at most 100 entries: set rdma_depth to no more.");
	teardown(&fixture);
}

TAP_CASE(a_device_that_may_not_be_opened)
{
	struct fixture fixture;

	setup(&fixture, "rxe");
	verbs_host_set(fixture.host, "d", "open", "EACCES");
	CHECK_EQ(device_open_name("d", &fixture.device), -EACCES);
	CHECK_EQ(device_open_name("other", &fixture.device), -ENODEV);
	CHECK(!fixture.device);
	teardown(&fixture);
}

/* Whether the port of @device becomes active within two seconds. */
static bool becomes_active(const struct device *device)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct port port;

	for (int tries = 0; tries < 2000; tries++) {
		if (device_port(device, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

struct path_case {
	const char *personality;
	uint32_t used;
};

static void check_path(void *arg)
{
	const struct path_case *path_case = arg;
	struct fixture fixture;
	struct probe_report *report = &fixture.report;

	setup(&fixture, path_case->personality);
	verbs_host_port(fixture.host, "d", "down");
	probe(&fixture);
	CHECK_EQ(report->reason, INLINE_UNVERIFIED);
	CHECK_EQ(report->used, 0);
	CHECK(!probe_is_lasting(report));
	CHECK(probe_is_usable(report));
	CHECK_STR(report->detail, "port 1 is down");
	verbs_host_port(fixture.host, "d", "active");
	CHECK(becomes_active(fixture.device));
	probe_run(fixture.device, &fixture.order, report);
	CHECK_EQ(report->used, path_case->used);
	CHECK_EQ(report->port, 1);
	teardown(&fixture);
}

/* The path is at fault: to be tried again, and then it is good. */
TAP_CASE(without_a_path_nothing_is_concluded)
{
	static struct path_case cases[] = {{"rxe", 256}, {"mlx5-ib", 236}, {"siw", 80}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		child_run(CHILD_UID_SAME, check_path, &cases[i]);
}

/* A message by reference that gets lost says nothing about inline. */
TAP_CASE(a_path_that_loses_messages_is_at_fault)
{
	struct fixture fixture;

	setup(&fixture, "rxe");
	verbs_host_faults(fixture.host, "send action=drop count=inf");
	probe(&fixture);
	tap_diag("%s", fixture.report.detail);
	CHECK_EQ(fixture.report.reason, INLINE_UNVERIFIED);
	CHECK_EQ(fixture.report.used, 0);
	verbs_host_faults(fixture.host, "");
	probe_run(fixture.device, &fixture.order, &fixture.report);
	CHECK_EQ(fixture.report.used, 256);
	teardown(&fixture);
}

/*
 * A seed's worth of trouble, two faults at a time and anywhere. The probe says something that can
 * be, leaves nothing behind, and finds the truth when the trouble is over.
 */
static void check_trouble(void *arg)
{
	static const char *const faults[] = {
		"create_qp skip=%u errno=EIO",	  "create_qp skip=%u errno=0",
		"create_qp skip=%u errno=EINVAL", "create_qp skip=%u grant=40",
		"create_qp skip=%u grant=5000",	  "create_cq skip=%u errno=ENOMEM",
		"reg_mr skip=%u errno=EIO",	  "modify_qp skip=%u errno=EINVAL",
		"modify_qp skip=%u errno=EIO",	  "post_send skip=%u value=-12",
		"post_recv skip=%u value=22",	  "send skip=%u action=flush",
		"send skip=%u action=drop",	  "send skip=%u action=error status=10",
		"ack skip=%u action=drop",	  "cq skip=%u",
	};
	static const char *const personalities[] = {"rxe", "qedr-old", "mlx5-ib", "siw"};
	static const uint32_t used[] = {256, 128, 236, 80};
	const uint64_t *seed = arg;
	struct fixture fixture;
	struct prng prng;
	char line[2][64], lines[160];
	size_t which;

	prng_init(&prng, *seed);
	which = prng_below(&prng, ARRAY_SIZE(personalities));
	setup(&fixture, personalities[which]);
	for (int i = 0; i < 2; i++)
		snprintf(line[i], sizeof(line[i]), faults[prng_below(&prng, ARRAY_SIZE(faults))],
			 (unsigned int)prng_below(&prng, 5));
	snprintf(lines, sizeof(lines), "%s\n%s\n", line[0], line[1]);
	verbs_host_faults(fixture.host, lines);
	probe(&fixture);
	tap_diag("seed %u, %s, %s, %s: %u %s; %s", (unsigned int)*seed, personalities[which],
		 line[0], line[1], fixture.report.used, inline_reason_name(fixture.report.reason),
		 fixture.report.detail);
	CHECK(fixture.report.used <= used[which]);
	CHECK_EQ(inline_reason_is_good(fixture.report.reason), fixture.report.used > 0);
	CHECK(fixture.report.creations <= 12);
	verbs_host_faults(fixture.host, "");
	probe_run(fixture.device, &fixture.order, &fixture.report);
	CHECK_EQ(fixture.report.used, used[which]);
	teardown(&fixture);
}

TAP_CASE(whatever_goes_wrong_ends_in_order)
{
	for (uint64_t seed = 1; seed <= 60; seed++)
		child_run(CHILD_UID_SAME, check_trouble, &seed);
}

/* Each sign of a post's error is an error. */
TAP_CASE(a_post_that_is_refused_is_noticed)
{
	static const char *const faults[] = {"post_send skip=1 value=22",
					     "post_send skip=1 value=-22",
					     "post_send skip=1 value=12"};
	struct fixture fixture;

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		setup(&fixture, "rxe");
		verbs_host_faults(fixture.host, faults[i]);
		probe(&fixture);
		CHECK_EQ(fixture.report.reason, INLINE_POST_REFUSED);
		CHECK_EQ(fixture.report.used, 0);
		teardown(&fixture);
	}
	setup(&fixture, "rxe");
	verbs_host_faults(fixture.host, "post_send value=-12");
	probe(&fixture);
	CHECK_EQ(fixture.report.reason, INLINE_UNVERIFIED);
	teardown(&fixture);
}

TAP_CASE(settings_decide)
{
	struct fixture fixture;

	setup(&fixture, "rxe");
	fixture.conf.n = 1;
	fixture.conf.rules[0] = (struct device_rule){
		.has = DEVICE_KEY_NAME | DEVICE_KEY_CAP, .name = "d", .inline_cap = 100};
	probe(&fixture);
	CHECK_EQ(fixture.report.used, 100);
	CHECK_EQ(fixture.report.reason, INLINE_USABLE_CAPPED);
	fixture.conf.rules[0].inline_cap = 31;
	probe_order_init(&fixture.order, &fixture.device->info, &fixture.settings);
	probe_run(fixture.device, &fixture.order, &fixture.report);
	CHECK_EQ(fixture.report.reason, INLINE_POLICY_BELOW_FLOOR);
	CHECK_EQ(fixture.report.creations, 1);
	fixture.conf.rules[0].inline_cap = 0;
	probe_order_init(&fixture.order, &fixture.device->info, &fixture.settings);
	probe_run(fixture.device, &fixture.order, &fixture.report);
	CHECK_EQ(fixture.report.reason, INLINE_OFF);
	fixture.conf.rules[0] = (struct device_rule){
		.has = DEVICE_KEY_NAME | DEVICE_KEY_USE, .name = "?", .use = false};
	probe_order_init(&fixture.order, &fixture.device->info, &fixture.settings);
	probe_run(fixture.device, &fixture.order, &fixture.report);
	CHECK_EQ(fixture.report.reason, INLINE_NOT_USED);
	CHECK_EQ(fixture.report.creations, 0);
	CHECK(!probe_is_usable(&fixture.report));
	teardown(&fixture);
}

/* A device narrowed to any size comes out as that, exactly. */
TAP_CASE(narrowed_devices_are_found_exactly)
{
	static const uint32_t limits[] = {216, 101, 96, 48, 33, 32, 31, 16, 0};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct fixture fixture;
		char bytes[16];

		setup(&fixture, "qedr");
		snprintf(bytes, sizeof(bytes), "%u", limits[i]);
		verbs_host_set(fixture.host, "d", "inline", bytes);
		probe(&fixture);
		CHECK_EQ(fixture.report.used, limits[i] >= 32 ? limits[i] : 0);
		CHECK_EQ(fixture.report.reason,
			 limits[i] >= 32 ? INLINE_USABLE : INLINE_BELOW_FLOOR);
		CHECK(fixture.report.creations <= 10);
		teardown(&fixture);
	}
}

TAP_CASE(the_frontier_of_a_device)
{
	/* mlx5: 32768 blocks of 64 bytes; requests of 256, 320, 384 and 448 bytes. */
	static const struct frontier_point points[] = {
		{0, 8192, 0}, {64, 4096, 0}, {128, 4096, 0}, {236, 4096, 0}};
	struct frontier frontier;
	struct fixture fixture;

	setup(&fixture, "mlx5");
	probe(&fixture);
	frontier_find(fixture.device, &fixture.order.shape, fixture.report.used, &frontier);
	tap_diag("%u creations", frontier.creations);
	CHECK(frontier.creations <= FRONTIER_BUDGET);
	CHECK_EQ(frontier.n, ARRAY_SIZE(points));
	for (size_t i = 0; i < frontier.n; i++) {
		CHECK_EQ(frontier.points[i].inline_bytes, points[i].inline_bytes);
		CHECK_EQ(frontier.points[i].send_wr, points[i].send_wr);
		CHECK_EQ(frontier.points[i].error, 0);
	}
	frontier_find(fixture.device, &fixture.order.shape, 0, &frontier);
	CHECK_EQ(frontier.n, 1);
	frontier_find(fixture.device, &fixture.order.shape, 64, &frontier);
	CHECK_EQ(frontier.n, 2);
	CHECK_EQ(frontier.points[1].inline_bytes, 64);
	teardown(&fixture);
}

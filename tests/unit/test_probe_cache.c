/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "fabric/probe_cache.h"

#include "lib/tap.h"

struct fixture {
	char dir[64], file[96];
	struct probe_cache cache;
	struct device_info info;
	struct probe_order order;
	struct probe_report report;
};

/* An empty folder, a device, and what its probe came to. */
static void setup(struct fixture *fixture)
{
	memset(fixture, 0, sizeof(*fixture));
	strcpy(fixture->dir, "/tmp/shunt-cache-XXXXXX");
	REQUIRE(mkdtemp(fixture->dir));
	snprintf(fixture->file, sizeof(fixture->file), "%s/probe.json", fixture->dir);
	REQUIRE(setenv("SHUNT_CACHE_DIR", fixture->dir, 1) == 0);
	probe_cache_init(&fixture->cache);
	CHECK_STR(fixture->cache.dir, fixture->dir);
	fixture->info = (struct device_info){
		.name = "mlx5_0",
		.driver = "mlx5",
		.provider = "libmlx5.so.1 412345 1790000000",
		.firmware = "22.41.1000",
		.guid = 0x0011223344556677,
	};
	fixture->order = (struct probe_order){
		.shape = {.send_wr = 256, .recv_wr = 256, .send_sge = 1, .recv_sge = 1},
		.ask = {.ask = 256, .floor = 32, .cap = 236, .n_hints = 1, .hints = {96}},
		.use = true,
	};
	fixture->report = (struct probe_report){
		.used = 236,
		.reason = INLINE_USABLE_CAPPED,
		.granted = 252,
		.verified = 236,
		.send_wr_granted = 292,
		.port = 1,
		.exact = true,
		.creations = 2,
		.us = 1234,
		.frontier = {.n = 2, .points = {{0, 8192, 0}, {236, 4096, 0}}},
	};
}

static void teardown(struct fixture *fixture)
{
	unlink(fixture->file);
	CHECK_EQ(rmdir(fixture->dir), 0);
}

static int find(struct fixture *fixture, struct probe_report *ret_report)
{
	return probe_cache_find(&fixture->cache, &fixture->info, &fixture->order, ret_report);
}

static int store(struct fixture *fixture)
{
	return probe_cache_store(&fixture->cache, &fixture->info, &fixture->order,
				 &fixture->report);
}

TAP_CASE(what_is_stored_is_found_again)
{
	struct fixture fixture;
	struct probe_report report;

	setup(&fixture);
	CHECK_EQ(find(&fixture, &report), 0);
	CHECK_EQ(store(&fixture), 0);
	REQUIRE(find(&fixture, &report) == PROBE_CACHE_HIT);
	CHECK_EQ(report.used, 236);
	CHECK_EQ(report.reason, INLINE_USABLE_CAPPED);
	CHECK_EQ(report.granted, 252);
	CHECK_EQ(report.verified, 236);
	CHECK_EQ(report.send_wr_granted, 292);
	CHECK_EQ(report.port, 1);
	CHECK_EQ(report.creations, 2);
	CHECK_EQ(report.us, 1234);
	CHECK(report.exact);
	CHECK(report.is_cached);
	CHECK_EQ(report.shape.send_wr, 256);
	CHECK_EQ(report.ask.cap, 236);
	CHECK_EQ(report.frontier.n, 2);
	CHECK_EQ(report.frontier.points[1].send_wr, 4096);
	CHECK_EQ(probe_cache_drop(&fixture.cache, &fixture.info, &fixture.order), 0);
	CHECK_EQ(find(&fixture, &report), 0);
	CHECK_EQ(probe_cache_drop(&fixture.cache, &fixture.info, &fixture.order), 0);
	teardown(&fixture);
}

/* Whatever the result depends on: when it changes there is no entry. */
TAP_CASE(an_entry_is_for_what_it_was_found_with)
{
	struct fixture fixture;
	struct probe_report report;

#define CHANGED(field, value)                                                                      \
	do {                                                                                       \
		struct fixture before = fixture;                                                   \
                                                                                                   \
		field = value;                                                                     \
		CHECK_EQ(find(&fixture, &report), 0);                                              \
		fixture = before;                                                                  \
		CHECK_EQ(find(&fixture, &report), PROBE_CACHE_HIT);                                \
	} while (0)

	setup(&fixture);
	CHECK_EQ(store(&fixture), 0);
	CHANGED(fixture.info.name[5], '1');
	CHANGED(fixture.info.guid, 5);
	CHANGED(fixture.info.firmware[0], '3');
	CHANGED(fixture.info.provider[0], 'L');
	CHANGED(fixture.info.driver[0], 'M');
	CHANGED(fixture.order.shape.send_wr, 255);
	CHANGED(fixture.order.shape.recv_wr, 255);
	CHANGED(fixture.order.shape.send_sge, 2);
	CHANGED(fixture.order.shape.recv_sge, 2);
	CHANGED(fixture.order.ask.ask, 1024);
	CHANGED(fixture.order.ask.floor, 33);
	CHANGED(fixture.order.ask.cap, 220);
	CHANGED(fixture.order.ask.n_hints, 0);
	CHANGED(fixture.order.ask.hints[0], 97);
#undef CHANGED
	teardown(&fixture);
}

TAP_CASE(results_that_may_change_are_not_kept)
{
	static const enum inline_reason passing[] = {
		INLINE_PENDING,	       INLINE_UNVERIFIED,  INLINE_NO_QP, INLINE_STOPPED,
		INLINE_USABLE_STOPPED, INLINE_USABLE_PATH, INLINE_NO_RC, INLINE_OFF,
		INLINE_CORRUPT};
	struct fixture fixture;
	struct probe_report report;

	setup(&fixture);
	for (size_t i = 0; i < ARRAY_SIZE(passing); i++) {
		fixture.report.reason = passing[i];
		CHECK_EQ(store(&fixture), -EINVAL);
		CHECK_EQ(find(&fixture, &report), 0);
	}
	fixture.report = (struct probe_report){.reason = INLINE_IGNORED, .granted = 256};
	CHECK_EQ(store(&fixture), 0);
	CHECK_EQ(find(&fixture, &report), PROBE_CACHE_HIT);
	CHECK_EQ(report.used, 0);
	CHECK_EQ(report.reason, INLINE_IGNORED);
	teardown(&fixture);
}

/* Put @text in the place of the file, as a person or a crash would. */
static void overwrite(const struct fixture *fixture, const char *text)
{
	FILE *file = fopen(fixture->file, "we");

	REQUIRE(file);
	CHECK(fputs(text, file) >= 0);
	fclose(file);
}

static char *slurp(const struct fixture *fixture)
{
	static char text[8192];
	FILE *file = fopen(fixture->file, "re");
	size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	text[len] = '\0';
	if (file)
		fclose(file);
	return text;
}

TAP_CASE(a_damaged_file_is_told_once_and_replaced)
{
	static const char *const damaged[] = {
		"",
		"{",
		"null",
		"[]",
		"{}",
		"{\"version\": 1}",
		"{\"version\": 1, \"entries\": []}",
		"{\"version\": 2, \"entries\": {}}",
		"{\"version\": \"1\", \"entries\": {}}",
		"{\"version\": 1, \"entries\": {}} trailing",
		"\xff\xfe\x00",
	};

	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++) {
		struct fixture fixture;
		struct probe_report report;

		setup(&fixture);
		overwrite(&fixture, damaged[i]);
		CHECK_EQ(find(&fixture, &report), PROBE_CACHE_BAD);
		CHECK(strstr(fixture.cache.problem, fixture.file));
		CHECK_EQ(find(&fixture, &report), 0);
		CHECK_EQ(store(&fixture), 0);
		CHECK_EQ(find(&fixture, &report), PROBE_CACHE_HIT);
		teardown(&fixture);
	}
}

/* Replace the first @from of the file by @to: whether the entry is still believed. */
static int find_with(struct fixture *fixture, const char *from, const char *to)
{
	struct probe_report report;
	char text[8192], *at;

	CHECK_EQ(store(fixture), 0);
	strcpy(text, slurp(fixture));
	at = strstr(text, from);
	if (!CHECK(at))
		return -1;
	memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
	memcpy(at, to, strlen(to));
	overwrite(fixture, text);
	return find(fixture, &report);
}

TAP_CASE(an_entry_that_can_not_be_is_none)
{
	static const struct {
		const char *from, *to;
	} lies[] = {
		{"\"used\": 236", "\"used\": 237"},
		{"\"used\": 236", "\"used\": 31"},
		{"\"used\": 236", "\"used\": 0"},
		{"\"used\": 236", "\"used\": -1"},
		{"\"used\": 236", "\"used\": 65536"},
		{"\"used\": 236", "\"used\": 4294967532"},
		{"\"used\": 236", "\"used\": 236.0"},
		{"\"used\": 236", "\"used\": \"236\""},
		{"\"used\": 236", "\"used\": null"},
		{"\"used\": 236", "\"use\": 236"},
		{"\"verified\": 236", "\"verified\": 235"},
		{"\"granted\": 252", "\"granted\": 235"},
		{"\"reason\": \"usable_capped\"", "\"reason\": \"usable_cap\""},
		{"\"reason\": \"usable_capped\"", "\"reason\": \"ignored\""},
		{"\"reason\": \"usable_capped\"", "\"reason\": \"unverified\""},
		{"\"reason\": \"usable_capped\"", "\"reason\": 2"},
		{"\"frontier\": [", "\"frontier\": [ {}, "},
		{"\"frontier\": [", "\"frontier\": [ 1, 2, 3, "},
		{"\"send_wr\": 4096", "\"send_wr\": -4096"},
		{"\"port\": 1", "\"port\": 256"},
	};
	struct fixture fixture;

	setup(&fixture);
	CHECK_EQ(find_with(&fixture, "\"used\": 236", "\"used\": 236"), PROBE_CACHE_HIT);
	CHECK_EQ(find_with(&fixture, "\"us\": 1234", "\"more\": 5, \"us\": 1234"), PROBE_CACHE_HIT);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		tap_diag("%s", lies[i].to);
		CHECK_EQ(find_with(&fixture, lies[i].from, lies[i].to), 0);
	}
	teardown(&fixture);
}

TAP_CASE(a_file_that_others_may_write_is_not_believed)
{
	struct fixture fixture;
	struct probe_report report;
	char other[128];

	setup(&fixture);
	CHECK_EQ(store(&fixture), 0);
	CHECK_EQ(chmod(fixture.file, 0666), 0);
	CHECK_EQ(find(&fixture, &report), PROBE_CACHE_BAD);
	/* A symbolic link is not followed, and not written through. */
	snprintf(other, sizeof(other), "%s/other", fixture.dir);
	CHECK_EQ(rename(fixture.file, other), 0);
	CHECK_EQ(chmod(other, 0600), 0);
	CHECK_EQ(symlink(other, fixture.file), 0);
	fixture.cache.is_told = false;
	CHECK_EQ(find(&fixture, &report), PROBE_CACHE_BAD);
	CHECK_EQ(store(&fixture), 0);
	CHECK_EQ(find(&fixture, &report), PROBE_CACHE_HIT);
	unlink(other);
	teardown(&fixture);
}

TAP_CASE(a_file_that_is_too_large_is_not_read)
{
	struct fixture fixture;
	struct probe_report report;

	setup(&fixture);
	CHECK_EQ(store(&fixture), 0);
	CHECK_EQ(truncate(fixture.file, 262144), 0);
	CHECK_EQ(find(&fixture, &report), PROBE_CACHE_BAD);
	teardown(&fixture);
}

/* Entries do not pile up, and the newest is always there. */
TAP_CASE(there_is_room_for_many)
{
	struct fixture fixture;
	struct probe_report report;

	setup(&fixture);
	for (uint32_t i = 0; i < 300; i++) {
		fixture.order.shape.send_wr = 16 + i;
		CHECK_EQ(store(&fixture), 0);
		CHECK_EQ(find(&fixture, &report), PROBE_CACHE_HIT);
	}
	fixture.order.shape.send_wr--;
	CHECK_EQ(find(&fixture, &report), PROBE_CACHE_HIT);
	teardown(&fixture);
}

TAP_CASE(processes_do_not_lose_each_others_entries)
{
	struct fixture fixture;
	struct probe_report report;
	pid_t pids[4];

	setup(&fixture);
	for (uint32_t p = 0; p < ARRAY_SIZE(pids); p++) {
		pids[p] = fork();
		if (pids[p] != 0)
			continue;
		for (uint32_t i = 0; i < 10; i++) {
			fixture.order.shape.send_wr = 100 * p + i;
			if (store(&fixture) != 0)
				_exit(1);
		}
		_exit(0);
	}
	for (uint32_t p = 0; p < ARRAY_SIZE(pids); p++) {
		int status = -1;

		CHECK_EQ(waitpid(pids[p], &status, 0), pids[p]);
		CHECK_EQ(status, 0);
	}
	for (uint32_t p = 0; p < ARRAY_SIZE(pids); p++) {
		for (uint32_t i = 0; i < 10; i++) {
			fixture.order.shape.send_wr = 100 * p + i;
			CHECK_EQ(find(&fixture, &report), PROBE_CACHE_HIT);
		}
	}
	teardown(&fixture);
}

TAP_CASE(the_folder_is_made_and_chosen)
{
	struct fixture fixture;
	struct probe_cache cache;
	struct probe_report report;
	char deep[96];

	setup(&fixture);
	snprintf(deep, sizeof(deep), "%s/a/b", fixture.dir);
	setenv("SHUNT_CACHE_DIR", deep, 1);
	probe_cache_init(&fixture.cache);
	CHECK_EQ(find(&fixture, &report), 0);
	CHECK_EQ(probe_cache_drop(&fixture.cache, &fixture.info, &fixture.order), 0);
	CHECK_EQ(store(&fixture), 0);
	CHECK_EQ(find(&fixture, &report), PROBE_CACHE_HIT);
	snprintf(deep, sizeof(deep), "%s/a/b/probe.json", fixture.dir);
	CHECK_EQ(unlink(deep), 0);
	*strrchr(deep, '/') = '\0';
	CHECK_EQ(rmdir(deep), 0);
	*strrchr(deep, '/') = '\0';
	CHECK_EQ(rmdir(deep), 0);
	/* A relative override is none, and nothing stands in for it. */
	setenv("SHUNT_CACHE_DIR", "cache", 1);
	probe_cache_init(&cache);
	CHECK_STR(cache.dir, "");
	fixture.cache = cache;
	CHECK_EQ(store(&fixture), -ENOENT);
	CHECK_EQ(find(&fixture, &report), 0);
	unsetenv("SHUNT_CACHE_DIR");
	setenv("STATE_DIRECTORY", "/var/lib/one:/var/lib/two", 1);
	probe_cache_init(&cache);
	CHECK_STR(cache.dir, "/var/lib/one");
	unsetenv("STATE_DIRECTORY");
	setenv("XDG_CACHE_HOME", "/home/someone/.cache", 1);
	probe_cache_init(&cache);
	CHECK_STR(cache.dir, geteuid() == 0 ? "/var/lib/shunt" : "/home/someone/.cache/shunt");
	teardown(&fixture);
}

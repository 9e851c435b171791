/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/util.h"
#include "core/inline_probe.h"
#include "tool.h"

#ifdef HAVE_RDMA
#include "config.h"
#include "fabric/preflight.h"
#include "fabric/probe_cache.h"
#include "fabric/probe_json.h"
#endif

/*
 * shunt probe: probes in this process, without a daemon, with the daemon's settings. The daemon's
 * own probe of the same device may run at the same time: a device has queue pairs for both.
 */

struct probe_options {
	const char *device; /* NULL: all */
	uint32_t ask;	    /* 0: as the settings say */
	bool use_cache, frontier, as_json;
};

static bool parse_ask(const char *text, uint32_t *ret_bytes)
{
	char *rest;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &rest, 10);
	if (errno || *rest || rest == text || text[0] == '-' || value < 1 ||
	    value > INLINE_BYTES_MAX)
		return false;
	*ret_bytes = (uint32_t)value;
	return true;
}

static int parse_options(int argc, char **argv, struct probe_options *options)
{
	static const struct option longs[] = {
		{"device", required_argument, NULL, 'd'},
		{"ask", required_argument, NULL, 'a'},
		{"frontier", no_argument, NULL, 'f'},
		{"no-cache", no_argument, NULL, 'n'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		switch (opt) {
		case 'd':
			options->device = optarg;
			break;
		case 'a':
			if (!parse_ask(optarg, &options->ask))
				return tool_usage("probe",
						  "--ask needs bytes from 1 to %u, not \"%s\"",
						  INLINE_BYTES_MAX, optarg);
			break;
		case 'f':
			options->frontier = true;
			break;
		case 'n':
			options->use_cache = false;
			break;
		case 'j':
			options->as_json = true;
			break;
		default:
			return tool_other_option("probe", opt, argv);
		}
	}
	if (optind < argc)
		return tool_usage("probe", "one argument too many: %s", argv[optind]);
	return TOOL_GO_ON;
}

#ifdef HAVE_RDMA

/* Locked memory below which a real device will hardly give two queue pairs. Chosen. */
#define MEMLOCK_BYTES (1u << 20)

struct probing {
	struct probe_options options;
	struct conf conf;
	struct probe_settings settings;
	struct probe_cache cache;
	json_t *devices; /* of the output, with as_json */
	bool failed;
};

/* The daemon's settings; only the default file may be missing. */
static bool load_settings(struct probing *probing)
{
	const char *path = secure_getenv("SHUNT_CONF");
	struct conf_error error;
	int rc;

	conf_init(&probing->conf);
	rc = conf_load(&probing->conf, path ? path : SHUNT_CONF_PATH, &error);
	if (rc && (rc != -ENOENT || path)) {
		tool_say("%s", error.text);
		return false;
	}
	probing->settings = (struct probe_settings){
		.depth = (uint32_t)probing->conf.rdma_depth,
		.sges = (uint32_t)probing->conf.rdma_sges,
		.ask = probing->options.ask ? probing->options.ask
					    : (uint32_t)probing->conf.inline_ask,
		.floor = (uint32_t)probing->conf.inline_floor,
		.devices = &probing->conf.devices,
	};
	return true;
}

/* What the host lacks, to stderr. */
static void tell_preflight(const struct device_list *list, int list_error)
{
	const char **names = calloc(list->n + 1, sizeof(*names));
	struct preflight_config config = {
		.root = "", .list_error = list_error, .memlock_bytes = MEMLOCK_BYTES};
	struct preflight preflight;

	for (size_t i = 0; names && i < list->n; i++)
		names[i] = device_list_name(list, i);
	config.listed = names;
	config.n_listed = names ? list->n : 0;
	preflight_memlock(&config.memlock_limit, &config.may_lock);
	preflight_check(&config, &preflight);
	for (size_t i = 0; i < preflight.n; i++)
		tool_say("%s", preflight.lines[i].text);
	free(names);
}

static void print_step(void *ctx, const struct probe_step *step)
{
	bool is_post = step->state == INLINE_VERIFY;
	char granted[16] = "-", result[48], number[16];

	(void)ctx;
	if (step->ok) {
		snprintf(granted, sizeof(granted), "%u", step->granted);
		strcpy(result, is_post ? "arrived" : "created");
	} else if (is_post && step->error == 0) {
		strcpy(result, "did not work");
	} else {
		snprintf(result, sizeof(result), "%s: %s",
			 inline_is_refusal(step->error) ? "refused" : "failed",
			 step->error ? probe_error_name(step->error, number) : "errno untouched");
	}
	printf("  %-8s %7u %9s  %-26s %9u\n", inline_state_name(step->state), step->asked, granted,
	       result, step->us);
	fflush(stdout);
}

static void print_head(const struct device_info *info, const struct probe_order *order)
{
	printf("%s: %s, driver %s, firmware %s, GUID %016" PRIx64 "\n", info->name,
	       fabric_transport_name(info->transport), info->driver,
	       info->firmware[0] ? info->firmware : "unknown", info->guid);
	printf("  wanted: depth %u, %u piece%s, %u bytes inline", order->shape.send_wr,
	       order->shape.send_sge, order->shape.send_sge == 1 ? "" : "s", order->ask.ask);
	if (order->ask.cap < INLINE_BYTES_MAX)
		printf(", at most %u", order->ask.cap);
	for (uint32_t i = 0; i < order->ask.n_hints; i++)
		printf("%s%u", i ? ", " : "; hints ", order->ask.hints[i]);
	puts("");
	if (order->use && info->rc)
		printf("  %-8s %7s %9s  %-26s %9s\n", "STEP", "ASKED", "GRANTED", "RESULT", "us");
	fflush(stdout);
}

static void print_result(const struct device_info *info, const struct probe_report *report)
{
	char cause[PROBE_CAUSE_BYTES];

	printf("  result: %u bytes inline. %s\n", report->used, inline_reason_text(report->reason));
	if (report->error)
		printf("  error: %s\n", strerror(report->error));
	if (report->detail[0])
		printf("  posts: %s\n", report->detail);
	if (probe_cause(info, report, cause)[0])
		printf("  %s\n", cause);
	printf("  %u queue pair%s tried, %u us\n", report->creations,
	       report->creations == 1 ? "" : "s", report->us);
	for (uint32_t i = 0; i < report->frontier.n; i++) {
		const struct frontier_point *point = &report->frontier.points[i];

		printf("  frontier: %u bytes inline at depth %u%s%s\n", point->inline_bytes,
		       point->send_wr, point->error ? "; ended by " : "",
		       point->error ? strerror(point->error) : "");
	}
	fflush(stdout);
}

/* Whether the probe came to an answer about the device. */
static bool is_answer(const struct probe_report *report)
{
	switch (report->reason) {
	case INLINE_NO_QP:
	case INLINE_STOPPED:
	case INLINE_USABLE_STOPPED:
	case INLINE_UNVERIFIED:
	case INLINE_CORRUPT:
		return false;
	default:
		return true;
	}
}

/* Tell where the cache said something else, and bring it up to date. */
static void keep(struct probing *probing, const struct device_info *info,
		 const struct probe_order *order, const struct probe_report *report)
{
	struct probe_report before;
	int rc = probe_cache_find(&probing->cache, info, order, &before);

	if (rc == PROBE_CACHE_BAD)
		tool_say("%s; it is replaced", probing->cache.problem);
	if (rc == PROBE_CACHE_HIT &&
	    (before.used != report->used || before.reason != report->reason))
		tool_say("%s: the kept result was %u bytes (%s); it is dropped", info->name,
			 before.used, inline_reason_name(before.reason));
	if (probe_is_lasting(report))
		rc = probe_cache_store(&probing->cache, info, order, report);
	else
		rc = probe_cache_drop(&probing->cache, info, order);
	if (rc < 0 && rc != -ENOENT)
		tool_say("%s", probing->cache.problem);
}

static void output(struct probing *probing, const struct device_info *info,
		   const struct probe_report *report)
{
	json_t *json;

	if (!probing->options.as_json) {
		print_result(info, report);
		return;
	}
	json = probe_device_json(info);
	json_object_set_new(json, "probe", probe_report_json(info, report));
	json_array_append_new(probing->devices, json);
}

static void probe_device(struct probing *probing, const struct device *device)
{
	struct probe_order order;
	struct probe_report report;

	probe_order_init(&order, &device->info, &probing->settings);
	if (!probing->options.as_json) {
		order.on_step = print_step;
		print_head(&device->info, &order);
	}
	probe_run(device, &order, &report);
	if (probing->options.frontier && probe_is_usable(&report))
		frontier_find(device, &order.shape, report.used, &report.frontier);
	if (probing->options.use_cache && order.use && device->info.rc)
		keep(probing, &device->info, &order, &report);
	output(probing, &device->info, &report);
	probing->failed = probing->failed || !is_answer(&report);
}

static void probe_one(struct probing *probing, const struct device_list *list, size_t i)
{
	const char *name = device_list_name(list, i);
	struct device *device = NULL;
	int rc = device_open(list, i, &device);

	if (rc < 0) {
		probing->failed = true;
		tool_say("%s: can't be opened: %s%s", name, strerror(-rc),
			 rc == -EACCES || rc == -EPERM ? "; it needs access to "
							 "/dev/infiniband/uverbs* (group rdma)"
						       : "");
		return;
	}
	probe_device(probing, device);
	device_close(device);
}

/* Returns how many devices were probed. */
static size_t probe_all(struct probing *probing, const struct device_list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++) {
		if (probing->options.device &&
		    strcmp(probing->options.device, device_list_name(list, i)) != 0)
			continue;
		if (n++ > 0 && !probing->options.as_json)
			puts("");
		probe_one(probing, list, i);
	}
	return n;
}

static int probe_listed(struct probing *probing)
{
	struct device_list list = {0, NULL};
	int rc = device_list_get(&list);
	size_t n;

	tell_preflight(&list, rc);
	n = rc < 0 ? 0 : probe_all(probing, &list);
	if (n == 0 && list.n > 0) {
		tool_say("there is no RDMA device \"%s\"; there are:", probing->options.device);
		for (size_t i = 0; i < list.n; i++)
			fprintf(stderr, "  %s\n", device_list_name(&list, i));
	}
	device_list_free(&list);
	if (n == 0)
		return TOOL_NOT_FOUND;
	return probing->failed ? TOOL_FAILED : TOOL_OK;
}

static int probe(const struct probe_options *options)
{
	static struct probing probing;
	json_t *json;
	int rc;

	probing.options = *options;
	if (!load_settings(&probing))
		return TOOL_FAILED;
	probe_cache_init(&probing.cache);
	json = json_pack("{s:[]}", "devices");
	probing.devices = json_object_get(json, "devices");
	rc = probe_listed(&probing);
	if (options->as_json)
		answer_print(json);
	json_decref(json);
	return rc;
}

#else

static int probe(const struct probe_options *options)
{
	(void)options;
	tool_say("this build has no RDMA: it was made without libibverbs, librdmacm or libnl-3");
	return TOOL_FAILED;
}

#endif

int cmd_probe(int argc, char **argv)
{
	struct probe_options options = {.use_cache = true};
	int rc = parse_options(argc, argv, &options);

	return rc == TOOL_GO_ON ? probe(&options) : rc;
}

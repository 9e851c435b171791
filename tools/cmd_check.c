/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/util.h"
#include "check.h"
#include "tool.h"

/*
 * shunt check: one table of checks, each of which says its lines into one report.
 */

static const struct check {
	const char *name;
	void (*run)(struct check_context *context, struct check_report *report);
} checks[] = {
	{"kernel", check_kernel},
	{"daemon", check_daemon},
	{"version", check_versions},
	{"settings", check_config},
	{"memlock", check_limits_memlock},
	{"descriptors", check_limits_nofile},
	{"nodes", check_nodes},
	{"rdma", check_devices},
	{"keys", check_keys},
	{"peers", check_peers},
};

void check_run(struct check_context *context, struct check_report *report)
{
	check_open(context);
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		report->check = checks[i].name;
		checks[i].run(context, report);
	}
	report->check = "program";
	if (context->pid)
		check_target(context, report);
	check_close(context);
}

static bool parse_pid(const char *text, int *ret_pid)
{
	char *rest;
	long value;

	errno = 0;
	value = strtol(text, &rest, 10);
	if (errno || *rest || rest == text || value < 1 || value > INT32_MAX)
		return false;
	*ret_pid = (int)value;
	return true;
}

static int parse_options(int argc, char **argv, struct check_context *context, bool *ret_json)
{
	static const struct option longs[] = {
		{"device", required_argument, NULL, 'd'}, {"peer", required_argument, NULL, 'a'},
		{"pid", required_argument, NULL, 'p'},	  {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},	  {NULL, 0, NULL, 0},
	};
	struct peer_address address;
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		switch (opt) {
		case 'd':
			context->device = optarg;
			break;
		case 'a':
			context->peer = optarg;
			if (!peer_address_parse(optarg, &address))
				return tool_usage("check", "--peer needs an IP address, not \"%s\"",
						  optarg);
			break;
		case 'p':
			if (!parse_pid(optarg, &context->pid))
				return tool_usage("check", "--pid needs a process id, not \"%s\"",
						  optarg);
			break;
		case 'j':
			*ret_json = true;
			break;
		default:
			return tool_other_option("check", opt, argv);
		}
	}
	if (optind < argc)
		return tool_usage("check", "one argument too many: %s", argv[optind]);
	return TOOL_GO_ON;
}

int cmd_check(int argc, char **argv)
{
	static struct check_context context;
	struct check_report report = {0};
	bool as_json = false;
	int rc = parse_options(argc, argv, &context, &as_json);

	if (rc != TOOL_GO_ON)
		return rc;
	check_run(&context, &report);
	if (as_json) {
		json_t *json = check_json(&report);

		answer_print(json);
		json_decref(json);
	} else {
		check_print(&report);
	}
	rc = check_worst(&report) == CHECK_FAIL ? TOOL_NOT_FOUND : TOOL_OK;
	check_report_deinit(&report);
	return rc;
}

/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "ask.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "table.h"
#include "target.h"
#include "tool.h"

struct ss_options {
	int32_t pid; /* -1: all */
	const char *lane;
	int json;
};

static int parse(int argc, char **argv, struct ss_options *options)
{
	static const struct option longs[] = {
		{"pid", required_argument, NULL, 'p'},
		{"lane", required_argument, NULL, 'l'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct target target;
	int opt, rc;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		switch (opt) {
		case 'p':
			rc = target_parse("ss", optarg, &target);
			if (rc)
				return rc;
			if (target.fd >= 0)
				return tool_usage("ss", "--pid takes a process, not %s", optarg);
			options->pid = target.pid;
			break;
		case 'l':
			if (strcmp(optarg, "tcp") != 0 && strcmp(optarg, "ring") != 0 &&
			    strcmp(optarg, "rdma") != 0)
				return tool_usage("ss", "--lane is tcp, ring or rdma, not \"%s\"",
						  optarg);
			options->lane = optarg;
			break;
		case 'j':
			options->json = 1;
			break;
		default:
			return tool_other_option("ss", opt, argv);
		}
	}
	if (optind < argc)
		return tool_usage("ss", "it takes no arguments, but got \"%s\"", argv[optind]);
	return TOOL_GO_ON;
}

static void keep_lane(json_t *connections, const char *lane)
{
	for (size_t i = json_array_size(connections); i-- > 0;) {
		const json_t *connection = json_array_get(connections, i);

		if (strcmp(answer_text(connection, "lane"), lane) != 0)
			json_array_remove(connections, i);
	}
}

static void add_line(struct table *table, const json_t *connection)
{
	uint64_t tcp_tx = answer_way(connection, "tcp_bytes", "tx");
	uint64_t tcp_rx = answer_way(connection, "tcp_bytes", "rx");
	uint64_t lane_tx = answer_way(connection, "lane_bytes", "tx");
	uint64_t lane_rx = answer_way(connection, "lane_bytes", "rx");
	double lane = (double)lane_tx + (double)lane_rx;
	double all = lane + (double)tcp_tx + (double)tcp_rx;
	const char *reason = answer_text(connection, "reason");
	const json_t *remote = json_object_get(connection, "remote");
	const char *device = remote && strcmp(answer_text(connection, "lane"), "rdma") == 0
				     ? answer_text(remote, "device")
				     : "";
	char text[BYTES_TEXT];

	table_add(table, "%d", (int)answer_count(connection, "pid"));
	table_add(table, "%d", (int)answer_count(connection, "fd"));
	table_add(table, "%s", answer_text(connection, "comm"));
	if (device[0])
		table_add(table, "%s:%s", answer_text(connection, "lane"), device);
	else
		table_add(table, "%s", answer_text(connection, "lane"));
	table_add(table, "%s", answer_text(connection, "local"));
	table_add(table, "%s", answer_text(connection, "peer"));
	table_add(table, "%s", bytes_text(tcp_tx + lane_tx, text));
	table_add(table, "%s", bytes_text(tcp_rx + lane_rx, text));
	table_add(table, "%.0f%%", all > 0 ? 100 * lane / all : 0);
	table_add(table, "%s", strcmp(reason, "none") == 0 ? "" : reason);
}

static void print_table(const json_t *connections)
{
	static const char *const heads[] = {"PID",  "FD",   "COMMAND", "LANE", "LOCAL",
					    "PEER", "SENT", "RCVD",    "RING", "REASON"};
	static const bool right[] = {true,  true, false, false, false,
				     false, true, true,	 true,	false};
	const json_t *connection;
	struct table table;
	size_t i;

	table_init(&table, ARRAY_SIZE(heads), heads, right);
	json_array_foreach(connections, i, connection) add_line(&table, connection);
	table_print(&table, 0);
	table_deinit(&table);
}

int cmd_ss(int argc, char **argv)
{
	struct ss_options options = {.pid = -1};
	AUTO_FREE char *text = NULL;
	json_t *json, *connections;
	int rc = parse(argc, argv, &options);

	if (rc != TOOL_GO_ON)
		return rc;
	rc = ask_once(&(struct ctl_query_msg){CTL_QUERY_SS, options.pid, -1}, &text);
	if (rc)
		return rc;
	json = answer_parse(text);
	if (!json)
		return TOOL_FAILED;
	connections = json_object_get(json, "connections");
	if (options.lane)
		keep_lane(connections, options.lane);
	if (options.json)
		answer_print(json);
	else
		print_table(connections);
	json_decref(json);
	return TOOL_OK;
}

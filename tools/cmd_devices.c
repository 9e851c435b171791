/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "ask.h"
#include "table.h"
#include "tool.h"

static void print_inline(const json_t *probe)
{
	printf("  inline       %" PRIu64 " bytes used at depth %" PRIu64 "; %" PRIu64
	       " asked, %" PRIu64 " granted, %" PRIu64 " verified\n",
	       answer_count(probe, "used"), answer_count(probe, "depth"),
	       answer_count(probe, "asked"), answer_count(probe, "granted"),
	       answer_count(probe, "verified"));
	printf("               %s%s%s\n", answer_text(probe, "text"),
	       answer_text(probe, "detail")[0] ? " " : "", answer_text(probe, "detail"));
}

static void print_steps(const json_t *probe)
{
	const json_t *step;
	size_t i;

	printf("  probe        %" PRIu64 " creations in %" PRIu64 " us%s\n",
	       answer_count(probe, "creations"), answer_count(probe, "us"),
	       json_is_true(json_object_get(probe, "cached")) ? ", remembered from then" : "");
	json_array_foreach(json_object_get(probe, "steps"), i, step)
	{
		bool ok = json_is_true(json_object_get(step, "ok"));
		const char *error = json_string_value(json_object_get(step, "error"));

		printf("               %-7s %4" PRIu64 " bytes: ", answer_text(step, "step"),
		       answer_count(step, "asked"));
		if (ok)
			printf("%" PRIu64, answer_count(step, "granted"));
		else
			printf("refused%s%s", error ? ", " : "", error ? error : "");
		printf(", %" PRIu64 " us\n", answer_count(step, "us"));
	}
}

static void print_frontier(const json_t *probe)
{
	const json_t *points = json_object_get(probe, "frontier"), *point;
	size_t i;

	if (json_array_size(points) == 0)
		return;
	printf("  frontier     ");
	json_array_foreach(points, i, point)
		printf("%s%" PRIu64 " bytes: depth %" PRIu64, i ? ", " : "",
		       answer_count(point, "inline_bytes"), answer_count(point, "send_wr"));
	putchar('\n');
}

static void print_resources(const json_t *device)
{
	const json_t *qps = json_object_get(device, "qps");
	const json_t *memory = json_object_get(device, "memory");
	char text[2][BYTES_TEXT];

	if (qps)
		printf("  queue pairs  %" PRIu64 " of at most %" PRIu64 "\n",
		       answer_count(qps, "in_use"), answer_count(qps, "max"));
	if (memory)
		printf("  memory       %s pinned of at most %s, in %" PRIu64 " regions, %" PRIu64
		       " halves ready\n",
		       bytes_text(answer_count(memory, "pinned"), text[0]),
		       bytes_text(answer_count(memory, "max"), text[1]),
		       answer_count(memory, "regions"), answer_count(memory, "ready_halves"));
}

static void print_port(const json_t *port)
{
	const json_t *pool = json_object_get(port, "pool");

	printf("  port %" PRIu64 "       %s, %s, MTU %" PRIu64, answer_count(port, "port"),
	       answer_text(port, "state"), answer_text(port, "transport"),
	       answer_count(port, "mtu"));
	if (answer_text(port, "netdev")[0])
		printf(", on %s", answer_text(port, "netdev"));
	if (answer_text(port, "gid")[0])
		printf(", %s (%s, index %" PRIu64 ")", answer_text(port, "gid"),
		       answer_text(port, "gid_type"), answer_count(port, "gid_index"));
	putchar('\n');
	if (!pool)
		return;
	printf("    pool       %" PRIu64 " ready of %" PRIu64 " wanted (%" PRIu64 " to %" PRIu64
	       "), %" PRIu64 " with links, %" PRIu64 " waited for\n",
	       answer_count(pool, "ready"), answer_count(pool, "target"), answer_count(pool, "min"),
	       answer_count(pool, "max"), answer_count(pool, "out"), answer_count(pool, "waiting"));
	printf("               %" PRIu64 " created, %" PRIu64 " destroyed, %" PRIu64
	       " taken, %" PRIu64 " found none, %" PRIu64 " failed%s%s\n",
	       answer_count(pool, "created"), answer_count(pool, "destroyed"),
	       answer_count(pool, "taken"), answer_count(pool, "waited"),
	       answer_count(pool, "failed"), answer_text(pool, "error")[0] ? ": " : "",
	       answer_text(pool, "error"));
}

static void print_device(const json_t *device)
{
	const json_t *port, *probe = json_object_get(device, "probe");
	size_t i;

	printf("%s: %s", answer_text(device, "device"), answer_text(device, "state"));
	if (json_object_get(device, "driver"))
		printf(", %s, driver %s, firmware %s, GUID %s", answer_text(device, "transport"),
		       answer_text(device, "driver"),
		       answer_text(device, "firmware")[0] ? answer_text(device, "firmware")
							  : "unknown",
		       answer_text(device, "guid"));
	putchar('\n');
	if (answer_text(device, "why")[0])
		printf("  why          %s\n", answer_text(device, "why"));
	if (probe) {
		print_inline(probe);
		print_steps(probe);
		print_frontier(probe);
	}
	print_resources(device);
	json_array_foreach(json_object_get(device, "ports"), i, port) print_port(port);
}

static void print_devices(const json_t *json)
{
	const json_t *devices = json_object_get(json, "devices"), *device, *note;
	const char *rdma = answer_text(json, "rdma");
	size_t i;

	if (strcmp(rdma, "off") == 0)
		puts("RDMA is switched off: see rdma in shunt.conf");
	else if (strcmp(rdma, "not built") == 0)
		puts("The daemon was built without RDMA");
	else if (!json_is_true(json_object_get(json, "scanned")))
		puts("The daemon is still looking for devices");
	json_array_foreach(devices, i, device) print_device(device);
	json_array_foreach(json_object_get(json, "notes"), i, note)
		printf("note: %s\n", answer_text(note, "text"));
}

int cmd_devices(int argc, char **argv)
{
	return ask_and_show(argc, argv, CTL_QUERY_DEVICES, print_devices);
}

/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/cleanup.h"
#include "drop_in.h"
#include "os/fd.h"
#include "systemctl.h"
#include "table.h"
#include "tool.h"
#include "unit_preload.h"
#include "unit_process.h"

/*
 * shunt enabled: the services that have our drop-in, and whether their processes have the library.
 */

struct enabled_options {
	const char *root;
	bool as_json;
};

static int parse(int argc, char **argv, struct enabled_options *options)
{
	static const struct option longs[] = {
		{"root", required_argument, NULL, 'r'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		switch (opt) {
		case 'r':
			options->root = optarg;
			break;
		case 'j':
			options->as_json = true;
			break;
		default:
			return tool_other_option("enabled", opt, argv);
		}
	}
	if (optind < argc)
		return tool_usage("enabled", "one argument too many: %s", argv[optind]);
	return TOOL_GO_ON;
}

static json_t *process_json(int pid, const char *library)
{
	int rc = unit_process_maps(pid, library);

	return json_pack("{s:i, s:o}", "pid", pid, "has_library",
			 rc < 0 ? json_null() : json_boolean(rc == UNIT_MAPS_IT));
}

/* One running unit: the service itself, or an instance of a template. */
static json_t *running_json(const char *unit, const char *library)
{
	char state[32] = "?";
	json_t *processes = json_array();
	int pids[UNIT_PIDS_MAX];
	size_t n = unit_process_list(unit, pids);

	systemctl_value(unit, "ActiveState", state, sizeof(state));
	for (size_t i = 0; i < n; i++)
		json_array_append_new(processes, process_json(pids[i], library));
	return json_pack("{s:s, s:s, s:o}", "unit", unit, "state", state, "processes", processes);
}

static json_t *all_running(const char *unit, const char *library)
{
	json_t *array = json_array();
	AUTO_FREE char *text = NULL;
	char *line, *rest;

	if (!unit_is_template(unit)) {
		json_array_append_new(array, running_json(unit, library));
		return array;
	}
	text = unit_instances(unit);
	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		line[strcspn(line, " ")] = '\0';
		json_array_append_new(array, running_json(line, library));
	}
	return array;
}

/* NULL: @unit has no drop-in of ours. */
static json_t *unit_json(const struct unit_root *root, const char *unit)
{
	char path[PATH_MAX], library[PATH_MAX] = "";
	AUTO_FREE char *text = NULL;
	int error;

	snprintf(path, sizeof(path), UNIT_ETC "/%s.d/" UNIT_DROP_IN, unit);
	text = unit_read_in(root, path, &error);
	if (!text || !unit_text_is_ours(text))
		return NULL;
	unit_text_library(text, library);
	drop_in_path(root, unit, path);
	return json_pack("{s:s, s:s, s:s, s:b, s:o}", "unit", unit, "drop_in", path, "library",
			 library, "library_exists", library[0] && drop_in_sees(root, library),
			 "running", root->runs_systemd ? all_running(unit, library) : json_null());
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_folder(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return len > 2 && len < UNIT_NAME_BYTES && strcmp(entry->d_name + len - 2, ".d") == 0;
}

static json_t *list_units(const struct unit_root *root)
{
	json_t *array = json_array(), *entry;
	struct dirent **found = NULL;
	char dir[32];
	int fd = unit_open_in(root, UNIT_ETC, O_RDONLY | O_DIRECTORY), n;

	snprintf(dir, sizeof(dir), "/proc/self/fd/%d", fd);
	n = fd < 0 ? 0 : scandir(dir, &found, is_folder, by_name);
	for (int i = 0; i < n; i++) {
		found[i]->d_name[strlen(found[i]->d_name) - 2] = '\0';
		entry = unit_json(root, found[i]->d_name);
		if (entry)
			json_array_append_new(array, entry);
		free(found[i]);
	}
	free(found);
	if (fd >= 0)
		fd_close(fd);
	return json_pack("{s:o, s:b}", "units", array, "systemd", root->runs_systemd);
}

static void add_line(struct table *table, const char *unit, const char *state, const char *what)
{
	table_add(table, "%s", unit);
	table_add(table, "%s", state);
	table_add(table, "%s", what);
}

static void add_running(struct table *table, const json_t *running, bool library_exists)
{
	const json_t *processes = json_object_get(running, "processes"), *process;
	size_t i, n = json_array_size(processes), with = 0, unknown = 0;
	char text[128];

	json_array_foreach(processes, i, process)
	{
		with += json_is_true(json_object_get(process, "has_library"));
		unknown += json_is_null(json_object_get(process, "has_library"));
	}
	if (!library_exists)
		strcpy(text, "the library is missing: enable it again");
	else if (n == 0)
		strcpy(text, "when it starts");
	else if (unknown)
		snprintf(text, sizeof(text), "not known of %zu of %zu processes; root sees all",
			 unknown, n);
	else if (with == n)
		snprintf(text, sizeof(text), "in %s", n == 1 ? "its process" : "all processes");
	else if (with)
		snprintf(text, sizeof(text), "in %zu of %zu processes", with, n);
	else
		strcpy(text, "not in its processes: restart it");
	add_line(table, answer_text(running, "unit"), answer_text(running, "state"), text);
}

static void print_text(const json_t *json)
{
	static const char *const heads[] = {"UNIT", "STATE", "LIBRARY"};
	static const bool right[] = {false, false, false};
	const json_t *units = json_object_get(json, "units"), *unit, *running, *entry;
	struct table table;
	size_t i, j;

	if (json_array_size(units) == 0) {
		puts("No unit is enabled; shunt enable UNIT does that.");
		return;
	}
	table_init(&table, 3, heads, right);
	json_array_foreach(units, i, unit)
	{
		bool exists = json_is_true(json_object_get(unit, "library_exists"));

		running = json_object_get(unit, "running");
		if (json_array_size(running) == 0)
			add_line(&table, answer_text(unit, "unit"), "-",
				 exists ? "when it starts"
					: "the library is missing: enable it again");
		json_array_foreach(running, j, entry) add_running(&table, entry, exists);
	}
	table_print(&table, 0);
	table_deinit(&table);
}

int cmd_enabled(int argc, char **argv)
{
	struct enabled_options options = {.root = NULL};
	struct unit_root root;
	json_t *json;
	int rc = parse(argc, argv, &options);

	if (rc != TOOL_GO_ON)
		return rc;
	rc = unit_root_open(options.root, &root);
	if (rc < 0) {
		tool_say("%s: %s", options.root ? options.root : "/", strerror(-rc));
		return TOOL_FAILED;
	}
	json = list_units(&root);
	if (options.as_json)
		answer_print(json);
	else
		print_text(json);
	json_decref(json);
	unit_root_close(&root);
	return TOOL_OK;
}

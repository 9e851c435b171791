/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "drop_in.h"
#include "locate.h"
#include "systemctl.h"
#include "tool.h"
#include "unit_preload.h"

/*
 * shunt enable and shunt disable: a drop-in that has systemd preload the library into one service.
 */

struct enable_options {
	const char *command; /* enable or disable */
	const char *root;
	bool dry_run, force, now;
	char unit[UNIT_NAME_BYTES];
};

static int parse_unit(int argc, char **argv, struct enable_options *options)
{
	if (optind >= argc)
		return tool_usage(argv[0], "which unit?");
	if (optind + 1 < argc)
		return tool_usage(argv[0], "one argument too many: %s", argv[optind + 1]);
	if (unit_name_of(argv[optind], options->unit))
		return tool_usage(argv[0],
				  "\"%s\" is not the name of a service; only services run programs",
				  argv[optind]);
	if (options->now && options->root)
		return tool_usage(argv[0], "--now is for the running system, not for --root");
	return TOOL_GO_ON;
}

static int parse(int argc, char **argv, struct enable_options *options)
{
	static const struct option longs[] = {
		{"dry-run", no_argument, NULL, 'd'}, {"force", no_argument, NULL, 'f'},
		{"now", no_argument, NULL, 'n'},     {"root", required_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'},    {NULL, 0, NULL, 0},
	};
	int opt;

	opterr = 0;
	options->command = argv[0];
	while ((opt = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		switch (opt) {
		case 'd':
			options->dry_run = true;
			break;
		case 'f':
			options->force = true;
			break;
		case 'n':
			options->now = true;
			break;
		case 'r':
			options->root = optarg;
			break;
		default:
			return tool_other_option(argv[0], opt, argv);
		}
	}
	return parse_unit(argc, argv, options);
}

/* Take over what was changed, and say from when it holds. */
static int apply(const struct enable_options *options, const struct unit_root *root, bool changed)
{
	char state[32] = "";

	if (!root->runs_systemd) {
		if (!options->root)
			puts("systemd does not run here: it holds when that starts the unit.");
		return options->now ? TOOL_FAILED : TOOL_OK;
	}
	if (changed && !systemctl_do("daemon-reload", NULL))
		return TOOL_FAILED;
	if (unit_is_template(options->unit)) {
		printf("It holds for instances that are started from now on%s.\n",
		       options->now ? "; restart those that run yourself" : "");
		return TOOL_OK;
	}
	systemctl_value(options->unit, "ActiveState", state, sizeof(state));
	if (options->now && strcmp(state, "inactive") != 0) {
		if (!systemctl_do("restart", options->unit))
			return TOOL_FAILED;
		printf("%s is restarted.\n", options->unit);
	} else if (changed && strcmp(state, "active") == 0) {
		printf("%s runs and goes on as it was: systemctl restart %s\n", options->unit,
		       options->unit);
	}
	return TOOL_OK;
}

static void print_plan(const char *path, const struct unit_plan *plan)
{
	const char *line = plan->text;

	printf("%s:\n", path);
	while (*line) {
		size_t len = strcspn(line, "\n");

		printf("    %.*s\n", (int)len, line);
		line += len + (line[len] == '\n');
	}
}

/* Find the unit; its own name takes the place of the one given. */
static int find(struct enable_options *options, const struct unit_root *root, char file[PATH_MAX])
{
	char given[UNIT_NAME_BYTES];
	enum unit_state state;

	strcpy(given, options->unit);
	state = unit_find(root, options->unit, file);
	if (strcmp(given, options->unit) != 0)
		printf("%s is another name for %s\n", given, options->unit);
	if (state == UNIT_MASKED && !options->force) {
		tool_say("%s is masked, so it never runs: systemctl unmask %s, or --force",
			 options->unit, options->unit);
		return TOOL_NOT_FOUND;
	}
	if (state == UNIT_UNKNOWN && !options->force) {
		tool_say("there is no unit %s%s%s; --force writes the drop-in all the same",
			 options->unit, options->root ? " in " : "",
			 options->root ? options->root : "");
		return TOOL_NOT_FOUND;
	}
	return TOOL_OK;
}

static int enable_unit(struct enable_options *options, const struct unit_root *root)
{
	static struct unit_plan plan; /* large */
	char file[PATH_MAX], library[PATH_MAX], path[PATH_MAX];
	struct unit_settings settings;
	int rc;

	rc = find(options, root, file);
	if (rc != TOOL_OK)
		return rc;
	rc = locate_part(PART_PRELOAD, library);
	if (rc < 0 && !options->root) {
		tool_say("the library to preload is missing: %s: %s", library, strerror(-rc));
		return TOOL_FAILED;
	}
	unit_settings_read(root, options->unit, file, &settings);
	if (root->runs_systemd && !unit_is_template(options->unit))
		unit_settings_ask(options->unit, &settings);
	rc = unit_plan_make(root, options->unit, library, &settings, &plan);
	unit_settings_deinit(&settings);
	if (rc) {
		tool_say("%s", plan.notes[0]);
		return TOOL_FAILED;
	}
	if (options->root && !drop_in_sees(root, library))
		unit_note(&plan, "%s is not in %s yet: install Shunt there", library,
			  options->root);
	drop_in_path(root, options->unit, path);
	rc = drop_in_check(root, options->unit, plan.text);
	if (rc == DROP_IN_FOREIGN || rc < 0)
		return drop_in_complain(rc, path);
	if (rc == DROP_IN_SAME)
		printf("%s is enabled already.\n", options->unit);
	print_plan(path, &plan);
	for (unsigned int i = 0; i < plan.n_notes; i++)
		printf("note: %s\n", plan.notes[i]);
	if (options->dry_run) {
		puts("Nothing was written (--dry-run).");
		return TOOL_OK;
	}
	if (rc != DROP_IN_SAME) {
		int error = drop_in_write(root, options->unit, plan.text);

		if (error < 0)
			return drop_in_complain(error, path);
	}
	return apply(options, root, rc != DROP_IN_SAME);
}

static int disable_unit(struct enable_options *options, const struct unit_root *root)
{
	char file[PATH_MAX], path[PATH_MAX];
	enum unit_state state = unit_find(root, options->unit, file);
	int rc = drop_in_check(root, options->unit, "");

	drop_in_path(root, options->unit, path);
	if (rc == DROP_IN_FOREIGN || rc < 0)
		return drop_in_complain(rc, path);
	if (rc == DROP_IN_NONE) {
		if (state == UNIT_UNKNOWN) {
			tool_say("there is no unit %s, and nothing of shunt for it", options->unit);
			return TOOL_NOT_FOUND;
		}
		printf("%s is not enabled: there is nothing to remove.\n", options->unit);
		return TOOL_OK;
	}
	printf("%s is %sremoved.\n", path, options->dry_run ? "to be " : "");
	if (options->dry_run) {
		puts("Nothing was removed (--dry-run).");
		return TOOL_OK;
	}
	rc = drop_in_remove(root, options->unit);
	return rc < 0 ? drop_in_complain(rc, path) : apply(options, root, true);
}

static int run(int argc, char **argv,
	       int (*fn)(struct enable_options *options, const struct unit_root *root))
{
	struct enable_options options = {.root = NULL};
	struct unit_root root;
	int rc = parse(argc, argv, &options);

	if (rc != TOOL_GO_ON)
		return rc;
	rc = unit_root_open(options.root, &root);
	if (rc < 0) {
		tool_say("%s: %s", options.root ? options.root : "/", strerror(-rc));
		return TOOL_FAILED;
	}
	rc = fn(&options, &root);
	unit_root_close(&root);
	return rc;
}

int cmd_enable(int argc, char **argv)
{
	return run(argc, argv, enable_unit);
}

int cmd_disable(int argc, char **argv)
{
	return run(argc, argv, disable_unit);
}

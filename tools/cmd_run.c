/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask.h"
#include "launch.h"
#include "locate.h"
#include "tool.h"

enum daemon_choice { DAEMON_AUTO, DAEMON_SYSTEM, DAEMON_NONE };

struct run_options {
	enum daemon_choice daemon;
	bool verbose;
};

static int run_usage(const char *what, const char *text)
{
	tool_usage("run", "%s%s", what, text);
	return TOOL_RUN_FAILED;
}

static int parse_choice(const char *text, enum daemon_choice *ret_choice)
{
	static const char *const words[] = {"auto", "system", "none"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i], text) == 0) {
			*ret_choice = (enum daemon_choice)i;
			return TOOL_GO_ON;
		}
	}
	return run_usage("--daemon is auto, system or none, not ", text);
}

static int parse(int argc, char **argv, struct run_options *options)
{
	static const struct option longs[] = {
		{"daemon", required_argument, NULL, 'd'},
		{"verbose", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int opt, rc;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, "+:", longs, NULL)) != -1) {
		switch (opt) {
		case 'd':
			rc = parse_choice(optarg, &options->daemon);
			if (rc != TOOL_GO_ON)
				return rc;
			break;
		case 'v':
			options->verbose = true;
			break;
		case 'h':
			tool_help("run");
			return TOOL_OK;
		case ':':
			return run_usage("a value is missing after ", argv[optind - 1]);
		default:
			return run_usage("unknown option ", argv[optind - 1]);
		}
	}
	return optind < argc ? TOOL_GO_ON : run_usage("which command?", "");
}

/* Whether the daemon in @dir serves us; a refusal is told, and is for the library to get over. */
static bool serves(const struct rundir *dir)
{
	struct asker asker;
	enum reason reason;
	int rc = ask_connect(dir, &asker, &reason);

	if (rc == 0)
		ask_close(&asker);
	if (rc == ASK_REFUSED)
		tool_say("the daemon in %s turns us away: %s", dir->path, reason_text(reason));
	return rc >= 0;
}

static void tell(const struct run_options *options, const char *what, const char *where)
{
	if (options->verbose)
		tool_say("%s %s", what, where);
}

/* One of the user's own, in the first place that is usable. */
static int own_daemon(const struct run_options *options, const struct rundir *dirs, size_t n)
{
	int errors[RUNDIR_CANDIDATES_MAX];

	for (size_t i = 0; i < n; i++) {
		errors[i] = -ENOENT;
		if (dirs[i].kind == RUNDIR_SYSTEM)
			continue;
		errors[i] = launch_daemon(&dirs[i]);
		if (errors[i] > 0)
			return TOOL_RUN_FAILED;
		if (errors[i] == 0) {
			tell(options, "using the daemon in", dirs[i].path);
			return TOOL_OK;
		}
	}
	tool_say("no place for a daemon of your own; --daemon none goes without. Tried:");
	for (size_t i = 0; i < n; i++) {
		if (dirs[i].kind != RUNDIR_SYSTEM)
			fprintf(stderr, "  %s: %s\n", dirs[i].path,
				errors[i] == -ENOENT ? "the directory above it is missing"
						     : ask_error_text(errors[i]));
	}
	return TOOL_RUN_FAILED;
}

static int choose_daemon(const struct run_options *options)
{
	struct rundir dirs[RUNDIR_CANDIDATES_MAX];
	size_t n = rundir_candidates(dirs);

	if (options->daemon == DAEMON_NONE)
		return TOOL_OK;
	if (n == 0) {
		tool_say("SHUNT_RUNTIME_DIR must be an absolute path of at most %zu bytes",
			 RUNDIR_PATH_MAX - 1);
		return TOOL_RUN_FAILED;
	}
	/* The first is the system's, or the one that was named. */
	for (size_t i = 0; i < n && (i == 0 || options->daemon == DAEMON_AUTO); i++) {
		if (serves(&dirs[i])) {
			tell(options, "using the daemon in", dirs[i].path);
			return TOOL_OK;
		}
	}
	if (options->daemon == DAEMON_AUTO)
		return own_daemon(options, dirs, n);
	tool_say("no daemon answers in %s: start shuntd there, or use --daemon auto", dirs[0].path);
	return TOOL_RUN_FAILED;
}

/* Put the library before whatever LD_PRELOAD holds; once, also when run within itself. */
static int set_preload(const struct run_options *options)
{
	const char *old = getenv("LD_PRELOAD");
	char path[PATH_MAX], *text = NULL;
	int rc = locate_part(PART_PRELOAD, path);

	if (rc < 0) {
		tool_say("the library to preload is missing: %s: %s", path, strerror(-rc));
		return TOOL_RUN_FAILED;
	}
	if (strpbrk(path, " :")) {
		tool_say("%s: the dynamic linker can't preload a path with a space or a colon: "
			 "build or install elsewhere",
			 path);
		return TOOL_RUN_FAILED;
	}
	tell(options, "preloading", path);
	if (old && strncmp(old, path, strlen(path)) == 0 && strchr(": ", old[strlen(path)]))
		return TOOL_OK; /* also behind the last character: strchr() finds the terminator */
	rc = asprintf(&text, "%s%s%s", path, old && *old ? ":" : "", old ? old : "");
	if (rc < 0 || setenv("LD_PRELOAD", text, 1)) {
		tool_say("out of memory");
		rc = -1;
	}
	free(text);
	return rc < 0 ? TOOL_RUN_FAILED : TOOL_OK;
}

int cmd_run(int argc, char **argv)
{
	struct run_options options = {.daemon = DAEMON_AUTO};
	int rc = parse(argc, argv, &options);

	if (rc != TOOL_GO_ON)
		return rc;
	rc = set_preload(&options);
	if (rc == TOOL_OK)
		rc = choose_daemon(&options);
	if (rc != TOOL_OK)
		return rc;
	execvp(argv[optind], argv + optind);
	rc = errno;
	tool_say("can't run %s: %s", argv[optind], strerror(rc));
	return rc == ENOENT ? TOOL_RUN_NO_COMMAND : TOOL_RUN_CANNOT_EXEC;
}

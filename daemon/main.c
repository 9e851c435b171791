/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "config.h"
#include "events.h"
#include "links.h"
#include "listen.h"
#include "manager.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/syswait.h"
#include "server.h"
#include "service.h"
#include "settings.h"

struct options {
	const char *config;
	const char *runtime_dir;
	uint32_t exit_idle_s;
};

/* What parse_options() decided. */
enum todo { TODO_SERVE, TODO_DONE, TODO_USAGE };

static const char help[] =
	"Usage: shuntd [OPTION]…\n"
	"Pair the two ends of TCP connections and give them shared-memory lanes.\n"
	"\n"
	"  --config FILE        read settings from FILE (else $SHUNT_CONF, else " SHUNT_CONF_PATH
	")\n"
	"  --check-config FILE  say whether FILE is good, and end\n"
	"  --print-config       print a commented file with all settings, and end\n"
	"  --print-events       print the kinds of line in the journal: MESSAGE_ID, fields, and "
	"what\n"
	"                       each means, and end\n"
	"  --print-catalog      print the same as a catalog of systemd, and end\n"
	"  --runtime-dir DIR    be found in DIR (else $SHUNT_RUNTIME_DIR, else /run/shunt for "
	"root,\n"
	"                       $XDG_RUNTIME_DIR/shunt or /tmp/shunt-UID for others)\n"
	"  --exit-idle SECONDS  end when there has been no client for so long\n"
	"  --foreground         stay in the foreground (it always does)\n"
	"  --help               print this, and end\n"
	"  --version            print the version, and end\n";

static int check_config(const char *path)
{
	struct conf_error error;
	struct conf conf;

	conf_init(&conf);
	if (conf_load(&conf, path, &error)) {
		fprintf(stderr, "%s\n", error.text);
		return EXIT_FAILURE;
	}
	printf("%s: good\n", path);
	return EXIT_SUCCESS;
}

static bool parse_seconds(const char *text, uint32_t *ret_seconds)
{
	char *rest;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &rest, 10);
	if (errno || *rest || rest == text || text[0] == '-' || value == 0 || value > 86400)
		return false;
	*ret_seconds = (uint32_t)value;
	return true;
}

static enum todo parse_options(int argc, char **argv, struct options *options, int *ret_code)
{
	static const struct option longs[] = {
		{"config", required_argument, NULL, 'c'},
		{"check-config", required_argument, NULL, 'k'},
		{"print-config", no_argument, NULL, 'p'},
		{"print-events", no_argument, NULL, 'e'},
		{"print-catalog", no_argument, NULL, 'g'},
		{"runtime-dir", required_argument, NULL, 'r'},
		{"exit-idle", required_argument, NULL, 'i'},
		{"foreground", no_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	*ret_code = EXIT_SUCCESS;
	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 'c':
			options->config = optarg;
			break;
		case 'k':
			*ret_code = check_config(optarg);
			return TODO_DONE;
		case 'p':
			conf_print_sample(stdout);
			return TODO_DONE;
		case 'e':
			events_print(stdout);
			return TODO_DONE;
		case 'g':
			events_print_catalog(stdout);
			return TODO_DONE;
		case 'r':
			options->runtime_dir = optarg;
			break;
		case 'i':
			if (!parse_seconds(optarg, &options->exit_idle_s)) {
				fprintf(stderr,
					"shuntd: --exit-idle needs seconds from 1 to 86400, "
					"not \"%s\"\n",
					optarg);
				return TODO_USAGE;
			}
			break;
		case 'f':
			break;
		case 'h':
			fputs(help, stdout);
			return TODO_DONE;
		case 'v':
			puts("shuntd " SHUNT_VERSION);
			return TODO_DONE;
		default:
			return TODO_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "shuntd: it takes no arguments, but got \"%s\"\n", argv[optind]);
		return TODO_USAGE;
	}
	return TODO_SERVE;
}

/* Run until something ends the loop. @passed: what the service manager has passed. */
static int serve(struct server *server, struct place *place, const struct options *options,
		 struct manager_fds *passed)
{
	struct service service;
	sigset_t set;
	int rc, fd;

	service_block_signals(&set);
	fd = passed->listener >= 0 ? TAKE(passed->listener, -1)
				   : place_listen(place, server->serve_all);
	if (fd < 0) {
		log_error("no socket in %s: %s", place->dir.path, strerror(-fd));
		return EXIT_FAILURE;
	}
	rc = server_init(server, fd, options->exit_idle_s);
	if (rc < 0) {
		fd_close(fd);
		log_error("can't start: %s", strerror(-rc));
		return EXIT_FAILURE;
	}
	links_restore(server->links, passed);
	rc = service_start(&service, server, options->config, &set);
	if (rc == 0) {
		event_log(DAEMON_READY,
			  LOG_FACTS(LOG_TEXT("SHUNT_VERSION", SHUNT_VERSION),
				    LOG_TEXT("SHUNT_RUNTIME_DIR", place->dir.path)),
			  "serving %s from %s", server->serve_all ? "all users" : "this user",
			  place->dir.path);
		rc = loop_run(&server->loop);
		service_stop(&service);
	}
	if (rc < 0)
		log_error("the event loop failed: %s", strerror(-rc));
	server_deinit(server);
	return rc < 0 ? EXIT_FAILURE : rc;
}

/* A daemon that all find is for all, whoever it runs as. */
static bool serves_all(const struct conf *conf, const struct place *place)
{
	return conf->users == CONF_USERS_ALL ||
	       (conf->users == CONF_USERS_AUTO &&
		(sys_geteuid() == 0 || place->dir.kind == RUNDIR_SYSTEM));
}

static int start(const struct options *options)
{
	static struct server server;
	struct manager_fds passed = {.listener = -1};
	struct place place;
	int rc, pid = 0;

	if (!settings_load(&server.conf, options->config))
		return EXIT_FAILURE;
	settings_apply_log(&server.conf);
	if (place_choose(&place, options->runtime_dir) < 0) {
		log_error("the runtime directory must be an absolute path of at most %zu bytes",
			  RUNDIR_PATH_MAX - 1);
		return EXIT_FAILURE;
	}
	server.serve_all = serves_all(&server.conf, &place);
	rc = place_lock(&place, &pid);
	if (rc == PLACE_TAKEN)
		log_error("another shuntd (pid %d) serves %s already", pid, place.dir.path);
	else if (rc < 0)
		log_error("%s can't be used as runtime directory: %s", place.dir.path,
			  strerror(-rc));
	if (rc == 0)
		rc = manager_take(&passed);
	if (rc < 0)
		log_error("what the service manager passes is of no use: %s", strerror(-rc));
	rc = rc ? EXIT_FAILURE : serve(&server, &place, options, &passed);
	manager_fds_close(&passed);
	place_leave(&place);
	return rc;
}

int main(int argc, char **argv)
{
	struct options options = {0};
	int code;

	log_init("shuntd");
	events_init();
	switch (parse_options(argc, argv, &options, &code)) {
	case TODO_SERVE:
		return start(&options);
	case TODO_DONE:
		return code;
	default:
		fputs("Try: shuntd --help\n", stderr);
		return 2;
	}
}

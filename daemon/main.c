/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "base/util.h"
#include "config.h"
#include "listen.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/syswait.h"
#include "server.h"

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

/* Only the default file may be missing. */
static bool load_config(struct conf *conf, const char *path)
{
	struct conf_error error;
	bool is_default;
	int rc;

	conf_init(conf);
	if (!path)
		path = secure_getenv("SHUNT_CONF");
	is_default = !path;
	rc = conf_load(conf, is_default ? SHUNT_CONF_PATH : path, &error);
	if (rc == 0 || (rc == -ENOENT && is_default))
		return true;
	log_error("%s", error.text);
	return false;
}

static void set_log_level(const struct conf *conf)
{
	static const enum log_level levels[] = {LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO,
						LOG_LEVEL_DEBUG};

	log_set_level(levels[conf->log_level]);
}

static void tell_systemd(const char *state)
{
#ifdef HAVE_SYSTEMD
	sd_notify(0, state);
#else
	(void)state;
#endif
}

struct signals {
	struct source source;
	struct server *server;
};

static void on_signal(struct source *source, uint32_t events)
{
	struct signals *signals = container_of(source, struct signals, source);
	struct signalfd_siginfo info;

	(void)events;
	if (sys_read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		log_notice("settings are read at the start only: restart to change them");
		return;
	}
	log_info("signal %u: the daemon ends; lanes within this host go on, those to other hosts "
		 "go back to TCP",
		 info.ssi_signo);
	tell_systemd("STOPPING=1");
	server_end(signals->server);
}

/* Before the socket exists: whoever has seen it may end us, in order. */
static void block_signals(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGHUP);
	sigprocmask(SIG_BLOCK, ret_set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int watch_signals(struct signals *signals, struct server *server, const sigset_t *set)
{
	int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	signals->server = server;
	return loop_add(&server->loop, &signals->source, fd, EPOLLIN, on_signal);
}

static int serve(struct server *server, struct place *place, uint32_t exit_idle_s)
{
	struct signals signals;
	sigset_t set;
	int rc, fd;

	block_signals(&set);
	fd = place_listen(place, server->serve_all);
	if (fd < 0) {
		log_error("no socket in %s: %s", place->dir.path, strerror(-fd));
		return EXIT_FAILURE;
	}
	rc = server_init(server, fd, exit_idle_s);
	if (rc < 0) {
		fd_close(fd);
		log_error("can't start: %s", strerror(-rc));
		return EXIT_FAILURE;
	}
	rc = watch_signals(&signals, server, &set);
	if (rc == 0) {
		log_info("serving %s from %s", server->serve_all ? "all users" : "this user",
			 place->dir.path);
		tell_systemd("READY=1\nSTATUS=Pairing connections");
		rc = loop_run(&server->loop);
		loop_remove(&signals.source);
		fd_close(signals.source.fd);
	}
	if (rc < 0)
		log_error("the event loop failed: %s", strerror(-rc));
	server_deinit(server);
	return rc < 0 ? EXIT_FAILURE : rc;
}

static int start(const struct options *options)
{
	static struct server server;
	struct place place;
	int rc, pid = 0;

	if (!load_config(&server.conf, options->config))
		return EXIT_FAILURE;
	set_log_level(&server.conf);
	server.serve_all = server.conf.users == CONF_USERS_ALL ||
			   (server.conf.users == CONF_USERS_AUTO && sys_geteuid() == 0);
	if (place_choose(&place, options->runtime_dir) < 0) {
		log_error("the runtime directory must be an absolute path of at most %zu bytes",
			  RUNDIR_PATH_MAX - 1);
		return EXIT_FAILURE;
	}
	rc = place_lock(&place, &pid);
	if (rc == PLACE_TAKEN)
		log_error("another shuntd (pid %d) serves %s already", pid, place.dir.path);
	else if (rc < 0)
		log_error("%s can't be used as runtime directory: %s", place.dir.path,
			  strerror(-rc));
	rc = rc ? EXIT_FAILURE : serve(&server, &place, options->exit_idle_s);
	place_leave(&place);
	return rc;
}

int main(int argc, char **argv)
{
	struct options options = {0};
	int code;

	log_init("shuntd");
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

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "capture.h"
#include "check.h"
#include "config_key.h"
#include "debug_items.h"
#include "launch.h"
#include "library.h"
#include "locate.h"
#include "rule_conf.h"

/* Longest time that a command may take. Chosen: a journal of a day is searched within it. */
#define COMMAND_MS 10000

/* Answers of the daemon. */
static const struct {
	const char *name, *why;
	enum ctl_query kind;
} answers[] = {
	{"status.json", "the daemon: version, age, sessions (shunt status)", CTL_QUERY_STATUS},
	{"ss.json", "connections and their lanes (shunt ss)", CTL_QUERY_SS},
	{"why.json", "the history of each connection (shunt why)", CTL_QUERY_WHY},
	{"stats.json", "totals since the daemon's start (shunt stats)", CTL_QUERY_STATS},
	{"links.json", "RDMA links and their counters (shunt links)", CTL_QUERY_LINKS},
	{"peers.json", "sessions with other daemons (shunt peers)", CTL_QUERY_PEERS},
	{"rules.json", "which connections are accelerated (shunt explain)", CTL_QUERY_RULES},
	{"devices.json", "RDMA devices, probe and pools (shunt devices)", CTL_QUERY_DEVICES},
};

/* Files of the kernel that say nothing of other programs' connections. */
static const struct {
	const char *name, *why, *path;
} files[] = {
	{"os-release.txt", "the distribution", "/etc/os-release"},
	{"kernel.txt", "the kernel and its compiler", "/proc/version"},
	{"modules.txt", "drivers that are loaded", "/proc/modules"},
	{"meminfo.txt", "memory, also locked and shared", "/proc/meminfo"},
	{"limits-here.txt", "limits of who called shunt debug", "/proc/self/limits"},
	{"net-dev.txt", "network devices: bytes, errors, drops", "/proc/net/dev"},
	{"net-snmp.txt", "TCP and IP counters", "/proc/net/snmp"},
	{"net-netstat.txt", "more TCP counters", "/proc/net/netstat"},
	{"net-sockstat.txt", "sockets and their memory", "/proc/net/sockstat"},
	{"net-sockstat6.txt", "the same for IPv6", "/proc/net/sockstat6"},
};

static const char *const sysctls[] = {
	"net/core/somaxconn",
	"net/core/rmem_max",
	"net/core/wmem_max",
	"net/core/busy_poll",
	"net/ipv4/tcp_rmem",
	"net/ipv4/tcp_wmem",
	"net/ipv4/tcp_mem",
	"net/ipv4/tcp_congestion_control",
	"net/ipv4/tcp_timestamps",
	"vm/max_map_count",
	"fs/file-max",
	"kernel/pid_max",
	"kernel/yama/ptrace_scope",
	"vm/overcommit_memory",
};

#define WORDS_MAX 12u

static const struct {
	const char *name, *why;
	const char *argv[WORDS_MAX];
} commands[] = {
	{"journal.txt",
	 "what the daemon logged in the last six hours",
	 {"journalctl", "--unit=shuntd.service", "--unit=shuntd.socket", "--since=-6h",
	  "--no-pager", "--output=short-precise", "--lines=20000"}},
	/* Chosen properties: others, Environment= for one, may hold secrets. */
	{"unit.txt",
	 "the service as systemd has it",
	 {"systemctl", "show", "shuntd.service", "--no-pager",
	  "--property=LoadState,ActiveState,SubState,Result,NRestarts,MainPID,StatusText,"
	  "FragmentPath,DropInPaths,LimitMEMLOCK,LimitNOFILE,MemoryCurrent,CPUUsageNSec,"
	  "ActiveEnterTimestamp,ExecMainStatus"}},
	{"links-net.txt",
	 "network devices: state, MTU, drivers' counters",
	 {"ip", "-s", "-d", "link"}},
	{"addresses.txt", "addresses of network devices", {"ip", "address"}},
	{"routes.txt",
	 "which way other hosts are reached",
	 {"ip", "route", "show", "table", "all"}},
	{"rdma-links.txt", "ports of RDMA devices, as the kernel has them", {"rdma", "-d", "link"}},
	{"rdma-resources.txt", "queue pairs and memory in use", {"rdma", "resource"}},
	{"device-nodes.txt",
	 "files of RDMA devices and their modes",
	 {"ls", "-la", "/dev/infiniband"}},
	{"cpu.txt", "processors", {"lscpu"}},
	{"packages.txt",
	 "versions of packages that matter",
	 {"dpkg-query", "--show", "shunt*", "libshunt*", "libibverbs1", "ibverbs-providers",
	  "librdmacm1", "rdma-core", "libgnutls30", "libc6", "systemd"}},
};

/* --- parts that are made here ----------------------------------------------------------------- */

static void add_versions(struct bundle *bundle, const struct check_context *context)
{
	char path[PATH_MAX], version[LIBRARY_VERSION_BYTES] = "";
	struct utsname host = {0};
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int rc = locate_part(PART_PRELOAD, path);

	if (!out) {
		bundle_miss(bundle, "versions.txt", "versions", "out of memory");
		return;
	}
	if (rc == 0)
		rc = library_version(path, version);
	uname(&host);
	fprintf(out, "tool      %s\nlibrary   %s, %s\n", SHUNT_VERSION, path,
		rc < 0 ? strerror(-rc) : version);
	fprintf(out, "daemon    %s, process %d, user %u, in %s\n",
		context->daemon.answers ? context->daemon.version : "none answers",
		context->daemon.pid, (unsigned int)context->daemon.daemon_uid,
		context->daemon.answers ? context->asker.dir.path : "-");
	fprintf(out, "kernel    %s %s %s %s\nuser      %u\n", host.sysname, host.release,
		host.version, host.machine, (unsigned int)geteuid());
#ifdef HAVE_RDMA
	fputs("built     with RDMA", out);
#else
	fputs("built     without RDMA", out);
#endif
#ifdef HAVE_PEERS
	fputs(", with GnuTLS\n", out);
#else
	fputs(", without GnuTLS\n", out);
#endif
	fclose(out);
	bundle_add(bundle, "versions.txt", "tool, library, daemon and kernel", text, strlen(text));
}

static void print_key(FILE *out, struct conf *conf, struct conf *defaults, const struct key *key)
{
	if (conf_key_is_text(key)) {
		const char *value = (const char *)conf + key->offset;

		fprintf(out, "%-28s \"%s\"\n", key->name, value);
		return;
	}
	if (key->kind == KEY_WORD)
		fprintf(out, "%-28s %s", key->name, key->words[*conf_key_value(conf, key)]);
	else
		fprintf(out, "%-28s %" PRIu64, key->name, *conf_key_value(conf, key));
	fputs(*conf_key_value(conf, key) == *conf_key_value(defaults, key) ? "\n"
									   : "    (changed)\n",
	      out);
}

/* What was understood of the file, never the file: it may have anything in it. */
static void add_settings(struct bundle *bundle, struct check_context *context)
{
	static struct conf defaults;
	const struct peer_conf *peers = &context->conf.peers;
	AUTO_FREE char *text = NULL;
	const struct key *key;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out) {
		bundle_miss(bundle, "settings.txt", "settings", "out of memory");
		return;
	}
	conf_init(&defaults);
	fprintf(out, "file %s: %s\n\n", context->config.path,
		context->config.result == 0  ? "good"
		: context->config.result < 0 ? strerror(-context->config.result)
					     : "wrong; the defaults follow");
	for (size_t i = 0; (key = conf_key_at(i)) != NULL; i++)
		print_key(out, &context->conf, &defaults, key);
	for (uint32_t i = 0; i < context->conf.rules.n; i++) {
		char rule[RULE_TEXT_BYTES];

		fprintf(out, "rule %u: %s\n", i + 1,
			rule_text(&context->conf.rules.rules[i], rule));
	}
	for (uint32_t i = 0; i < peers->n; i++) {
		const struct peer_rule *rule = &peers->rules[i];
		char address[PEER_ADDRESS_TEXT];

		fprintf(out, "peer %u, port %u, key \"%s\":", i, rule->port, rule->key);
		for (uint32_t a = 0; a < rule->n_addresses; a++)
			fprintf(out, " %s", peer_address_text(&rule->addresses[a], address));
		fputs("; RDMA:", out);
		for (uint32_t a = 0; a < rule->n_rdma; a++)
			fprintf(out, " %s", peer_address_text(&rule->rdma[a], address));
		fputc('\n', out);
	}
	fclose(out);
	bundle_add(bundle, "settings.txt", "settings that hold, paths of keys but not the keys",
		   text, strlen(text));
}

static void add_check(struct bundle *bundle)
{
	static struct check_context context;
	struct check_report report = {0};
	AUTO_FREE char *text = NULL;
	json_t *json;

	check_run(&context, &report);
	json = check_json(&report);
	text = json_dumps(json, JSON_INDENT(1));
	json_decref(json);
	check_report_deinit(&report);
	if (text)
		bundle_add(bundle, "check.json", "what is amiss on this host (shunt check)", text,
			   strlen(text));
	else
		bundle_miss(bundle, "check.json", "shunt check", "out of memory");
}

static void add_sysctls(struct bundle *bundle)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	for (size_t i = 0; out && i < ARRAY_SIZE(sysctls); i++) {
		struct capture capture;
		char path[128];

		snprintf(path, sizeof(path), "/proc/sys/%s", sysctls[i]);
		if (capture_file(path, &capture) < 0) {
			fprintf(out, "%s: not there\n", sysctls[i]);
			continue;
		}
		fprintf(out, "%s: %s", sysctls[i], capture.text);
		free(capture.text);
	}
	if (out && fclose(out) == 0)
		bundle_add(bundle, "sysctl.txt", "settings of the kernel that matter", text,
			   strlen(text));
	else
		bundle_miss(bundle, "sysctl.txt", "settings of the kernel", "out of memory");
}

/* --- parts that others make ------------------------------------------------------------------- */

static void add_answers(struct bundle *bundle, struct check_context *context)
{
	bool hangs = false;

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		const struct ctl_query_msg query = {answers[i].kind, -1, -1};
		AUTO_FREE char *text = NULL;
		int rc = -ETIMEDOUT;

		if (!context->daemon.answers) {
			bundle_miss(bundle, answers[i].name, answers[i].why, "no daemon answers");
			continue;
		}
		/* One that has not answered once won't do so six times. */
		if (!hangs)
			rc = ask_query(&context->asker, &query, &text);
		hangs = hangs || rc == -ETIMEDOUT || rc == -ECONNRESET;
		if (rc == 0)
			bundle_add(bundle, answers[i].name, answers[i].why, text, strlen(text));
		else
			bundle_miss(bundle, answers[i].name, answers[i].why, "%s",
				    rc == -ESRCH ? "there is no connection" : strerror(-rc));
	}
}

static void add_capture(struct bundle *bundle, const char *name, const char *why,
			struct capture *capture)
{
	bundle_add(bundle, name, why, capture->text, capture->len);
	if (capture->is_cut)
		bundle_note(bundle, "only its end, it is long");
	else if (capture->status != 0)
		bundle_note(bundle, "the command ended with status %d", capture->status);
	free(capture->text);
}

static void add_file(struct bundle *bundle, const char *name, const char *why, const char *path)
{
	struct capture capture;
	int rc = capture_file(path, &capture);

	if (rc < 0)
		bundle_miss(bundle, name, why, "%s: %s", path, strerror(-rc));
	else
		add_capture(bundle, name, why, &capture);
}

static void add_command(struct bundle *bundle, size_t i)
{
	struct capture capture;
	int rc = capture_run(commands[i].argv, COMMAND_MS, &capture);

	if (rc == -ENOENT)
		bundle_miss(bundle, commands[i].name, commands[i].why,
			    "there is no command %s here", commands[i].argv[0]);
	else if (rc < 0)
		bundle_miss(bundle, commands[i].name, commands[i].why, "%s: %s",
			    commands[i].argv[0], strerror(-rc));
	else
		add_capture(bundle, commands[i].name, commands[i].why, &capture);
}

/* Of the daemon's process, and what a daemon of one's own logs. */
static void add_process(struct bundle *bundle, const struct check_context *context)
{
	static const struct {
		const char *name, *why, *file;
	} own[] = {{"limits-daemon.txt", "limits of the daemon", "limits"},
		   {"process-daemon.txt", "memory, threads and rights of the daemon", "status"}};
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", context->daemon.pid, own[i].file);
		if (context->daemon.answers)
			add_file(bundle, own[i].name, own[i].why, path);
		else
			bundle_miss(bundle, own[i].name, own[i].why, "no daemon answers");
	}
	/* A daemon that has died leaves its log where it was. In a folder that others may have made
	 * a log may be a link to anything. */
	for (size_t i = 0; i < context->daemon.n_places; i++) {
		if (context->daemon.places[i].dir_error)
			continue;
		snprintf(path, sizeof(path), "%s/" LAUNCH_LOG_NAME,
			 context->daemon.places[i].dir.path);
		if (access(path, R_OK) != 0)
			continue;
		add_file(bundle, "shuntd.log", "what a daemon that shunt run started has logged",
			 path);
		return;
	}
}

void debug_gather(struct bundle *bundle, const volatile sig_atomic_t *stopped)
{
	static struct check_context context;

	check_open(&context);
	add_versions(bundle, &context);
	add_settings(bundle, &context);
	add_answers(bundle, &context);
	add_process(bundle, &context);
	check_close(&context);
	if (!*stopped)
		add_check(bundle);
	add_sysctls(bundle);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		add_file(bundle, files[i].name, files[i].why, files[i].path);
	for (size_t i = 0; i < ARRAY_SIZE(commands) && !*stopped; i++)
		add_command(bundle, i);
}

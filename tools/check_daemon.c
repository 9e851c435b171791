/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "check.h"
#include "library.h"
#include "locate.h"
#include "os/fd.h"
#include "os/sys.h"
#include "tool.h"

#ifdef HAVE_PEERS
#include "tls.h"
#endif

/* Whom the unit of the package runs the daemon as. */
#define SERVICE_USER "shunt"

/* --- finding it ------------------------------------------------------------------------------- */

static void look_at_place(struct place_facts *place, struct asker *asker)
{
	char path[RUNDIR_PATH_MAX + RUNDIR_NAME_MAX];
	struct stat st;
	int fd = rundir_open(&place->dir);

	place->dir_error = fd < 0 ? fd : 0;
	fd_close(fd);
	if (sys_fstatat(AT_FDCWD, place->dir.path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		place->has_dir = true;
		place->dir_uid = st.st_uid;
		place->dir_mode = st.st_mode;
	}
	snprintf(path, sizeof(path), "%s/" ASK_SOCKET_NAME, place->dir.path);
	place->sock_error = sys_fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW);
	if (place->sock_error == 0) {
		place->sock_uid = st.st_uid;
		place->sock_mode = st.st_mode;
	}
	place->answer = ask_connect(&place->dir, asker, &place->reason);
}

static json_t *query(struct asker *asker, enum ctl_query kind)
{
	AUTO_FREE char *text = NULL;

	if (ask_query(asker, &(struct ctl_query_msg){kind, -1, -1}, &text) < 0)
		return NULL;
	return json_loads(text, 0, NULL);
}

static void ask_about_itself(struct check_context *context)
{
	struct daemon_facts *facts = &context->daemon;
	uint64_t uid = facts->uid;

	context->status = query(&context->asker, CTL_QUERY_STATUS);
	context->devices = query(&context->asker, CTL_QUERY_DEVICES);
	facts->pid = (int)answer_count(context->status, "pid");
	facts->serves_all = json_is_true(json_object_get(context->status, "all_users"));
	if (json_object_get(context->status, "version"))
		snprintf(facts->version, sizeof(facts->version), "%s",
			 answer_text(context->status, "version"));
	if (facts->pid > 0)
		check_status_of(facts->pid, "Uid:", 10, &uid);
	facts->daemon_uid = (uid_t)uid;
}

static void find_daemon(struct check_context *context)
{
	struct daemon_facts *facts = &context->daemon;
	struct rundir dirs[RUNDIR_CANDIDATES_MAX];

	facts->uid = geteuid();
	facts->n_places = rundir_candidates(dirs);
	for (size_t i = 0; i < facts->n_places && !facts->answers; i++) {
		facts->places[i].dir = dirs[i];
		look_at_place(&facts->places[i], &context->asker);
		facts->answers = facts->places[i].answer == 0;
	}
	if (facts->answers)
		ask_about_itself(context);
}

/* Whom the daemon runs as, or would be run as by its unit. */
static void find_service_user(struct check_context *context)
{
	const struct passwd *user = getpwnam(SERVICE_USER);
	uid_t uid = geteuid();

	if (context->daemon.answers)
		uid = context->daemon.daemon_uid;
	else if (uid == 0 && user)
		uid = user->pw_uid;
	context->service_uid = uid;
	user = getpwuid(uid);
	snprintf(context->service_user, sizeof(context->service_user), "%s",
		 user ? user->pw_name : "?");
}

/* --- settings --------------------------------------------------------------------------------- */

/* The value of --config on the daemon's command line. */
static bool config_of(int pid, char *path)
{
	char proc[48], line[2 * PATH_MAX];
	size_t n = 0;
	FILE *file;

	snprintf(proc, sizeof(proc), "/proc/%d/cmdline", pid);
	file = fopen(proc, "re");
	if (file) {
		n = fread(line, 1, sizeof(line) - 1, file);
		fclose(file);
	}
	line[n] = '\0';
	for (size_t at = 0; at < n; at += strlen(line + at) + 1) {
		const char *word = line + at, *value = NULL;

		if (strncmp(word, "--config=", 9) == 0)
			value = word + 9;
		else if (strcmp(word, "--config") == 0 && at + strlen(word) + 1 < n)
			value = word + strlen(word) + 1;
		if (!value || !*value)
			continue;
		if (*value == '/')
			snprintf(path, PATH_MAX, "%s", value);
		else
			snprintf(path, PATH_MAX, "/proc/%d/cwd/%s", pid, value);
		return true;
	}
	return false;
}

/* The file that the daemon reads, if one runs; else the one that it would read. */
static void read_settings(struct check_context *context)
{
	struct config_facts *facts = &context->config;
	const char *own = secure_getenv("SHUNT_CONF");
	struct conf_error error = {""};
	const int pid = context->daemon.pid;

	if (own) {
		snprintf(facts->path, sizeof(facts->path), "%s", own);
	} else if (!context->daemon.answers ||
		   (!config_of(pid, facts->path) &&
		    !check_env_of(pid, "SHUNT_CONF", facts->path, sizeof(facts->path)))) {
		facts->is_default = true;
		snprintf(facts->path, sizeof(facts->path), "%s", SHUNT_CONF_PATH);
	}
	conf_init(&context->conf);
	facts->result = conf_load(&context->conf, facts->path, &error);
	snprintf(facts->error, sizeof(facts->error), "%s", error.text);
}

void check_open(struct check_context *context)
{
	find_daemon(context);
	find_service_user(context);
	read_settings(context);
	/* Not the folder itself: the module alone makes it. */
	context->has_rdma = json_array_size(json_object_get(context->devices, "devices")) > 0;
	if (!context->has_rdma) {
		DIR *dir = opendir("/sys/class/infiniband");
		const struct dirent *entry;

		while (dir && (entry = readdir(dir)) != NULL)
			context->has_rdma = context->has_rdma || entry->d_name[0] != '.';
		if (dir)
			closedir(dir);
	}
}

void check_close(struct check_context *context)
{
	if (context->daemon.answers)
		ask_close(&context->asker);
	json_decref(context->status);
	json_decref(context->devices);
	context->status = context->devices = NULL;
}

void check_config(struct check_context *context, struct check_report *report)
{
	judge_config(report, &context->config);
}

void check_daemon(struct check_context *context, struct check_report *report)
{
	judge_daemon(report, &context->daemon);
}

/* --- versions --------------------------------------------------------------------------------- */

/* Whether everybody may read @path and go through the folders to it. */
static bool is_for_others(const char *path)
{
	char part[PATH_MAX];
	struct stat st;
	char *slash;

	snprintf(part, sizeof(part), "%s", path);
	if (sys_fstatat(AT_FDCWD, part, &st, 0) < 0 || !(st.st_mode & S_IROTH))
		return false;
	while ((slash = strrchr(part, '/')) != NULL && slash != part) {
		*slash = '\0';
		if (sys_fstatat(AT_FDCWD, part, &st, 0) < 0 || !(st.st_mode & S_IXOTH))
			return false;
	}
	return true;
}

void check_versions(struct check_context *context, struct check_report *report)
{
	struct library_facts facts = {.tool = SHUNT_VERSION, .daemon = context->daemon.version};

	facts.error = locate_part(PART_PRELOAD, facts.path);
	if (facts.error == 0)
		facts.error = library_version(facts.path, facts.version);
	facts.is_for_others = is_for_others(facts.path);
	judge_versions(report, &facts);
}

/* --- keys ------------------------------------------------------------------------------------- */

static void check_key(struct check_context *context, const char *setting, const char *path,
		      struct check_report *report)
{
	struct key_facts facts = {.setting = setting,
				  .is_credential = path[0] != '/',
				  .daemon_uid = context->service_uid,
				  .daemon = context->service_user};
	struct stat st = {0};

	snprintf(facts.path, sizeof(facts.path), "%s", path);
	if (!facts.is_credential) {
		facts.error = sys_fstatat(AT_FDCWD, path, &st, 0);
		facts.is_regular = S_ISREG(st.st_mode);
		facts.uid = st.st_uid;
		facts.mode = st.st_mode;
	}
#ifdef HAVE_PEERS
	/* As the daemon would; only the content is of interest then, and is forgotten at once. */
	if (!facts.is_credential && facts.error == 0 && strcmp(setting, "peer_cert_key") != 0) {
		struct tls_error error = {""};
		struct tls_key key;
		int rc = tls_key_load(path, &key, &error);

		if (rc == -EINVAL)
			snprintf(facts.wrong, sizeof(facts.wrong), "%s", error.text);
		tls_key_forget(&key);
	}
#endif
	judge_key(report, &facts);
}

void check_keys(struct check_context *context, struct check_report *report)
{
	const struct conf *conf = &context->conf;
	const size_t before = report->n;

	if (conf->peer_sessions == CONF_PEERS_OFF) {
		check_say(report, CHECK_PASS, "",
			  "peer_sessions is off: no other daemon is talked to");
		return;
	}
	if (conf->peer_key[0])
		check_key(context, "peer_key", conf->peer_key, report);
	if (conf->peer_cert_key[0])
		check_key(context, "peer_cert_key", conf->peer_cert_key, report);
	for (uint32_t i = 0; i < conf->peers.n; i++) {
		const struct peer_rule *rule = &conf->peers.rules[i];
		char setting[96], address[PEER_ADDRESS_TEXT];

		if (!rule->key[0])
			continue;
		snprintf(setting, sizeof(setting), "key of peer %s",
			 peer_address_text(&rule->addresses[0], address));
		check_key(context, setting, rule->key, report);
	}
	if (report->n > before)
		return;
	if (conf->peers.n > 0) {
		check_say(report, CHECK_WARN, "",
			  "no key: whoever calls from a listed address is taken for its daemon");
		check_remedy(report, "peer_key in shunt.conf on all hosts: openssl rand -hex 32 > "
				     "/etc/shunt/peer.key; chmod 0600 /etc/shunt/peer.key");
		return;
	}
	check_say(report, context->has_rdma ? CHECK_WARN : CHECK_PASS, "",
		  "no key and no peers: connections to other hosts stay on TCP");
	if (context->has_rdma)
		check_remedy(report,
			     "peer_key in shunt.conf on all hosts: openssl rand -hex 32 > "
			     "/etc/shunt/peer.key; chmod 0600 /etc/shunt/peer.key; chown %s "
			     "/etc/shunt/peer.key",
			     context->service_user);
}

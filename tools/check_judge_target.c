/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "check_judge.h"

/* Why the library is not in the program. */
static void judge_missing(struct check_report *report, const struct target_facts *facts,
			  const char *subject)
{
	if (facts->is_static) {
		check_say(report, CHECK_FAIL, subject,
			  "is statically linked: no library can be put into it, it stays on TCP");
		check_remedy(report, "use a dynamically linked build (for Go: one that uses cgo's "
				     "sockets does not exist; link libshunt where you can)");
	} else if (facts->is_secure) {
		check_say(report, CHECK_FAIL, subject,
			  "started set-uid, set-gid or with file capabilities: the linker ignores "
			  "LD_PRELOAD");
		check_remedy(report, "start it as the user that it becomes, with "
				     "AmbientCapabilities= of its unit for what it needs");
	} else if (facts->asked_for_library) {
		check_say(report, CHECK_FAIL, subject,
			  "has the library in LD_PRELOAD, but not in memory: it can't read or load "
			  "it");
		check_remedy(report, "chmod 755 the library and its folders; in a container, mount "
				     "it in; its standard error has the linker's message");
	} else {
		check_say(report, CHECK_FAIL, subject, "was started without Shunt");
		check_remedy(report,
			     "shunt run COMMAND, or shunt enable UNIT and systemctl restart "
			     "UNIT");
	}
}

static void judge_spaces(struct check_report *report, const struct target_facts *facts,
			 const char *subject)
{
	if (facts->other_net) {
		check_say(report, CHECK_FAIL, subject,
			  "is in another network namespace than the daemon, which serves its own "
			  "only");
		check_remedy(report,
			     "run a shuntd in that namespace: nsenter -t %d -n shuntd "
			     "--runtime-dir DIR, and SHUNT_RUNTIME_DIR=DIR for the program",
			     facts->pid);
	}
	if (facts->daemon_dir && !facts->sees_socket) {
		check_say(report, CHECK_FAIL, subject, "does not see %s%s", facts->daemon_dir,
			  facts->other_mnt ? ": it is in another mount namespace" : "");
		check_remedy(report, "BindPaths=%s in its unit; docker run -v %s:%s",
			     facts->daemon_dir, facts->daemon_dir, facts->daemon_dir);
	}
	if (facts->other_pid || facts->other_user) {
		check_say(report, CHECK_WARN, subject,
			  "is in another %s%s%s namespace: the daemon may not know who it is",
			  facts->other_pid ? "pid" : "",
			  facts->other_pid && facts->other_user ? " and " : "",
			  facts->other_user ? "user" : "");
		check_remedy(report, "run a shuntd of its own in the same namespaces");
	}
}

static void judge_daemon_of(struct check_report *report, const struct target_facts *facts,
			    const char *subject)
{
	if (facts->runtime_dir[0] && facts->daemon_dir &&
	    strcmp(facts->runtime_dir, facts->daemon_dir) != 0) {
		check_say(report, CHECK_WARN, subject,
			  "looks for its daemon in %s only, and the one that answers here is in %s",
			  facts->runtime_dir, facts->daemon_dir);
		check_remedy(report,
			     "unset SHUNT_RUNTIME_DIR for it, or run shunt with "
			     "SHUNT_RUNTIME_DIR=%s",
			     facts->runtime_dir);
	}
	if (facts->is_own_daemon && facts->uid != facts->daemon_uid) {
		check_say(report, CHECK_FAIL, subject,
			  "runs as user %u, and the daemon serves user %u only",
			  (unsigned int)facts->uid, (unsigned int)facts->daemon_uid);
		check_remedy(report, "users = \"all\" in shunt.conf, or a daemon of that user");
	}
}

void judge_target(struct check_report *report, const struct target_facts *facts)
{
	char subject[64];

	snprintf(subject, sizeof(subject), "%d (%s)", facts->pid,
		 facts->exists ? facts->comm : "?");
	if (!facts->exists) {
		check_say(report, CHECK_FAIL, subject, "there is no such process");
		check_remedy(report, "pgrep -a NAME finds it");
		return;
	}
	if (facts->maps_error) {
		check_say(report, CHECK_WARN, subject, "is not for us to look into: %s",
			  strerror(-facts->maps_error));
		check_remedy(report, "sudo shunt check --pid %d", facts->pid);
		return;
	}
	if (!facts->has_library) {
		judge_missing(report, facts, subject);
	} else if (strcmp(facts->library_version, facts->version) != 0) {
		check_say(report, CHECK_WARN, subject, "has the library of version %s in it (%s)",
			  facts->library_version[0] ? facts->library_version : "unknown",
			  facts->library);
		check_remedy(report, "restart it after an upgrade; this tool is of version %s",
			     facts->version);
	} else {
		check_say(report, CHECK_PASS, subject, "has the library in it (%s)",
			  facts->library);
	}
	judge_spaces(report, facts, subject);
	judge_daemon_of(report, facts, subject);
	if (facts->has_filter && facts->has_library && !facts->is_promoted) {
		check_say(report, CHECK_WARN, subject,
			  "has a seccomp filter, and no connection of it has had a lane yet");
		check_remedy(report,
			     "SystemCallFilter=@system-service lets through what the library "
			     "needs; shunt why %d tells of each connection",
			     facts->pid);
	}
}

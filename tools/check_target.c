/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <errno.h>
#include <limits.h>
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
#include "os/fd.h"
#include "os/proc.h"
#include "os/sys.h"
#include "target.h"
#include "tool.h"

#define AUXV_MAX 64u
#define SEGMENTS_MAX 128u

/* The library in the memory map; its path as the program sees it. */
static void read_maps(struct target_facts *facts)
{
	char path[32], line[PATH_MAX + 128];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", facts->pid);
	maps = fopen(path, "re");
	if (!maps) {
		facts->maps_error = -errno;
		return;
	}
	while (!facts->has_library && fgets(line, sizeof(line), maps)) {
		const char *name = strchr(line, '/');

		if (!name || !strstr(name, TARGET_LIBRARY))
			continue;
		facts->has_library = true;
		snprintf(facts->library, sizeof(facts->library), "%.*s", (int)strcspn(name, "\n"),
			 name);
	}
	if (ferror(maps))
		facts->maps_error = -EACCES;
	fclose(maps);
}

/* Whether the program asks for a dynamic linker. */
static bool is_static(int pid)
{
	char path[32];
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	AUTO_FD int fd = -1;
	struct iovec part = {&head, sizeof(head)};

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0 || sys_preadv2(fd, &part, 1, 0, 0) != (ssize_t)sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	part = (struct iovec){&segment, sizeof(segment)};
	for (unsigned int i = 0; i < head.e_phnum && i < SEGMENTS_MAX; i++) {
		off_t at = (off_t)(head.e_phoff + i * sizeof(segment));

		if (sys_preadv2(fd, &part, 1, at, 0) != (ssize_t)sizeof(segment))
			return false;
		if (segment.p_type == PT_INTERP)
			return false;
	}
	return true;
}

static bool is_secure(int pid)
{
	unsigned long pairs[2 * AUXV_MAX];
	char path[32];
	AUTO_FD int fd = -1;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	len = fd < 0 ? -1 : sys_read(fd, pairs, sizeof(pairs));
	for (ssize_t i = 0; (i + 2) * (ssize_t)sizeof(pairs[0]) <= len; i += 2) {
		if (pairs[i] == AT_SECURE)
			return pairs[i + 1] != 0;
	}
	return false;
}

/* Whether @pid is in another namespace @name than @other; false when that can't be told. */
static bool differs(int pid, int other, const char *name)
{
	char paths[2][48];
	struct stat st[2];

	snprintf(paths[0], sizeof(paths[0]), "/proc/%d/ns/%s", pid, name);
	snprintf(paths[1], sizeof(paths[1]), "/proc/%d/ns/%s", other, name);
	return sys_fstatat(AT_FDCWD, paths[0], &st[0], 0) == 0 &&
	       sys_fstatat(AT_FDCWD, paths[1], &st[1], 0) == 0 && st[0].st_ino != st[1].st_ino;
}

/* The daemon's namespaces if it runs and we may see them, else ours: the daemon of a host is in
 * the host's. */
static void compare_spaces(const struct check_context *context, struct target_facts *facts)
{
	int other = (int)getpid();
	char probe[48];
	struct stat st;

	snprintf(probe, sizeof(probe), "/proc/%d/ns/net", context->daemon.pid);
	if (context->daemon.answers && sys_fstatat(AT_FDCWD, probe, &st, 0) == 0)
		other = context->daemon.pid;
	facts->other_net = differs(facts->pid, other, "net");
	facts->other_user = differs(facts->pid, other, "user");
	facts->other_pid = differs(facts->pid, other, "pid");
	/* A service with a view of its own of the file system is the rule, not the exception. */
	facts->other_mnt = differs(facts->pid, (int)getpid(), "mnt");
}

static bool sees_socket(const struct target_facts *facts)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/root%s/" ASK_SOCKET_NAME, facts->pid,
		 facts->daemon_dir);
	/* What we may not look at is taken as seen. */
	return sys_fstatat(AT_FDCWD, path, &st, 0) != -ENOENT;
}

static bool is_promoted(struct check_context *context, int pid)
{
	AUTO_FREE char *text = NULL;
	const json_t *connection;
	json_t *json;
	bool found = false;
	size_t i;

	if (!context->daemon.answers ||
	    ask_query(&context->asker, &(struct ctl_query_msg){CTL_QUERY_SS, pid, -1}, &text) < 0)
		return false;
	json = json_loads(text, 0, NULL);
	json_array_foreach(json_object_get(json, "connections"), i, connection) found =
		found || answer_count(connection, "epoch") > 0;
	json_decref(json);
	return found;
}

static void look_at(struct check_context *context, struct target_facts *facts)
{
	char path[PATH_MAX], preload[PATH_MAX];
	uint64_t value = 0;

	read_maps(facts);
	if (facts->maps_error)
		return;
	if (facts->has_library) {
		snprintf(path, sizeof(path), "/proc/%d/root%.4000s", facts->pid, facts->library);
		library_version(path, facts->library_version);
	}
	facts->asked_for_library =
		check_env_of(facts->pid, "LD_PRELOAD", preload, sizeof(preload)) &&
		strstr(preload, &TARGET_LIBRARY[1]);
	check_env_of(facts->pid, "SHUNT_RUNTIME_DIR", facts->runtime_dir,
		     sizeof(facts->runtime_dir));
	facts->is_static = is_static(facts->pid);
	facts->is_secure = is_secure(facts->pid);
	if (check_status_of(facts->pid, "Seccomp:", 10, &value))
		facts->has_filter = value == 2;
	value = context->daemon.uid;
	check_status_of(facts->pid, "Uid:", 10, &value);
	facts->uid = (uid_t)value;
	facts->is_promoted = is_promoted(context, facts->pid);
	compare_spaces(context, facts);
	if (facts->daemon_dir)
		facts->sees_socket = sees_socket(facts);
}

/* A thread of the kernel, or a process that is dead and not waited for, has no program. */
static bool has_program(int pid)
{
	char path[32], program[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return readlink(path, program, sizeof(program)) >= 0 || errno != ENOENT;
}

void check_target(struct check_context *context, struct check_report *report)
{
	struct target_facts facts = {
		.pid = context->pid,
		.version = SHUNT_VERSION,
		.is_own_daemon = context->daemon.answers && !context->daemon.serves_all,
		.daemon_uid = context->daemon.daemon_uid,
		.daemon_dir = context->daemon.answers ? context->asker.dir.path : NULL,
	};
	char comm[PROC_COMM_BYTES];

	facts.exists = proc_comm(facts.pid, comm) == 0 && has_program(facts.pid);
	if (facts.exists) {
		snprintf(facts.comm, sizeof(facts.comm), "%s", comm);
		look_at(context, &facts);
	}
	judge_target(report, &facts);
}

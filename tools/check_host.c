/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/util.h"
#include "capture.h"
#include "check.h"
#include "os/fd.h"
#include "os/memfd.h"
#include "os/sys.h"
#include "os/tcp.h"

#define ENV_BYTES (1u << 20)

/* Chosen: systemd answers in milliseconds. */
#define SYSTEMCTL_MS 3000

bool check_status_of(int pid, const char *field, int base, uint64_t *ret_value)
{
	char path[48], line[256];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		found = strncmp(line, field, strlen(field)) == 0;
		if (found)
			*ret_value = strtoull(line + strlen(field), NULL, base);
	}
	if (file)
		fclose(file);
	return found;
}

bool check_env_of(int pid, const char *name, char *ret_value, size_t size)
{
	const size_t len = strlen(name);
	char path[48], *all = malloc(ENV_BYTES + 1);
	bool found = false;
	size_t n = 0;
	FILE *file;

	ret_value[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	file = all ? fopen(path, "re") : NULL;
	if (file) {
		n = fread(all, 1, ENV_BYTES, file);
		fclose(file);
	}
	for (size_t at = 0; at < n && !found; at += strlen(all + at) + 1) {
		all[n] = '\0';
		found = strncmp(all + at, name, len) == 0 && all[at + len] == '=';
		if (found)
			snprintf(ret_value, size, "%s", all + at + len + 1);
	}
	free(all);
	return found;
}

/* --- the kernel ------------------------------------------------------------------------------- */

static int try_seals(void)
{
	AUTO_FD int fd = memfd_make("shunt-check", (uint64_t)sysconf(_SC_PAGESIZE));

	if (fd < 0)
		return TAKE(fd, -1);
	return memfd_seal_writers(fd);
}

static int try_pidfd(void)
{
	AUTO_FD int fd = sys_pidfd_open(getpid(), 0);

	return fd < 0 ? TAKE(fd, -1) : 0;
}

static int try_cookie(int name)
{
	AUTO_FD int fd = sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t value;
	socklen_t len = sizeof(value);

	if (fd < 0)
		return TAKE(fd, -1);
	return sys_getsockopt(fd, SOL_SOCKET, name, &value, &len);
}

static int try_pwait2(void)
{
	AUTO_FD int fd = epoll_create1(EPOLL_CLOEXEC);
	const struct timespec now = {0, 0};
	struct epoll_event event;

	if (fd < 0)
		return -errno;
	return epoll_pwait2(fd, &event, 1, &now, NULL) < 0 ? -errno : 0;
}

static int try_seqpacket(void)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	fd_close(fds[0]);
	fd_close(fds[1]);
	return 0;
}

void check_kernel(struct check_context *context, struct check_report *report)
{
	const struct kernel_need needs[] = {
		{"memory files that can be sealed against writers", "Linux 5.1", try_seals()},
		{"pidfd_open(2)", "Linux 5.3", try_pidfd()},
		{"epoll_pwait2(2)", "Linux 5.11", try_pwait2()},
		{"SO_COOKIE", "Linux 4.6", try_cookie(SO_COOKIE)},
		{"SO_NETNS_COOKIE", "Linux 5.14", try_cookie(SO_NETNS_COOKIE)},
		{"unix sockets of type SOCK_SEQPACKET", "every Linux", try_seqpacket()},
	};
	const json_t *holds = json_object_get(context->status, "tcp_rule_holds");
	struct kernel_facts facts = {
		.needs = needs,
		.n_needs = ARRAY_SIZE(needs),
		.rule = tcp_rule_selfcheck(),
		.daemon_rule = json_is_boolean(holds) ? json_is_true(holds) : -1,
	};
	struct utsname name;

	if (uname(&name) == 0)
		snprintf(facts.release, sizeof(facts.release), "%s", name.release);
	judge_kernel(report, &facts);
}

/* --- limits ----------------------------------------------------------------------------------- */

static uint64_t parse_limit(const char *text)
{
	return strncmp(text, "unlimited", 9) == 0 || strncmp(text, "infinity", 8) == 0
		       ? UINT64_MAX
		       : strtoull(text, NULL, 10);
}

static uint64_t limit_of(int pid, enum __rlimit_resource resource)
{
	struct rlimit limit;
	char path[48], line[256];
	const char *name = resource == RLIMIT_MEMLOCK ? "Max locked memory" : "Max open files";
	uint64_t value = 0;
	FILE *file;

	if (pid == 0)
		return getrlimit(resource, &limit) < 0	 ? 0
		       : limit.rlim_max == RLIM_INFINITY ? UINT64_MAX
							 : limit.rlim_max;
	/* Not prlimit(2): it asks for rights over the process. The second figure is the hard one.
	 */
	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		char hard[32];

		if (strncmp(line, name, strlen(name)) != 0 ||
		    sscanf(line + strlen(name), " %*s %31s", hard) != 1)
			continue;
		value = parse_limit(hard);
	}
	if (file)
		fclose(file);
	return value;
}

/* What systemd would give the daemon. False: there is no such unit, or no systemd. */
static bool limits_of_unit(struct limit_facts *facts, char whose[64])
{
	static const char *const argv[] = {"systemctl",
					   "show",
					   "shuntd.service",
					   "--no-pager",
					   "--property=LoadState,LimitMEMLOCK,LimitNOFILE",
					   NULL};
	struct capture capture;
	const char *memlock, *nofile;
	bool is_loaded;

	if (capture_run(argv, SYSTEMCTL_MS, &capture) < 0)
		return false;
	memlock = strstr(capture.text, "LimitMEMLOCK=");
	nofile = strstr(capture.text, "LimitNOFILE=");
	is_loaded = strstr(capture.text, "LoadState=loaded") && memlock && nofile;
	if (is_loaded) {
		snprintf(whose, 64, "the service shuntd (which does not run)");
		facts->is_service = true;
		facts->may_lock = false;
		facts->memlock = parse_limit(memlock + strlen("LimitMEMLOCK="));
		facts->nofile = parse_limit(nofile + strlen("LimitNOFILE="));
	}
	free(capture.text);
	return is_loaded;
}

static void gather_limits(struct check_context *context, struct limit_facts *facts, char whose[64])
{
	const int pid = context->daemon.answers ? context->daemon.pid : 0;
	uint64_t capabilities = 0;

	check_status_of(pid ? pid : (int)getpid(), "CapEff:", 16, &capabilities);
	if (pid)
		snprintf(whose, 64, "the daemon (process %d)", pid);
	else
		snprintf(whose, 64, "what you start here");
	*facts = (struct limit_facts){
		.whose = whose,
		.is_service = pid != 0,
		.memlock = limit_of(pid, RLIMIT_MEMLOCK),
		.nofile = limit_of(pid, RLIMIT_NOFILE),
		.may_lock = capabilities >> CAP_IPC_LOCK & 1,
		.has_rdma = context->has_rdma,
		.pinned_bytes = context->conf.pinned_bytes_per_device,
		.sessions = context->conf.max_sessions,
	};
	/* Root's own limits say nothing of a service that he may start. */
	if (!pid && geteuid() == 0)
		limits_of_unit(facts, whose);
}

void check_limits_memlock(struct check_context *context, struct check_report *report)
{
	struct limit_facts facts;
	char whose[64];

	gather_limits(context, &facts, whose);
	judge_memlock(report, &facts);
}

void check_limits_nofile(struct check_context *context, struct check_report *report)
{
	struct limit_facts facts;
	char whose[64];

	gather_limits(context, &facts, whose);
	judge_nofile(report, &facts);
}

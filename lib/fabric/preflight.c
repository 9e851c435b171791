/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "fabric/preflight.h"
#include "os/fd.h"
#include "os/sys.h"

#define PATH_BYTES 512
#define NAME_BYTES 65

/* Between the two parts of a line. */
#define PARTED ": "

static void part_line(struct preflight_line *line)
{
	char *parting = strchr(line->text, '\n');
	const size_t len = strlen(PARTED);

	line->found_len = (uint32_t)(parting ? (size_t)(parting - line->text) : strlen(line->text));
	if (!parting || strlen(line->text) + len > sizeof(line->text))
		return;
	memmove(parting + len, parting + 1, strlen(parting + 1) + 1);
	memcpy(parting, PARTED, len);
}

/* @device: "" for none. @format: a newline parts what is missing from what to do about it. */
__attribute__((format(printf, 4, 5))) static void add(struct preflight *preflight,
						      enum preflight_what what, const char *device,
						      const char *format, ...)
{
	struct preflight_line *line;
	va_list args;

	if (preflight->n >= PREFLIGHT_LINES_MAX)
		return;
	line = &preflight->lines[preflight->n++];
	line->what = what;
	snprintf(line->device, sizeof(line->device), "%s", device);
	va_start(args, format);
	vsnprintf(line->text, sizeof(line->text), format, args);
	va_end(args);
	part_line(line);
}

static bool is_listed(const struct preflight_config *config, const char *name)
{
	for (size_t i = 0; i < config->n_listed; i++) {
		if (strcmp(config->listed[i], name) == 0)
			return true;
	}
	return false;
}

/* The first line of a small file, without its newline. */
static bool read_line(const char *path, char *text, size_t size)
{
	AUTO_FD int fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	ssize_t len = fd < 0 ? -1 : sys_read(fd, text, size - 1);

	if (len < 0)
		return false;
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return true;
}

/* The node of /dev/infiniband that belongs to @device: uverbs0… */
static bool find_node(const char *root, const char *device, char node[NAME_BYTES])
{
	char folder[PATH_BYTES], path[PATH_BYTES + 2 * NAME_BYTES], name[NAME_BYTES];
	const struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/sys/class/infiniband_verbs", root);
	dir = opendir(folder);
	while (dir && !found && (entry = readdir(dir)) != NULL) {
		if (strncmp(entry->d_name, "uverbs", 6) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%.64s/ibdev", folder, entry->d_name);
		found = read_line(path, name, sizeof(name)) && strcmp(name, device) == 0;
		if (found)
			snprintf(node, NAME_BYTES, "%.64s", entry->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Whether we may read and write the node @name: 0 or -errno. */
static int try_node(const char *root, const char *name)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/dev/infiniband/%s", root, name);
	return faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) < 0 ? -errno : 0;
}

/* What would let us in: the group of the node, or of the folder that hides it. */
static void describe_access(const char *root, const char *name, char *text, size_t size)
{
	static const char *const usual = "install rdma-core, whose udev rules let everybody in";
	char path[PATH_BYTES];
	struct stat st;
	const struct group *group;

	snprintf(path, sizeof(path), "%s/dev/infiniband", root);
	if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 && errno == EACCES) {
		snprintf(text, size, "the folder is closed: chmod 755 /dev/infiniband, or %s",
			 usual);
		return;
	}
	snprintf(path, sizeof(path), "%s/dev/infiniband/%s", root, name);
	if (sys_fstatat(AT_FDCWD, path, &st, 0) < 0 || !(st.st_mode & S_IWGRP) || st.st_gid == 0) {
		snprintf(text, size, "chmod 666 /dev/infiniband/%s, or %s", name, usual);
		return;
	}
	group = getgrgid(st.st_gid);
	if (group)
		snprintf(text, size,
			 "add the daemon's user to its group %s (SupplementaryGroups= "
			 "of the unit), or %s",
			 group->gr_name, usual);
	else
		snprintf(text, size, "add the daemon's user to its group %u, or %s", st.st_gid,
			 usual);
}

static void check_device(const struct preflight_config *config, const char *device,
			 struct preflight *preflight)
{
	char node[NAME_BYTES], remedy[PREFLIGHT_TEXT_BYTES / 2];
	int rc;

	if (!find_node(config->root, device, node)) {
		add(preflight, PREFLIGHT_NO_UVERBS, device,
		    "RDMA device %s can't be used by programs\nload the kernel's module ib_uverbs "
		    "(modprobe ib_uverbs; the package rdma-core does it at boot)",
		    device);
		return;
	}
	rc = try_node(config->root, node);
	if (rc == -ENOENT) {
		add(preflight, PREFLIGHT_NO_UVERBS, device,
		    "RDMA device %s: /dev/infiniband/%s is missing\nin a container, pass it in "
		    "(--device /dev/infiniband); else see whether udev runs",
		    device, node);
	} else if (rc < 0) {
		describe_access(config->root, node, remedy, sizeof(remedy));
		add(preflight, PREFLIGHT_UVERBS_DENIED, device,
		    "RDMA device %s: no access to /dev/infiniband/%s (%s)\n%s", device, node,
		    strerror(-rc), remedy);
	} else if (!is_listed(config, device)) {
		add(preflight, PREFLIGHT_NO_PROVIDER, device,
		    "RDMA device %s: libibverbs has no provider library for it\ninstall the "
		    "package ibverbs-providers (rdma-core's, or the vendor's for a newer device)",
		    device);
	}
}

static void check_cm(const struct preflight_config *config, struct preflight *preflight)
{
	char remedy[PREFLIGHT_TEXT_BYTES / 2];
	int rc = try_node(config->root, "rdma_cm");

	if (rc == -ENOENT) {
		add(preflight, PREFLIGHT_NO_CM, "",
		    "no /dev/infiniband/rdma_cm, so no links to other hosts\nload the kernel's "
		    "module rdma_ucm (modprobe rdma_ucm; rdma-core does it at boot)");
	} else if (rc < 0) {
		describe_access(config->root, "rdma_cm", remedy, sizeof(remedy));
		add(preflight, PREFLIGHT_CM_DENIED, "",
		    "no access to /dev/infiniband/rdma_cm (%s), so no links to other hosts\n%s",
		    strerror(-rc), remedy);
	}
}

/* The devices that the kernel has; returns how many. */
static size_t check_kernel(const struct preflight_config *config, struct preflight *preflight)
{
	const struct dirent *entry;
	char path[PATH_BYTES];
	size_t n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/sys/class/infiniband", config->root);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		n++;
		check_device(config, entry->d_name, preflight);
	}
	if (dir)
		closedir(dir);
	if (n > 0)
		check_cm(config, preflight);
	return n;
}

static void check_memlock(const struct preflight_config *config, struct preflight *preflight)
{
	if (config->may_lock || config->memlock_limit >= config->memlock_bytes)
		return;
	add(preflight, PREFLIGHT_MEMLOCK, "",
	    "only %" PRIu64 " KiB of memory may be locked, RDMA needs %" PRIu64
	    " KiB at the least\nset LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited, or "
	    "memlock in /etc/security/limits.conf",
	    config->memlock_limit / 1024, (config->memlock_bytes + 1023) / 1024);
}

void preflight_check(const struct preflight_config *config, struct preflight *ret_preflight)
{
	size_t n;

	ret_preflight->n = 0;
	n = check_kernel(config, ret_preflight);
	if (n == 0 && config->n_listed == 0 && config->list_error && config->list_error != -ENOSYS)
		add(ret_preflight, PREFLIGHT_NO_LIST, "",
		    "RDMA devices can't be listed: %s; connections to other hosts stay on TCP",
		    strerror(-config->list_error));
	else if (n == 0 && config->n_listed == 0)
		add(ret_preflight, PREFLIGHT_NO_DEVICE, "",
		    "no RDMA device here, connections to other hosts stay on TCP\nan adapter needs "
		    "its kernel driver, for RDMA in software: modprobe rdma_rxe; rdma link add "
		    "rxe0 type rxe netdev INTERFACE (package iproute2)");
	else
		check_memlock(config, ret_preflight);
}

/* As capget(2) would tell without libcap; effective capabilities of this thread. */
static bool has_ipc_lock(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	return data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK);
}

void preflight_memlock(uint64_t *ret_limit, bool *ret_may_lock)
{
	struct rlimit limit = {0};

	*ret_may_lock = has_ipc_lock();
	*ret_limit = 0;
	if (sys_prlimit(0, RLIMIT_MEMLOCK, NULL, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	sys_prlimit(0, RLIMIT_MEMLOCK, &limit, NULL);
	if (sys_prlimit(0, RLIMIT_MEMLOCK, NULL, &limit) < 0)
		return;
	*ret_limit = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

bool preflight_is_closed(const struct preflight *preflight, const char *device)
{
	for (size_t i = 0; i < preflight->n; i++) {
		const struct preflight_line *line = &preflight->lines[i];

		if ((line->what == PREFLIGHT_NO_UVERBS || line->what == PREFLIGHT_UVERBS_DENIED) &&
		    strncmp(line->device, device, sizeof(line->device) - 1) == 0)
			return true;
	}
	return false;
}

const char *preflight_remedy(const struct preflight_line *line)
{
	const char *rest = line->text + line->found_len;

	return strncmp(rest, PARTED, strlen(PARTED)) == 0 ? rest + strlen(PARTED) : rest;
}

const char *preflight_name(enum preflight_what what)
{
	static const char *const names[] = {
		[PREFLIGHT_NO_DEVICE] = "no_device",
		[PREFLIGHT_NO_LIST] = "no_list",
		[PREFLIGHT_NO_UVERBS] = "no_uverbs",
		[PREFLIGHT_UVERBS_DENIED] = "uverbs_denied",
		[PREFLIGHT_NO_PROVIDER] = "no_provider",
		[PREFLIGHT_NO_CM] = "no_cm",
		[PREFLIGHT_CM_DENIED] = "cm_denied",
		[PREFLIGHT_MEMLOCK] = "memlock",
	};

	return (size_t)what < ARRAY_SIZE(names) ? names[what] : "invalid";
}

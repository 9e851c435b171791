/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/fd.h"
#include "os/proc.h"
#include "os/syswait.h"

/* Longer than any /proc/PID/stat: 52 numbers of at most 20 digits, and a name. */
#define STAT_BYTES 1280u

/* A path for each hierarchy. Chosen: beyond it nothing is known, which is no harm. */
#define CGROUP_BYTES 8192u

/* Places of the fields behind the name in /proc/PID/stat, proc(5): state is the third field. */
#define STAT_FIELD_THREADS (20 - 3)
#define STAT_FIELD_START (22 - 3)

struct proc_stat {
	char state;
	unsigned long long threads;
	unsigned long long start_ticks;
};

/* The beginning of a file under /proc as a string. */
static ssize_t proc_read(pid_t pid, const char *name, char *buf, size_t size)
{
	char path[64];
	AUTO_FD int fd = -1;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : TAKE(fd, -1);
	len = sys_read(fd, buf, size - 1);
	if (len < 0)
		return len;
	buf[len] = '\0';
	return len;
}

static int proc_stat_read(pid_t pid, struct proc_stat *ret_stat)
{
	struct proc_stat stat = {0};
	char buf[STAT_BYTES];
	char *at;
	ssize_t len;

	len = proc_read(pid, "stat", buf, sizeof(buf));
	if (len < 0)
		return (int)len;
	/* The name is the process's own choice and may hold anything, parentheses too. */
	at = strrchr(buf, ')');
	if (!at || at[1] != ' ' || at[2] == '\0')
		return -EPROTO;
	at += 2;
	stat.state = *at;
	for (unsigned int i = 1; i <= STAT_FIELD_START; i++) {
		at = strchr(at, ' ');
		if (!at)
			return -EPROTO;
		at++;
		if (i == STAT_FIELD_THREADS)
			stat.threads = strtoull(at, NULL, 10);
	}
	stat.start_ticks = strtoull(at, NULL, 10);
	*ret_stat = stat;
	return 0;
}

int proc_start_ticks(pid_t pid, uint64_t *ret_ticks)
{
	struct proc_stat stat;
	int ret;

	ret = proc_stat_read(pid, &stat);
	if (ret < 0)
		return ret;
	*ret_ticks = stat.start_ticks;
	return 0;
}

int proc_comm(pid_t pid, char ret_comm[PROC_COMM_BYTES])
{
	char comm[PROC_COMM_BYTES + 1] = "";
	ssize_t len;

	len = proc_read(pid, "comm", comm, sizeof(comm));
	if (len < 0)
		return (int)len;
	if (len > 0 && comm[len - 1] == '\n')
		comm[len - 1] = '\0';
	for (char *at = comm; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	memcpy(ret_comm, comm, PROC_COMM_BYTES);
	ret_comm[PROC_COMM_BYTES - 1] = '\0';
	return 0;
}

/* What the kernel puts behind the name of a file that is no more. */
#define DELETED " (deleted)"

static int read_link(const char *link, char *ret_path, size_t size)
{
	ssize_t len = sys_readlinkat(AT_FDCWD, link, ret_path, size);
	const size_t deleted = strlen(DELETED);

	if (len < 0)
		return len == -ENOENT ? -ESRCH : (int)len;
	if ((size_t)len >= size)
		return -ENAMETOOLONG;
	ret_path[len] = '\0';
	if ((size_t)len > deleted && strcmp(ret_path + len - deleted, DELETED) == 0)
		ret_path[(size_t)len - deleted] = '\0';
	return 0;
}

int proc_exe(pid_t pid, char *ret_path, size_t size)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	return read_link(link, ret_path, size);
}

int proc_fd_path(int fd, char *ret_path, size_t size)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return read_link(link, ret_path, size);
}

int proc_cgroup(pid_t pid, char *ret_path, size_t size)
{
	/* Of a host with both hierarchies the first is where systemd keeps units. */
	static const char *const kinds[] = {":name=systemd:", "0::"};
	char buf[CGROUP_BYTES];
	const char *at = NULL;
	size_t n;
	ssize_t len = proc_read(pid, "cgroup", buf, sizeof(buf));

	if (len < 0)
		return (int)len;
	for (size_t i = 0; i < 2 && !at; i++) {
		at = strstr(buf, kinds[i]);
		if (at)
			at += strlen(kinds[i]);
	}
	if (!at)
		return -ENODATA;
	n = strcspn(at, "\n");
	if (n >= size || at[n] != '\n')
		return -ENAMETOOLONG;
	memcpy(ret_path, at, n);
	ret_path[n] = '\0';
	return 0;
}

static int proc_ns_self(const char *path, uint64_t *ret_ino)
{
	struct stat st;
	int ret;

	ret = sys_fstatat(AT_FDCWD, path, &st, 0);
	if (ret < 0)
		return ret;
	*ret_ino = st.st_ino;
	return 0;
}

/* Whether the /proc that is mounted counts pids as this process's namespace does. */
static int proc_mount_check(pid_t pid)
{
	char link[16] = "";
	char own[16];
	ssize_t len;

	len = sys_readlinkat(AT_FDCWD, "/proc/self", link, sizeof(link) - 1);
	if (len < 0)
		return (int)len;
	snprintf(own, sizeof(own), "%d", (int)pid);
	return strcmp(link, own) == 0 ? 0 : -EXDEV;
}

int proc_id_self(struct proc_id *ret_id)
{
	struct proc_id id = {.pid = (uint32_t)sys_getpid()};
	int ret;

	ret = proc_mount_check((pid_t)id.pid);
	if (ret < 0)
		return ret;
	ret = proc_ns_self("/proc/self/ns/pid", &id.pid_ns);
	if (ret < 0)
		return ret;
	ret = proc_ns_self("/proc/self/ns/time", &id.time_ns);
	if (ret < 0 && ret != -ENOENT)
		return ret;
	ret = proc_start_ticks((pid_t)id.pid, &id.start_ticks);
	if (ret < 0)
		return ret;
	*ret_id = id;
	return 0;
}

bool proc_is_alive(const struct proc_id *id)
{
	struct proc_id self;
	struct proc_stat stat;

	if (id->pid == 0)
		return false;
	if (id->pid > INT32_MAX || proc_id_self(&self) < 0 || id->pid_ns != self.pid_ns ||
	    id->time_ns != self.time_ns)
		return true;
	/* Not /proc alone: mounted with hidepid it shows nothing of other users' processes. */
	if (sys_kill((pid_t)id->pid, 0) == -ESRCH)
		return false;
	if (proc_stat_read((pid_t)id->pid, &stat) < 0)
		return true;
	if (stat.start_ticks != id->start_ticks)
		return false;
	/* The first thread alone shows Z while others run; with them gone, all is closed. */
	return !(stat.state == 'X' || (stat.state == 'Z' && stat.threads <= 1));
}

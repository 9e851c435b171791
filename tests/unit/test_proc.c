/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/proc.h"

#include "lib/child.h"
#include "lib/tap.h"

TAP_CASE(self_is_alive)
{
	struct proc_id id, again;

	REQUIRE_OK(proc_id_self(&id));
	CHECK_EQ(id.pid, getpid());
	CHECK(id.start_ticks > 0 && id.pid_ns > 0);
	CHECK(proc_is_alive(&id));
	CHECK_OK(proc_id_self(&again));
	CHECK(memcmp(&id, &again, sizeof(id)) == 0);
}

TAP_CASE(name_may_hold_anything)
{
	char old[PROC_COMM_BYTES], comm[PROC_COMM_BYTES];
	struct proc_id before, after;

	REQUIRE_OK(proc_comm(getpid(), old));
	REQUIRE_OK(proc_id_self(&before));
	CHECK_EQ(prctl(PR_SET_NAME, "a) R 1 (\n 2 3"), 0);
	CHECK_OK(proc_id_self(&after));
	CHECK(before.start_ticks == after.start_ticks);
	CHECK_OK(proc_comm(getpid(), comm));
	CHECK_STR(comm, "a) R 1 (? 2 3");
	prctl(PR_SET_NAME, old);
}

static void read_own_id(void *arg)
{
	int fd = *(int *)arg;
	struct proc_id id;

	CHECK_OK(proc_id_self(&id));
	CHECK_EQ(write(fd, &id, sizeof(id)), sizeof(id));
	pause();
}

static pid_t start_known(struct proc_id *id)
{
	int pipe_fds[2];
	pid_t pid;

	CHECK_EQ(pipe(pipe_fds), 0);
	pid = child_start(CHILD_UID_SAME, read_own_id, &pipe_fds[1]);
	CHECK_EQ(read(pipe_fds[0], id, sizeof(*id)), sizeof(*id));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return pid;
}

TAP_CASE(death_is_seen_before_and_after_the_wait)
{
	siginfo_t info;
	struct proc_id id;
	pid_t pid = start_known(&id);

	CHECK_EQ(id.pid, pid);
	CHECK(proc_is_alive(&id));
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	CHECK(!proc_is_alive(&id)); /* nobody has waited for it yet */
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(!proc_is_alive(&id));
}

TAP_CASE(doubt_means_alive)
{
	struct proc_id id, other;

	REQUIRE_OK(proc_id_self(&id));
	other = id;
	other.start_ticks++;
	CHECK(!proc_is_alive(&other)); /* the pid was taken again */
	other = id;
	other.pid_ns++;
	CHECK(proc_is_alive(&other));
	other = id;
	other.start_ticks++;
	other.time_ns++;
	CHECK(proc_is_alive(&other));
	other = id;
	other.pid = UINT32_MAX;
	CHECK(proc_is_alive(&other));
	memset(&other, 0, sizeof(other));
	CHECK(!proc_is_alive(&other));
}

static void *outlive(void *arg)
{
	pause();
	return arg;
}

static void lose_first_thread(void *arg)
{
	int fd = *(int *)arg;
	struct proc_id id;
	pthread_t thread;

	CHECK_OK(proc_id_self(&id));
	CHECK_EQ(pthread_create(&thread, NULL, outlive, NULL), 0);
	CHECK_EQ(write(fd, &id, sizeof(id)), sizeof(id));
	pthread_exit(NULL);
}

/* Whether the first thread of @pid is a zombie. */
static bool first_thread_is_gone(pid_t pid)
{
	char path[64], text[4096] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fread(text, 1, sizeof(text) - 1, file) == 0)
		text[0] = '\0';
	fclose(file);
	return strstr(text, "State:\tZ") != NULL;
}

TAP_CASE(process_outlives_its_first_thread)
{
	int pipe_fds[2];
	struct proc_id id;
	pid_t pid;

	REQUIRE(pipe(pipe_fds) == 0);
	pid = child_start(CHILD_UID_SAME, lose_first_thread, &pipe_fds[1]);
	REQUIRE(read(pipe_fds[0], &id, sizeof(id)) == sizeof(id));
	for (int i = 0; i < 10000 && !first_thread_is_gone(pid); i++)
		usleep(1000);
	CHECK(first_thread_is_gone(pid));
	CHECK(proc_is_alive(&id));
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(!proc_is_alive(&id));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

TAP_CASE(what_it_runs_and_where)
{
	char path[4096], by_fd[4096], small[8], file[] = "/tmp/shunt-proc-XXXXXX";
	int fd;

	CHECK_EQ(proc_exe(getpid(), path, sizeof(path)), 0);
	CHECK_EQ(path[0], '/');
	CHECK(strstr(path, "unit-proc") != NULL);
	CHECK_EQ(proc_exe(getpid(), small, sizeof(small)), -ENAMETOOLONG);
	CHECK_EQ(proc_exe(INT32_MAX, path, sizeof(path)), -ESRCH);
	CHECK_EQ(proc_cgroup(getpid(), path, sizeof(path)), 0);
	CHECK_EQ(path[0], '/');
	CHECK(strchr(path, '\n') == NULL);
	CHECK_EQ(proc_cgroup(INT32_MAX, path, sizeof(path)), -ESRCH);
	/* A file that is gone keeps its name. */
	fd = mkstemp(file);
	REQUIRE_OK(fd);
	CHECK_EQ(unlink(file), 0);
	CHECK_EQ(proc_fd_path(fd, by_fd, sizeof(by_fd)), 0);
	CHECK_STR(by_fd, file);
	close(fd);
	CHECK(proc_fd_path(fd, by_fd, sizeof(by_fd)) < 0);
}

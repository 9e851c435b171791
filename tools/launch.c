/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ask.h"
#include "base/util.h"
#include "launch.h"
#include "locate.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sys.h"
#include "os/syswait.h"
#include "tool.h"

/* The daemon's own lock tells two daemons apart; this one makes callers wait for each other. */
#define START_LOCK_NAME "shuntd.start"

#define PROBE_PAUSE_MS 5

/* Verdict of the steps: the user has been told what is wrong. */
#define LAUNCH_FAILED 1

static int answers(const struct rundir *dir)
{
	struct asker asker;
	enum reason reason;
	int rc = ask_connect(dir, &asker, &reason);

	if (rc == 0)
		ask_close(&asker);
	return rc >= 0; /* one that turns us away is there, too */
}

/*
 * In the new process: become the daemon. What belongs to the program that is about to be run, and
 * to a service manager that may have started it, is not for the daemon.
 */
static void become_daemon(const char *daemon, const struct rundir *dir, int log_fd)
{
	static const char *const foreign[] = {"LD_PRELOAD", "NOTIFY_SOCKET", "LISTEN_FDS",
					      "LISTEN_PID", "LISTEN_FDNAMES"};
	const char *conf = getenv("SHUNT_CONF");
	char idle[16], conf_path[PATH_MAX];
	int null_fd = sys_openat(AT_FDCWD, "/dev/null", O_RDWR, 0);
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		unsetenv(foreign[i]);
	/* It may be relative, and the daemon must not keep the directory busy. */
	if (conf && *conf && realpath(conf, conf_path))
		setenv("SHUNT_CONF", conf_path, 1);
	if (chdir("/") || null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
	    dup2(log_fd, 2) < 0)
		_exit(EXIT_FAILURE);
	close_range(3, UINT_MAX, 0);
	snprintf(idle, sizeof(idle), "%d", LAUNCH_IDLE_S);
	execl(daemon, "shuntd", "--runtime-dir", dir->path, "--exit-idle", idle, (char *)NULL);
	perror(daemon);
	_exit(EXIT_FAILURE);
}

/* Start it as a grandchild, so that the program that we become never sees it end. A pidfd of it,
 * or -errno. */
static int spawn(const char *daemon, const struct rundir *dir, int log_fd)
{
	pid_t middle, pid = -1;
	int pipe_fds[2], fd = -ECHILD;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return -errno;
	middle = fork();
	if (middle == 0) {
		setsid();
		pid = fork();
		if (pid == 0)
			become_daemon(daemon, dir, log_fd);
		_exit(sys_write(pipe_fds[1], &pid, sizeof(pid)) != sizeof(pid));
	}
	fd_close(pipe_fds[1]);
	/* It may have ended already: then there is no such process, which the caller finds out. */
	if (middle > 0 && sys_read(pipe_fds[0], &pid, sizeof(pid)) == sizeof(pid) && pid > 0)
		fd = sys_pidfd_open(pid, 0);
	fd_close(pipe_fds[0]);
	if (middle > 0)
		waitpid(middle, NULL, 0);
	return fd;
}

/* The last line of its log says why a daemon ended. */
static int tell_log(const struct rundir *dir, int log_fd, const char *what)
{
	char text[512];
	off_t end = lseek(log_fd, 0, SEEK_END);
	off_t from = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;
	ssize_t len = pread(log_fd, text, sizeof(text) - 1, from);
	char *line;

	text[len > 0 ? len : 0] = '\0';
	while (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	line = strrchr(text, '\n');
	tool_say("the new daemon in %s %s: %s", dir->path, what,
		 len > 0 ? (line ? line + 1 : text) : "it said nothing");
	return LAUNCH_FAILED;
}

static int wait_for(const struct rundir *dir, int pid_fd, int log_fd)
{
	struct pollfd life = {.fd = pid_fd, .events = POLLIN};
	uint64_t until_ns = clock_now_ns() + LAUNCH_WAIT_MS * 1000000ull;

	while (!answers(dir)) {
		if (pid_fd < 0 || sys_poll(&life, 1, PROBE_PAUSE_MS) > 0)
			return answers(dir) ? 0 : tell_log(dir, log_fd, "ended at once");
		if (clock_now_ns() > until_ns)
			return tell_log(dir, log_fd, "does not answer");
	}
	return 0;
}

static int start(const struct rundir *dir, int dir_fd)
{
	AUTO_FD int log_fd = -1;
	AUTO_FD int pid_fd = -1;
	char daemon[PATH_MAX];
	int rc = locate_part(PART_DAEMON, daemon);

	if (rc < 0) {
		tool_say("there is no daemon to start: %s: %s", daemon, strerror(-rc));
		return LAUNCH_FAILED;
	}
	/* High, so that it is none of the standard three even if the caller has closed those. */
	log_fd = fd_move_high(
		sys_openat(dir_fd, LAUNCH_LOG_NAME,
			   O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
	if (log_fd < 0) {
		tool_say("can't write the daemon's log %s/%s: %s", dir->path, LAUNCH_LOG_NAME,
			 strerror(-log_fd));
		return LAUNCH_FAILED;
	}
	pid_fd = spawn(daemon, dir, log_fd);
	return wait_for(dir, pid_fd, log_fd);
}

int launch_daemon(const struct rundir *dir)
{
	AUTO_FD int dir_fd = -1;
	AUTO_FD int lock_fd = -1;
	int rc;

	if (answers(dir))
		return 0;
	dir_fd = rundir_make(dir);
	if (dir_fd < 0)
		return TAKE(dir_fd, -1);
	lock_fd = sys_openat(dir_fd, START_LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			     0600);
	if (lock_fd < 0)
		return TAKE(lock_fd, -1);
	do {
		rc = sys_flock(lock_fd, LOCK_EX);
	} while (rc == -EINTR);
	if (rc < 0)
		return rc;
	return answers(dir) ? 0 : start(dir, dir_fd);
}

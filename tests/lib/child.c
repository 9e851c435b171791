/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/child.h"
#include "lib/tap.h"

int child_can_switch(void)
{
	return geteuid() == 0;
}

pid_t child_start(uid_t uid, void (*fn)(void *arg), void *arg)
{
	pid_t pid = fork();

	if (pid != 0) {
		CHECK(pid > 0);
		return pid;
	}
	if (uid != CHILD_UID_SAME &&
	    (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))) {
		tap_check(false, __FILE__, __LINE__, "become uid %u", uid);
		_exit(1);
	}
	fn(arg);
	_exit(0);
}

void child_finish(pid_t pid)
{
	int status = 0;
	pid_t ret;

	if (pid <= 0)
		return;
	do {
		ret = waitpid(pid, &status, 0);
	} while (ret < 0 && errno == EINTR);
	CHECK_EQ(ret, pid);
	tap_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, __FILE__, __LINE__,
		  "process %d ended with wait status 0x%x", (int)pid, (unsigned int)status);
}

void child_run(uid_t uid, void (*fn)(void *arg), void *arg)
{
	child_finish(child_start(uid, fn, arg));
}

int child_count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		return -errno;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* ".", "..", and the directory itself */
}

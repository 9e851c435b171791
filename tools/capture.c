/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "capture.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/syswait.h"

#define STEP 65536u
#define NO_COMMAND 127

/* Room for STEP more bytes: the older half is given up where there is too much. */
static int make_room(struct capture *capture)
{
	char *text;

	if (capture->len + STEP > CAPTURE_BYTES_MAX) {
		capture->len -= CAPTURE_BYTES_MAX / 2;
		memmove(capture->text, capture->text + CAPTURE_BYTES_MAX / 2, capture->len);
		capture->is_cut = true;
		return 0;
	}
	text = realloc(capture->text, capture->len + STEP + 1);
	if (!text)
		return -ENOMEM;
	capture->text = text;
	return 0;
}

/* Read @fd to its end. @until_ns: 0 for no limit. */
static int read_all(int fd, uint64_t until_ns, struct capture *capture)
{
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		uint64_t now_ns = clock_now_ns();
		ssize_t n;
		int rc;

		if (until_ns && now_ns >= until_ns)
			return -ETIMEDOUT;
		rc = until_ns ? sys_poll(&wait, 1, (int)((until_ns - now_ns) / 1000000u) + 1) : 1;
		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		rc = make_room(capture);
		if (rc < 0)
			return rc;
		n = sys_read(fd, capture->text + capture->len, STEP);
		if (n < 0)
			return (int)n;
		if (n == 0) {
			capture->text[capture->len] = '\0';
			return 0;
		}
		capture->len += (size_t)n;
	}
}

__attribute__((noreturn)) static void become(const char *const argv[], int out)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	/* With all that it starts, so that none of it is left. */
	setpgid(0, 0);
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	setenv("LC_ALL", "C", 1);
	unsetenv("LD_PRELOAD");
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(NO_COMMAND);
}

int capture_run(const char *const argv[], int timeout_ms, struct capture *ret_capture)
{
	struct capture capture = {0};
	int fds[2], status, rc;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		become(argv, fds[1]);
	rc = pid < 0 ? -errno : 0;
	fd_close(fds[1]);
	if (rc == 0)
		rc = read_all(fds[0], clock_now_ns() + (uint64_t)timeout_ms * 1000000u, &capture);
	fd_close(fds[0]);
	/* Whatever still holds its outputs open is not waited for. */
	if (rc < 0 && pid > 0) {
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc == 0 && WIFEXITED(status) && WEXITSTATUS(status) == NO_COMMAND && capture.len == 0)
		rc = -ENOENT;
	if (rc < 0) {
		free(capture.text);
		return rc;
	}
	capture.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	*ret_capture = capture;
	return 0;
}

int capture_file(const char *path, struct capture *ret_capture)
{
	AUTO_FD int fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	struct capture capture = {0};
	struct stat st;
	int rc;

	if (fd < 0)
		return TAKE(fd, -1);
	rc = sys_fstat(fd, &st);
	if (rc == 0 && !S_ISREG(st.st_mode))
		rc = -EINVAL;
	if (rc == 0)
		rc = read_all(fd, 0, &capture);
	if (rc < 0) {
		free(capture.text);
		return rc;
	}
	*ret_capture = capture;
	return 0;
}

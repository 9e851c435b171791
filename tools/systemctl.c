/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "systemctl.h"
#include "tool.h"

/* More than one unit says of itself. Chosen. */
#define OUTPUT_BYTES_MAX (1u << 20)

static char *read_all(int fd)
{
	char *text = malloc(OUTPUT_BYTES_MAX);
	size_t used = 0;
	ssize_t len;

	while (text && used < OUTPUT_BYTES_MAX - 1 &&
	       (len = read(fd, text + used, OUTPUT_BYTES_MAX - 1 - used)) > 0)
		used += (size_t)len;
	if (text)
		text[used] = '\0';
	return text;
}

int systemctl(const char *const argv[], char **ret_text)
{
	int fds[2] = {-1, -1}, status = 0;
	pid_t pid;

	if (ret_text && pipe(fds))
		return 127;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (ret_text) {
			dup2(fds[1], STDOUT_FILENO);
			close(fds[0]);
			close(fds[1]);
		}
		execvp("systemctl", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	if (ret_text) {
		close(fds[1]);
		*ret_text = pid > 0 ? read_all(fds[0]) : NULL;
		close(fds[0]);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 127;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool systemctl_value(const char *name, const char *property, char *ret_value, size_t size)
{
	const char *argv[] = {"systemctl", "show", "--property", property, "--", name, NULL};
	AUTO_FREE char *text = NULL;
	size_t len = strlen(property), n;
	const char *value;

	if (systemctl(argv, &text) != 0 || !text || strncmp(text, property, len) != 0 ||
	    text[len] != '=')
		return false;
	value = text + len + 1;
	n = strcspn(value, "\n");
	if (n >= size)
		return false;
	memcpy(ret_value, value, n);
	ret_value[n] = '\0';
	return true;
}

bool systemctl_do(const char *verb, const char *name)
{
	const char *argv[] = {"systemctl", verb, name ? "--" : NULL, name, NULL};
	int status = systemctl(argv, NULL);

	if (status == 0)
		return true;
	tool_say("systemctl %s%s%s failed with exit status %d", verb, name ? " " : "",
		 name ? name : "", status);
	return false;
}

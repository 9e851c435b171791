/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "ask.h"
#include "base/cleanup.h"
#include "os/proc.h"
#include "target.h"
#include "tool.h"

/* A number from @lo to INT32_MAX that ends at @end; where it ended, or NULL. */
static const char *parse_number(const char *text, long lo, char end, int32_t *ret_value)
{
	char *rest;
	long value;

	if (text[0] < '0' || text[0] > '9')
		return NULL;
	errno = 0;
	value = strtol(text, &rest, 10);
	if (errno || value < lo || value > INT32_MAX || (*rest && *rest != end))
		return NULL;
	*ret_value = (int32_t)value;
	return rest;
}

int target_parse(const char *name, const char *text, struct target *ret_target)
{
	struct target target = {.pid = 0, .fd = -1};
	const char *rest;

	if (!text)
		return tool_usage(name, "which connection? Give PID or PID:FD, as shunt ss shows");
	rest = parse_number(text, 1, ':', &target.pid);
	if (rest && *rest == ':')
		rest = parse_number(rest + 1, 0, '\0', &target.fd);
	if (!rest || *rest)
		return tool_usage(name,
				  "\"%s\" is not PID or PID:FD, a process and one of its "
				  "descriptors, like 1234 or 1234:7",
				  text);
	*ret_target = target;
	return TOOL_OK;
}

enum mapped { MAPPED_YES, MAPPED_NO, MAPPED_UNKNOWN };

/* Whether the process has our library in memory. */
static enum mapped has_library(int32_t pid)
{
	char path[32], line[4096];
	enum mapped found = MAPPED_NO;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return MAPPED_UNKNOWN;
	while (found == MAPPED_NO && fgets(line, sizeof(line), maps)) {
		if (strstr(line, TARGET_LIBRARY))
			found = MAPPED_YES;
	}
	if (ferror(maps))
		found = MAPPED_UNKNOWN;
	fclose(maps);
	return found;
}

/* Whether the process has @fd, and as a socket; true when that can't be told. */
static bool may_have_socket(int32_t pid, int32_t fd)
{
	char path[48], link[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)fd);
	len = readlink(path, link, sizeof(link) - 1);
	if (len < 0)
		return errno != ENOENT;
	link[len] = '\0';
	return strncmp(link, "socket:", 7) == 0;
}

/* Whether the daemon knows any connection of the process. */
static bool is_client(struct asker *asker, int32_t pid)
{
	AUTO_FREE char *text = NULL;
	json_t *json;
	bool found;

	if (ask_query(asker, &(struct ctl_query_msg){CTL_QUERY_SS, pid, -1}, &text) < 0)
		return false;
	json = answer_parse(text);
	found = json_array_size(json_object_get(json, "connections")) > 0;
	json_decref(json);
	return found;
}

int target_not_found(struct asker *asker, const struct target *target)
{
	const int pid = (int)target->pid, fd = (int)target->fd;
	bool known = is_client(asker, target->pid);
	char comm[PROC_COMM_BYTES];
	enum mapped mapped;

	if (proc_comm(target->pid, comm) < 0) {
		tool_say("there is no process %d", pid);
		return TOOL_NOT_FOUND;
	}
	mapped = known ? MAPPED_YES : has_library(target->pid);
	if (mapped == MAPPED_UNKNOWN)
		tool_say("the daemon knows no such connection of process %d (%s), and whether it "
			 "runs under Shunt is not for us to see: ask as its owner or as root",
			 pid, comm);
	else if (mapped == MAPPED_NO)
		tool_say("process %d (%s) has asked for no lane, and does not run under Shunt: "
			 "start it with shunt run",
			 pid, comm);
	else if (fd >= 0 && !may_have_socket(target->pid, target->fd))
		tool_say("descriptor %d of process %d (%s) is no open socket; shunt ss --pid %d "
			 "lists its connections",
			 fd, pid, comm, pid);
	else
		tool_say("process %d (%s) runs under Shunt, but has not asked for a lane for %s "
			 "yet: a connection does so after a few operations",
			 pid, comm, fd >= 0 ? "that descriptor" : "any connection");
	return TOOL_NOT_FOUND;
}

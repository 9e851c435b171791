/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ask.h"
#include "target.h"
#include "tool.h"

static int tell_failure(const struct target *target, struct asker *asker, int rc)
{
	const int pid = (int)target->pid;

	switch (-rc) {
	case ESRCH:
		return target_not_found(asker, target);
	case ENOENT:
		if (target->fd >= 0)
			tool_say("descriptor %d of process %d is not on a lane; shunt why %d:%d "
				 "tells more",
				 (int)target->fd, pid, pid, (int)target->fd);
		else
			tool_say("no connection of process %d is on a lane; shunt why %d tells "
				 "more",
				 pid, pid);
		return TOOL_NOT_FOUND;
	case EACCES:
		tool_say("process %d belongs to another user: ask as its owner or as root", pid);
		return TOOL_FAILED;
	default:
		tool_say("the daemon in %s gave no answer: %s", asker->dir.path, strerror(-rc));
		return TOOL_FAILED;
	}
}

int cmd_demote(int argc, char **argv)
{
	struct target target;
	struct asker asker;
	uint32_t count = 0;
	int as_json, rc = tool_options(argc, argv, 1, &as_json);

	if (rc != TOOL_GO_ON)
		return rc;
	rc = target_parse("demote", argv[optind], &target);
	if (rc)
		return rc;
	rc = ask_open(&asker);
	if (rc)
		return rc;
	rc = ask_demote(&asker, &(struct ctl_demote_req){target.pid, target.fd}, &count);
	if (rc < 0)
		rc = tell_failure(&target, &asker, rc);
	ask_close(&asker);
	if (as_json)
		printf("{\"asked\":%u}\n", (unsigned int)count);
	else if (rc == TOOL_OK)
		printf("asked %u connection%s of process %d to go back to TCP\n",
		       (unsigned int)count, count == 1 ? "" : "s", (int)target.pid);
	return rc;
}

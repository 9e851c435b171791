/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "ask.h"
#include "base/cleanup.h"
#include "table.h"
#include "tool.h"

static void print_status(const json_t *json, const struct asker *asker)
{
	uint64_t up_s = answer_count(json, "uptime_s");
	char text[BYTES_TEXT];

	printf("shuntd %s, process %d, in %s\n", answer_text(json, "version"),
	       (int)answer_count(json, "pid"), asker->dir.path);
	printf("  up for        %" PRIu64 " d %02u:%02u:%02u\n", up_s / 86400,
	       (unsigned int)(up_s / 3600 % 24), (unsigned int)(up_s / 60 % 60),
	       (unsigned int)(up_s % 60));
	printf("  serves        %s\n",
	       json_is_true(json_object_get(json, "all_users")) ? "all users" : "its own user");
	printf("  sessions      %" PRIu64 " (this one included)\n", answer_count(json, "sessions"));
	printf("  connections   %" PRIu64 " ends\n", answer_count(json, "connections"));
	printf("  rings of      %s bytes\n", bytes_text(answer_count(json, "ring_bytes"), text));
	printf("  spins up to   %u us\n", (unsigned int)asker->policy.spin_us);
	printf("  promotes      after %u operations\n", (unsigned int)asker->policy.promote_after);
}

int cmd_status(int argc, char **argv)
{
	AUTO_FREE char *text = NULL;
	struct asker asker;
	json_t *json;
	int as_json, rc = tool_options(argc, argv, 0, &as_json);

	if (rc != TOOL_GO_ON)
		return rc;
	rc = ask_open(&asker);
	if (rc)
		return rc;
	rc = ask_query(&asker, &(struct ctl_query_msg){CTL_QUERY_STATUS, -1, -1}, &text);
	ask_close(&asker);
	if (rc < 0) {
		tool_say("the daemon in %s gave no answer: %s", asker.dir.path, strerror(-rc));
		return TOOL_FAILED;
	}
	json = answer_parse(text);
	if (!json)
		return TOOL_FAILED;
	if (as_json)
		answer_print(json);
	else
		print_status(json, &asker);
	json_decref(json);
	return TOOL_OK;
}

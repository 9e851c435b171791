/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "ask.h"
#include "base/cleanup.h"
#include "table.h"
#include "target.h"
#include "tool.h"

#define WIDTH 80 /* of the lines that are broken */
#define INDENT 4 /* of the history */

/* Where a connection stands, in words; NULL for a state of a newer daemon. */
static const char *state_words(const char *state)
{
	static const char *const words[][2] = {
		{"tcp", "on TCP"},
		{"registered", "on TCP, waiting for its other end to ask for a lane too"},
		{"mapped", "on TCP, about to move to its lane"},
		{"ring", "on the ring"},
		{"leaving", "on its way back to TCP"},
		{"pinned", "on TCP for good"},
		{"reset", "reset by Shunt"},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i][0], state) == 0)
			return words[i][1];
	}
	return NULL;
}

/* Print @text, broken at spaces so that it fits; it starts in @column and goes on there. */
static void print_broken(const char *text, int column)
{
	const size_t room = (size_t)(WIDTH - column);

	for (;;) {
		size_t len = strlen(text), end;

		if (len <= room) {
			printf("%s\n", text);
			return;
		}
		for (end = room; end > 0 && text[end] != ' '; end--)
			;
		if (end == 0)
			end = room;
		printf("%.*s\n%*s", (int)end, text, column, "");
		for (text += end; *text == ' '; text++)
			;
	}
}

static void print_event(const json_t *event)
{
	uint64_t at_ms = answer_count(event, "time_ms");
	time_t at_s = (time_t)(at_ms / 1000);
	unsigned int epoch = (unsigned int)answer_count(event, "epoch");
	char when[32] = "?", lane[24] = "";
	struct tm local;
	int column;

	if (localtime_r(&at_s, &local))
		strftime(when, sizeof(when), "%F %T", &local);
	if (epoch)
		snprintf(lane, sizeof(lane), "lane %u: ", epoch);
	column = printf("%*s%s.%03u  %s", INDENT, "", when, (unsigned int)(at_ms % 1000), lane);
	print_broken(answer_text(event, "text"), column);
}

static void print_moved(const json_t *connection)
{
	char tcp_tx[BYTES_TEXT], tcp_rx[BYTES_TEXT], lane_tx[BYTES_TEXT], lane_rx[BYTES_TEXT];

	bytes_text(answer_way(connection, "tcp_bytes", "tx"), tcp_tx);
	bytes_text(answer_way(connection, "tcp_bytes", "rx"), tcp_rx);
	bytes_text(answer_way(connection, "lane_bytes", "tx"), lane_tx);
	bytes_text(answer_way(connection, "lane_bytes", "rx"), lane_rx);
	printf("  Bytes: %s sent and %s received over TCP, %s and %s over lanes.\n", tcp_tx, tcp_rx,
	       lane_tx, lane_rx);
}

/* The lane between hosts that it is on, or was just now. */
static void print_remote(const json_t *remote)
{
	const json_t *messages = json_object_get(remote, "messages");
	const json_t *blocked = json_object_get(remote, "blocked");

	printf("  Lane to the other host: %s, link %" PRIu64 " to %s", answer_text(remote, "state"),
	       answer_count(remote, "link"), answer_text(remote, "peer"));
	if (answer_text(remote, "device")[0])
		printf(" over %s/%" PRIu64, answer_text(remote, "device"),
		       answer_count(remote, "port"));
	printf(".\n  Messages sent: %" PRIu64 " eager, %" PRIu64 " by inline writes, %" PRIu64
	       " by reference; waited for room %" PRIu64 " times, %" PRIu64 " ms in all.\n",
	       answer_count(messages, "eager"), answer_count(messages, "write_inline"),
	       answer_count(messages, "by_reference"), answer_count(blocked, "times"),
	       answer_count(blocked, "ns") / 1000000);
}

static void print_connection(const json_t *connection)
{
	const char *state = answer_text(connection, "state");
	const char *words = state_words(state), *reason = answer_text(connection, "reason");
	const json_t *remote = json_object_get(connection, "remote");
	const json_t *events = json_object_get(connection, "events"), *event;
	uint64_t epoch = answer_count(connection, "epoch");
	size_t i;

	printf("%s, process %d, descriptor %d: %s to %s\n", answer_text(connection, "comm"),
	       (int)answer_count(connection, "pid"), (int)answer_count(connection, "fd"),
	       answer_text(connection, "local"), answer_text(connection, "peer"));
	if (remote && strcmp(state, "ring") == 0)
		words = "on its lane to the other host";
	printf("  Now: %s", words ? words : state);
	if (strcmp(reason, "none") != 0)
		printf(" (%s)", reason);
	if (epoch == 0)
		puts("; it never had a lane.");
	else
		printf("; lanes so far: %u.\n", (unsigned int)epoch);
	print_moved(connection);
	if (remote)
		print_remote(remote);
	puts("  History, the last events:");
	json_array_foreach(events, i, event) print_event(event);
}

static int print_answer(const char *text, int as_json)
{
	json_t *json = answer_parse(text);
	const json_t *connection;
	size_t i;

	if (!json)
		return TOOL_FAILED;
	if (as_json) {
		answer_print(json);
	} else {
		json_array_foreach(json_object_get(json, "connections"), i, connection)
		{
			if (i)
				putchar('\n');
			print_connection(connection);
		}
	}
	json_decref(json);
	return TOOL_OK;
}

int cmd_why(int argc, char **argv)
{
	struct target target;
	AUTO_FREE char *text = NULL;
	struct asker asker;
	int as_json, rc = tool_options(argc, argv, 1, &as_json);

	if (rc != TOOL_GO_ON)
		return rc;
	rc = target_parse("why", argv[optind], &target);
	if (rc)
		return rc;
	rc = ask_open(&asker);
	if (rc)
		return rc;
	rc = ask_query(&asker, &(struct ctl_query_msg){CTL_QUERY_WHY, target.pid, target.fd},
		       &text);
	if (rc == -ESRCH)
		target_not_found(&asker, &target);
	ask_close(&asker);
	if (rc == -ESRCH)
		return TOOL_NOT_FOUND;
	if (rc < 0) {
		tool_say("the daemon in %s gave no answer: %s", asker.dir.path, strerror(-rc));
		return TOOL_FAILED;
	}
	return print_answer(text, as_json);
}

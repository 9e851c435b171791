/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <unistd.h>

#include "answer.h"
#include "tool.h"

json_t *answer_parse(const char *text)
{
	json_error_t error;
	json_t *json = json_loads(text, 0, &error);

	if (json_is_object(json))
		return json;
	tool_say("the daemon's answer is no JSON object; are tool and daemon of one version?");
	json_decref(json);
	return NULL;
}

void answer_print(const json_t *json)
{
	json_dumpf(json, stdout, isatty(STDOUT_FILENO) ? JSON_INDENT(2) : JSON_COMPACT);
	putchar('\n');
}

uint64_t answer_count(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value < 0 ? 0 : (uint64_t)value;
}

const char *answer_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

uint64_t answer_way(const json_t *object, const char *key, const char *way)
{
	return answer_count(json_object_get(object, key), way);
}

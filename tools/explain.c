/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "ask.h"
#include "base/cleanup.h"
#include "config.h"
#include "explain.h"
#include "peer_conf.h"
#include "tool.h"

static int rule_from_json(const json_t *json, struct rule_list *list)
{
	struct rule *rule = &list->rules[list->n];
	struct section_error error = {0, ""};
	const json_t *value, *keys = json_object_get(json, "keys");
	const char *name;

	if (list->n == RULES_MAX)
		return -E2BIG;
	json_object_foreach((json_t *)(uintptr_t)keys, name, value)
	{
		const char *text = json_string_value(value);

		if (!text || rule_conf_set(rule, name, text, &error))
			return -EPROTO;
	}
	rule->line = (int)answer_count(json, "line");
	list->n++;
	return 0;
}

/* What the daemon tells in @text. */
static int rules_from_json(const char *text, struct rule_list *list)
{
	json_t *json = answer_parse(text);
	const json_t *entry;
	int rc = 0;
	size_t i;

	if (!json)
		return TOOL_FAILED;
	json_array_foreach(json_object_get(json, "rules"), i, entry)
	{
		if (rc == 0)
			rc = rule_from_json(entry, list);
	}
	json_decref(json);
	if (rc == 0)
		return TOOL_OK;
	tool_say("the daemon's rules can't be read; are tool and daemon of one version?");
	return TOOL_FAILED;
}

/* As TOOL_OK and the others; TOOL_NO_DAEMON silently. */
static int ask_daemon(struct explain_source *source)
{
	const struct ctl_query_msg query = {CTL_QUERY_RULES, -1, -1};
	struct rundir dirs[RUNDIR_CANDIDATES_MAX];
	size_t n = rundir_candidates(dirs);
	AUTO_FREE char *text = NULL;
	struct asker asker;
	enum reason reason;
	int rc = -ENOENT;

	for (size_t i = 0; i < n && rc; i++)
		rc = ask_connect(&dirs[i], &asker, &reason);
	if (rc)
		return TOOL_NO_DAEMON;
	rc = ask_query(&asker, &query, &text);
	snprintf(source->where, sizeof(source->where), "%s", asker.dir.path);
	ask_close(&asker);
	if (rc < 0) {
		tool_say("the daemon in %s does not tell its rules: %s", source->where,
			 ask_error_text(rc));
		return TOOL_FAILED;
	}
	source->is_daemon = true;
	return rules_from_json(text, &source->list);
}

int explain_rules(const char *file, struct explain_source *ret_source)
{
	static struct conf conf; /* large */
	struct conf_error error;
	bool is_default = false;
	int rc;

	memset(ret_source, 0, sizeof(*ret_source));
	if (!file) {
		rc = ask_daemon(ret_source);
		if (rc != TOOL_NO_DAEMON)
			return rc;
		file = getenv("SHUNT_CONF");
		is_default = !file;
	}
	conf_init(&conf);
	snprintf(ret_source->where, sizeof(ret_source->where), "%s",
		 is_default ? SHUNT_CONF_PATH : file);
	rc = conf_load(&conf, ret_source->where, &error);
	if (rc && !(rc == -ENOENT && is_default)) {
		tool_say("%s", error.text);
		return TOOL_FAILED;
	}
	ret_source->list = conf.rules;
	return TOOL_OK;
}

/* Where a shell finds @name. */
static bool search_path(const char *name, char ret_path[PATH_MAX])
{
	const char *at = getenv("PATH");
	char path[PATH_MAX];
	size_t len;

	for (; at && *at; at += len + (at[len] == ':')) {
		len = strcspn(at, ":");
		if (len == 0 || len > PATH_MAX / 2)
			continue;
		if (snprintf(path, sizeof(path), "%.*s/%s", (int)len, at, name) <
			    (int)sizeof(path) &&
		    access(path, X_OK) == 0 && realpath(path, ret_path))
			return true;
	}
	return false;
}

static bool is_script(const char *path)
{
	char head[2] = "";
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	if (fread(head, 1, sizeof(head), file) != sizeof(head))
		head[0] = '\0';
	fclose(file);
	return head[0] == '#' && head[1] == '!';
}

void explain_set_program(struct explain_question *question, const char *name)
{
	bool found = strchr(name, '/') ? realpath(name, question->program) != NULL
				       : search_path(name, question->program);

	question->asked = name;
	question->is_found = found;
	question->is_script = found && is_script(question->program);
	if (!found)
		snprintf(question->program, sizeof(question->program), "%s", name);
	question->subject.program = question->program;
}

bool explain_set_user(struct explain_question *question, const char *text)
{
	struct section_error error;
	const struct passwd *user;
	struct rule rule;

	memset(&rule, 0, sizeof(rule));
	if (!text) {
		rule.uid = getuid();
		user = getpwuid(rule.uid);
		snprintf(rule.user, sizeof(rule.user), "%u", rule.uid);
		if (user)
			snprintf(rule.user, sizeof(rule.user), "%s", user->pw_name);
	} else if (rule_conf_set(&rule, "user", text, &error)) {
		return false;
	}
	memcpy(question->user, rule.user, sizeof(question->user));
	question->subject.uid = rule.uid;
	return true;
}

bool explain_set_unit(struct explain_question *question, const char *unit)
{
	int len = snprintf(question->unit, sizeof(question->unit), "%s%s%s",
			   unit[0] == '/' ? "" : "/system.slice/", unit,
			   unit[0] == '/' || strchr(unit, '.') ? "" : ".service");

	question->subject.unit = question->unit;
	return len > 0 && (size_t)len < sizeof(question->unit);
}

bool explain_set_to(struct explain_question *question, const char *text)
{
	const char *colon = strrchr(text, ':');
	char address[PEER_ADDRESS_TEXT + 2];
	size_t len = colon ? (size_t)(colon - text) : 0;
	unsigned long port;
	char *rest;

	if (len < 2 || len >= sizeof(address))
		return false;
	memcpy(address, text, len);
	address[len] = '\0';
	port = strtoul(colon + 1, &rest, 10);
	if (*rest || colon[1] < '0' || colon[1] > '9' || port < 1 || port > UINT16_MAX)
		return false;
	question->subject.port = (uint16_t)port;
	if (address[0] == '[' && address[len - 1] == ']') {
		address[len - 1] = '\0';
		return peer_address_parse(address + 1, &question->subject.to);
	}
	return !strchr(address, ':') && peer_address_parse(address, &question->subject.to);
}

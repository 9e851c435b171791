/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit_preload.h"

#define HEAD "# Written by shunt enable; shunt disable removes it.\n"
#define ASSIGNMENT "Environment=\"LD_PRELOAD="
#define VARIABLE "LD_PRELOAD="

void unit_note(struct unit_plan *plan, const char *format, ...)
{
	va_list args;

	if (plan->n_notes == UNIT_NOTES_MAX)
		return;
	va_start(args, format);
	vsnprintf(plan->notes[plan->n_notes++], UNIT_NOTE_BYTES, format, args);
	va_end(args);
}

const char *unit_word(const char *text, char *ret_word, size_t size)
{
	char quote = '\0';
	size_t n = 0;

	text += strspn(text, " \t");
	if (!*text)
		return NULL;
	for (; *text && (quote || !strchr(" \t", *text)); text++) {
		if (quote && *text == quote) {
			quote = '\0';
			continue;
		}
		if (!quote && (*text == '"' || *text == '\'')) {
			quote = *text;
			continue;
		}
		if (*text == '\\' && text[1])
			text++;
		if (n < size - 1)
			ret_word[n++] = *text;
	}
	ret_word[n] = '\0';
	return text;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Put the libraries of @value, a value of LD_PRELOAD, into @text, but our own of whatever place.
 * False: there is no room. */
static bool keep_others(const char *value, const char *library, char *text, size_t size)
{
	char one[PATH_MAX];
	size_t used = 0;

	while (*value) {
		size_t len = strcspn(value, ": ");

		if (len >= sizeof(one) || used + len + 2 > size)
			return false;
		memcpy(one, value, len);
		one[len] = '\0';
		if (len && strcmp(base_of(one), base_of(library)) != 0) {
			text[used++] = ':';
			memcpy(text + used, one, len);
			used += len;
		}
		value += len + (value[len] != '\0');
	}
	text[used] = '\0';
	return true;
}

/* What the service preloads without us, with a colon before each: the last assignment holds. */
static bool old_preload(const struct unit_settings *settings, const char *library, char *text,
			size_t size)
{
	const char *at = settings->values[UNIT_ENVIRONMENT];
	char word[PATH_MAX * 2];
	bool fits = true;

	text[0] = '\0';
	while (at && (at = unit_word(at, word, sizeof(word))) != NULL) {
		if (strncmp(word, VARIABLE, strlen(VARIABLE)) == 0)
			fits = keep_others(word + strlen(VARIABLE), library, text, size);
	}
	return fits;
}

/* A file of variables takes precedence over what units say themselves. */
static void judge_file(const struct unit_root *root, const char *path, const char *library,
		       struct unit_plan *plan)
{
	int error;
	AUTO_FREE char *text = NULL;
	char *rest, *line;

	path += *path == '-';
	if (*path != '/')
		return;
	text = unit_read_in(root, path + 1, &error);
	if (!text)
		return;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		line += strspn(line, " \t");
		if (strncmp(line, VARIABLE, strlen(VARIABLE)) == 0)
			unit_note(plan,
				  "%s sets LD_PRELOAD, which holds in place of this one: add %s "
				  "there",
				  path, library);
	}
}

static void judge_environment(const struct unit_root *root, const struct unit_settings *settings,
			      const char *library, struct unit_plan *plan)
{
	const char *at = settings->values[UNIT_ENVIRONMENT_FILE];
	char word[PATH_MAX];

	while (at && (at = unit_word(at, word, sizeof(word))) != NULL)
		judge_file(root, word, library, plan);
	at = settings->values[UNIT_UNSET_ENVIRONMENT];
	while (at && (at = unit_word(at, word, sizeof(word))) != NULL) {
		if (strcmp(word, "LD_PRELOAD") == 0)
			unit_note(plan, "UnsetEnvironment= takes LD_PRELOAD away: remove it there");
	}
	if (settings->late[0])
		unit_note(plan,
			  "%s is read later and sets the environment anew: add %s to LD_PRELOAD "
			  "there",
			  settings->late, library);
}

/* A percent sign stands for itself when it is written twice. */
static bool escape(const char *path, char *text, size_t size)
{
	size_t n = 0;

	for (; *path && n < size - 2; path++) {
		if (strchr(" :\"\\\n", *path))
			return false;
		if (*path == '%')
			text[n++] = '%';
		text[n++] = *path;
	}
	text[n] = '\0';
	return *path == '\0';
}

int unit_plan_make(const struct unit_root *root, const char *name, const char *library,
		   const struct unit_settings *settings, struct unit_plan *ret_plan)
{
	char path[PATH_MAX], old[PATH_MAX], binds[UNIT_BINDS_BYTES];
	struct unit_plan *plan = ret_plan;
	int len;

	plan->n_notes = 0;
	if (!old_preload(settings, library, old, sizeof(old))) {
		unit_note(plan, "what it preloads already is longer than %zu bytes", sizeof(old));
		return UNIT_NAME_BAD;
	}
	if (!escape(library, path, sizeof(path)) || strpbrk(old, "\"\\\n")) {
		unit_note(plan,
			  "%s%s: a path with a space, colon, quote or backslash can't be "
			  "preloaded by a unit: build or install elsewhere",
			  library, old);
		return UNIT_NAME_BAD;
	}
	unit_sandbox_judge(settings, library, plan, binds);
	judge_environment(root, settings, library, plan);
	len = snprintf(plan->text, sizeof(plan->text), HEAD "[Service]\n" ASSIGNMENT "%s%s\"\n",
		       path, old);
	if (binds[0] && len > 0 && (size_t)len < sizeof(plan->text))
		snprintf(plan->text + len, sizeof(plan->text) - (size_t)len,
			 "BindReadOnlyPaths=%s\n", binds);
	if (unit_is_template(name))
		unit_note(plan, "this is for all instances of the template");
	return 0;
}

bool unit_text_is_ours(const char *text)
{
	return strncmp(text, HEAD, strlen(HEAD)) == 0;
}

bool unit_text_library(const char *text, char ret_path[PATH_MAX])
{
	const char *at = strstr(text, ASSIGNMENT);
	size_t n = 0;

	if (!at)
		return false;
	for (at += strlen(ASSIGNMENT); *at && !strchr(":\"\n", *at) && n < PATH_MAX - 1; at++) {
		if (at[0] == '%' && at[1] == '%')
			at++;
		ret_path[n++] = *at;
	}
	ret_path[n] = '\0';
	return n > 0;
}

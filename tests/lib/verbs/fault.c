/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "double.h"
#include "fault.h"

#define FILE_MAX_BYTES 16384
#define LINE_MAX_BYTES 256

/* A line taken apart. Its counts are what changes in the file. */
struct row {
	char point[32], device[STATE_NAME_MAX], what[16], rest[LINE_MAX_BYTES];
	long count; /* -1: forever */
	long skip;
	long over;
	struct fault fault;
};

__attribute__((noreturn)) static void bad(const char *line)
{
	fprintf(stderr, "verbs double: %s/faults: cannot read: %s\n", dbl_dir(), line);
	abort();
}

static enum fault_action parse_action(const char *value)
{
	static const char *const names[] = {"none", "drop", "delay", "flush", "partial", "error"};

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], value) == 0)
			return (enum fault_action)i;
	}
	bad(value);
}

/* A key that says when: kept apart, as the counts are rewritten. True if it was one. */
static bool parse_when(struct row *row, const char *key, const char *value)
{
	if (strcmp(key, "count") == 0)
		row->count = strcmp(value, "inf") == 0 ? -1 : strtol(value, NULL, 0);
	else if (strcmp(key, "skip") == 0)
		row->skip = strtol(value, NULL, 0);
	else
		return false;
	return true;
}

static void parse_what(struct row *row, const char *key, const char *value)
{
	struct fault *fault = &row->fault;

	if (strcmp(key, "device") == 0) {
		snprintf(row->device, sizeof(row->device), "%s", value);
	} else if (strcmp(key, "what") == 0) {
		snprintf(row->what, sizeof(row->what), "%s", value);
	} else if (strcmp(key, "over") == 0) {
		row->over = strtol(value, NULL, 0);
	} else if (strcmp(key, "errno") == 0) {
		fault->has_errno = true;
		fault->errno_value = state_errno(value);
	} else if (strcmp(key, "event") == 0) {
		fault->has_event = true;
		fault->event_errno = state_errno(value);
	} else if (strcmp(key, "grant") == 0) {
		fault->has_grant = true;
		fault->grant = strtol(value, NULL, 0);
	} else if (strcmp(key, "value") == 0) {
		fault->value = strtol(value, NULL, 0);
	} else if (strcmp(key, "ms") == 0) {
		fault->ms = strtol(value, NULL, 0);
	} else if (strcmp(key, "status") == 0) {
		fault->status = strtol(value, NULL, 0);
	} else if (strcmp(key, "action") == 0) {
		fault->action = parse_action(value);
	} else {
		bad(key);
	}
	if (fault->errno_value < 0 || fault->event_errno < 0)
		bad(value);
}

/* False for an empty line or a comment. */
static bool parse(char *text, struct row *row)
{
	char *save = NULL, *word = strtok_r(text, " \t", &save);

	*row = (struct row){.count = 1, .over = -1};
	if (!word || *word == '#')
		return false;
	snprintf(row->point, sizeof(row->point), "%s", word);
	while ((word = strtok_r(NULL, " \t", &save)) != NULL) {
		char whole[LINE_MAX_BYTES];
		char *equals = strchr(word, '=');

		if (!equals)
			bad(word);
		snprintf(whole, sizeof(whole), " %s", word);
		*equals = '\0';
		if (parse_when(row, word, equals + 1))
			continue;
		parse_what(row, word, equals + 1);
		strncat(row->rest, whole, sizeof(row->rest) - strlen(row->rest) - 1);
	}
	return true;
}

static bool fits(const struct row *row, const char *point, const char *device, uint64_t amount,
		 const char *what)
{
	return strcmp(row->point, point) == 0 && row->count != 0 &&
	       (!row->device[0] || (device && strcmp(row->device, device) == 0)) &&
	       (!row->what[0] || (what && strcmp(row->what, what) == 0)) &&
	       (row->over < 0 || amount > (uint64_t)row->over);
}

/* Count a fitting row's occasion; true if the fault is due. */
static bool count_down(struct row *row)
{
	if (row->skip > 0) {
		row->skip--;
		return false;
	}
	if (row->count > 0)
		row->count--;
	return true;
}

static void print(FILE *out, const struct row *row)
{
	if (row->count == 0)
		return;
	fprintf(out, "%s%s", row->point, row->rest);
	if (row->count < 0)
		fprintf(out, " count=inf");
	else
		fprintf(out, " count=%ld", row->count);
	if (row->skip)
		fprintf(out, " skip=%ld", row->skip);
	fprintf(out, "\n");
}

static void rewrite(int fd, const char *text, size_t length)
{
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, length, 0) != (ssize_t)length) {
		fprintf(stderr, "verbs double: %s/faults: %s\n", dbl_dir(), strerror(errno));
		abort();
	}
}

/* The file, locked against the other processes; -1 if there is nothing in it. */
static int open_locked(void)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/faults", dbl_dir());
	if (stat(path, &st) < 0 || st.st_size == 0)
		return -1;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		flock(fd, LOCK_EX);
	return fd;
}

DBL_API bool fault_take(const char *point, const char *device, uint64_t amount, const char *what,
			struct fault *ret_fault)
{
	char text[FILE_MAX_BYTES], *rest = text, *line, *out_text = NULL;
	size_t out_length = 0;
	bool met = false, due = false;
	ssize_t length;
	FILE *out;
	int fd;

	if (!dbl_dir() || (fd = open_locked()) < 0)
		return false;
	length = pread(fd, text, sizeof(text) - 1, 0);
	text[length < 0 ? 0 : length] = '\0';
	out = open_memstream(&out_text, &out_length);
	while (out && (line = strsep(&rest, "\n")) != NULL) {
		struct row row;

		if (!parse(line, &row))
			continue;
		if (!met && fits(&row, point, device, amount, what)) {
			met = true;
			due = count_down(&row);
			*ret_fault = row.fault;
		}
		print(out, &row);
	}
	if (out)
		fclose(out);
	if (met)
		rewrite(fd, out_text, out_length);
	free(out_text);
	close(fd);
	return due;
}

DBL_API int fault_errno(const char *point, const char *device)
{
	struct fault fault;

	return fault_take(point, device, 0, NULL, &fault) ? fault.errno_value : 0;
}

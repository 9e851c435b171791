/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config_text.h"

/* Where we are in one file. */
struct scan {
	const char *file;
	const char *at;
	int line;
	unsigned int depth;
	struct conf_text_error *error;
};

static int look_at(const char *text, struct scan *scan);

__attribute__((format(printf, 3, 4))) static int complain(const struct scan *scan, int line,
							  const char *format, ...)
{
	va_list args;

	snprintf(scan->error->file, sizeof(scan->error->file), "%s", scan->file);
	scan->error->line = line;
	va_start(args, format);
	vsnprintf(scan->error->text, sizeof(scan->error->text), format, args);
	va_end(args);
	return CONF_TEXT_BAD;
}

/* All of the file, an end of line and a NUL. Returns its length, or -errno. */
static ssize_t read_file(const char *path, char **ret_text)
{
	size_t used = 0;
	struct stat about;
	ssize_t n = 1;
	char *text;
	int fd;

	/* A pipe would have us wait for somebody who writes. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	text = malloc(CONF_TEXT_BYTES_MAX + 2);
	if (!text)
		n = -ENOMEM;
	else if (fstat(fd, &about) < 0)
		n = -errno;
	else if (S_ISDIR(about.st_mode))
		n = -EISDIR;
	/* /dev/null is an empty file to people. */
	else if (!S_ISREG(about.st_mode) && !S_ISCHR(about.st_mode))
		n = -EINVAL;
	while (n > 0 && used <= CONF_TEXT_BYTES_MAX) {
		n = read(fd, text + used, CONF_TEXT_BYTES_MAX + 1 - used);
		if (n < 0)
			n = -errno;
		used += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	if (n >= 0 && used > CONF_TEXT_BYTES_MAX)
		n = -EFBIG;
	if (n < 0) {
		free(text);
		return n;
	}
	/* libconfig wants an end of line behind a comment. */
	text[used] = '\n';
	text[used + 1] = '\0';
	*ret_text = text;
	return (ssize_t)used;
}

static const char *why_unread(int error)
{
	switch (error) {
	case EISDIR:
		return "it is a directory";
	case EINVAL:
		return "it is no plain file";
	case EFBIG:
		return "it is larger than 1 MiB";
	default:
		return strerror(error);
	}
}

/* The length of the character of UTF-8 at @at, or 0. */
static size_t utf8_length(const unsigned char *at)
{
	size_t length = at[0] < 0x80   ? 1
			: at[0] < 0xc2 ? 0
			: at[0] < 0xe0 ? 2
			: at[0] < 0xf0 ? 3
				       : 4;

	if (at[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
	    (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	return length;
}

/* That it is text at all. */
static int check_bytes(const char *text, size_t bytes, const struct scan *scan)
{
	const unsigned char *at = (const unsigned char *)text;
	const unsigned char *end = at + bytes;
	size_t length;
	int line = 1;

	if (bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
		return complain(scan, 1,
				"the file begins with a byte order mark; save it as UTF-8 "
				"without one");
	for (; at < end; at += length) {
		if (*at == '\0')
			return complain(scan, line, "there is a NUL byte; this is no text");
		length = utf8_length(at);
		if (length == 0)
			return complain(scan, line,
					"byte 0x%02x is not UTF-8; save the file as UTF-8", *at);
		line += *at == '\n';
	}
	return 0;
}

/* Behind the quote that closes the text at scan->at. */
static int skip_string(struct scan *scan)
{
	int first = scan->line;

	for (scan->at++; *scan->at != '"'; scan->at++) {
		if (*scan->at == '\0')
			return complain(
				scan, first,
				"the text that begins here is never closed; put a \" at its "
				"end");
		if (*scan->at == '\\' && scan->at[1])
			scan->at++;
		scan->line += *scan->at == '\n';
	}
	scan->at++;
	return 0;
}

static int skip_comment(struct scan *scan)
{
	int first = scan->line;

	for (scan->at += 2; strncmp(scan->at, "*/", 2) != 0; scan->at++) {
		if (*scan->at == '\0')
			return complain(scan, first,
					"the comment that begins here is never closed; put a */ at "
					"its end");
		scan->line += *scan->at == '\n';
	}
	scan->at += 2;
	return 0;
}

/* A number, decimal or hexadecimal, as libconfig knows them: of 32 bits, or of 64 with an L. */
static int check_number(struct scan *scan)
{
	const char *first = scan->at;
	bool is_hex = first[0] == '0' && (first[1] == 'x' || first[1] == 'X');
	unsigned long long value;
	bool is_long;
	char *rest;

	errno = 0;
	value = strtoull(first, &rest, is_hex ? 16 : 10);
	is_long = *rest == 'L' || *rest == 'l';
	scan->at = rest;
	/* 1.5, 1e9, 5x: not whole, and told by those who read the value. */
	if (*rest == '.' || isalnum((unsigned char)*rest)) {
		while (isalnum((unsigned char)*scan->at) || *scan->at == '.')
			scan->at++;
		if (!is_long)
			return 0;
	}
	if (errno || value > INT64_MAX)
		return complain(scan, scan->line,
				"%.*s is larger than any setting may be (2^63 - 1)",
				(int)(rest - first > 40 ? 40 : rest - first), first);
	if (!is_long && value > (is_hex ? UINT32_MAX : INT32_MAX))
		return complain(scan, scan->line,
				"%.*s needs an L at its end, as each number above 2147483647",
				(int)(rest - first), first);
	return 0;
}

/* At an @include: the file, if there is one named. */
static int check_include(struct scan *scan)
{
	struct scan inner = {.line = 1, .depth = scan->depth + 1, .error = scan->error};
	AUTO_FREE char *text = NULL;
	char path[256];
	size_t length;
	ssize_t n;
	int rc;

	scan->at += strlen("@include");
	while (*scan->at == ' ' || *scan->at == '\t')
		scan->at++;
	length = *scan->at == '"' ? strcspn(scan->at + 1, "\"\n") : 0;
	if (length == 0 || length >= sizeof(path) || scan->at[length + 1] != '"')
		return complain(scan, scan->line,
				"@include must be followed by a file in quotes: @include "
				"\"/etc/shunt.d/own.conf\"");
	memcpy(path, scan->at + 1, length);
	path[length] = '\0';
	scan->at += length + 2;
	if (inner.depth > CONF_TEXT_DEPTH_MAX)
		return complain(
			scan, scan->line,
			"%.100s is included more than %u files deep; does it include itself?", path,
			CONF_TEXT_DEPTH_MAX);
	n = read_file(path, &text);
	if (n < 0)
		return complain(scan, scan->line,
				"%.100s can't be included: %s; give the full path of a file", path,
				why_unread((int)-n));
	inner.file = path;
	rc = check_bytes(text, (size_t)n, &inner);
	return rc ? rc : look_at(text, &inner);
}

static int look_at(const char *text, struct scan *scan)
{
	int rc = 0;

	for (scan->at = text; *scan->at && rc == 0;) {
		unsigned char c = (unsigned char)*scan->at;

		if (c == '"')
			rc = skip_string(scan);
		else if (c == '#' || strncmp(scan->at, "//", 2) == 0)
			scan->at += strcspn(scan->at, "\n");
		else if (strncmp(scan->at, "/*", 2) == 0)
			rc = skip_comment(scan);
		else if (strncmp(scan->at, "@include", 8) == 0)
			rc = check_include(scan);
		else if (isdigit(c))
			rc = check_number(scan);
		else if (isalpha(c) || c == '_' || c == '*')
			while (isalnum((unsigned char)*scan->at) || strchr("_*-", *scan->at)) {
				if (*scan->at == '\0')
					break;
				scan->at++;
			}
		else
			scan->line += *scan->at++ == '\n';
	}
	return rc;
}

int conf_text_read(const char *path, char **ret_text, struct conf_text_error *ret_error)
{
	struct scan scan = {.file = path, .line = 1, .error = ret_error};
	AUTO_FREE char *text = NULL;
	ssize_t n = read_file(path, &text);
	int rc;

	if (n < 0) {
		complain(&scan, 0, "can't be read: %s", why_unread((int)-n));
		return (int)n;
	}
	rc = check_bytes(text, (size_t)n, &scan);
	if (!rc)
		rc = look_at(text, &scan);
	if (!rc) {
		*ret_text = text;
		text = NULL;
	}
	return rc;
}

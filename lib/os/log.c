/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/log.h"
#include "os/sys.h"

#define LOG_CUT "..."

static struct {
	_Atomic(const char *) ident;
	_Atomic int level;
	_Atomic bool journal;
	log_sink_fn *sink;
	void *ctx;
} log_state = {"shunt", LOG_LEVEL_INFO, false, NULL, NULL};

static const char *log_level_name(enum log_level level)
{
	switch (level) {
	case LOG_LEVEL_ERROR:
		return "error: ";
	case LOG_LEVEL_WARNING:
		return "warning: ";
	case LOG_LEVEL_DEBUG:
		return "debug: ";
	case LOG_LEVEL_NOTICE:
	case LOG_LEVEL_INFO:
		break;
	}
	return "";
}

/* JOURNAL_STREAM is inherited by those whose standard error is something else: systemd.exec(5)
 * says to compare device and inode. */
static bool log_stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2)
		return false;
	return sys_fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void log_init(const char *ident)
{
	atomic_store_explicit(&log_state.ident, ident, memory_order_relaxed);
	atomic_store_explicit(&log_state.journal, log_stderr_is_journal(), memory_order_relaxed);
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_state.level, (int)level, memory_order_relaxed);
}

void log_set_sink(log_sink_fn *sink, void *ctx)
{
	log_state.sink = sink;
	log_state.ctx = ctx;
}

bool log_is_on(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_state.level, memory_order_relaxed);
}

static size_t log_prefix(char *line, size_t size, enum log_level level)
{
	int len;

	if (log_state.sink)
		return 0;
	if (atomic_load_explicit(&log_state.journal, memory_order_relaxed))
		len = snprintf(line, size, "<%d>", (int)level);
	else
		len = snprintf(line, size, "%.32s: %s",
			       atomic_load_explicit(&log_state.ident, memory_order_relaxed),
			       log_level_name(level));
	return len < 0 ? 0 : (size_t)len;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	char line[LOG_LINE_BYTES];
	size_t start, len;
	va_list args;
	int n;

	if (!log_is_on(level))
		return;
	start = log_prefix(line, sizeof(line), level);
	line[start] = '\0';
	va_start(args, fmt);
	n = vsnprintf(line + start, sizeof(line) - start, fmt, args);
	va_end(args);
	len = start + (n < 0 ? 0 : (size_t)n);
	/* The newline takes the place of the terminator. */
	if (len > sizeof(line) - 1) {
		len = sizeof(line) - 1;
		memcpy(line + len - strlen(LOG_CUT), LOG_CUT, strlen(LOG_CUT));
	}
	for (size_t i = start; i < len; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	if (log_state.sink) {
		log_state.sink(log_state.ctx, level, line);
	} else {
		line[len] = '\n';
		sys_write(STDERR_FILENO, line, len + 1);
	}
	errno = saved_errno;
}

bool log_limit_pass(struct log_limit *limit, uint64_t now_ns, unsigned int *ret_withheld)
{
	if (now_ns - limit->since_ns >= limit->interval_ns) {
		limit->since_ns = now_ns;
		limit->passed = 0;
	}
	if (limit->passed >= limit->burst) {
		limit->withheld++;
		return false;
	}
	limit->passed++;
	*ret_withheld = limit->withheld;
	limit->withheld = 0;
	return true;
}

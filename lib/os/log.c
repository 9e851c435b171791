/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/log.h"
#include "os/sys.h"

#define LOG_CUT "..."

/* What a line begins with where it goes to the journal: as an entry, or by standard error. */
#define LOG_MESSAGE "MESSAGE="
#define LOG_PRIORITY "<%d>"
#define LOG_PRIORITY_LEN 3u

static struct {
	_Atomic(const char *) ident;
	_Atomic int level;
	_Atomic bool journal;
	log_sink_fn *sink;
	void *ctx;
	log_journal_fn *to_journal;
} log_state = {"shunt", LOG_LEVEL_INFO, false, NULL, NULL, NULL};

/* What a line is, beside its text. */
struct log_line {
	enum log_level level;
	const struct log_kind *kind; /* NULL: none in particular */
	const struct log_fact *facts;
};

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

void log_set_journal(log_journal_fn *journal)
{
	log_state.to_journal = journal;
}

bool log_is_on(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_state.level, memory_order_relaxed);
}

static bool log_is_journal(void)
{
	return atomic_load_explicit(&log_state.journal, memory_order_relaxed);
}

static size_t log_prefix(char *line, size_t size, enum log_level level)
{
	int len;

	if (log_state.sink)
		return 0;
	if (log_is_journal() && log_state.to_journal)
		len = snprintf(line, size, LOG_MESSAGE);
	else if (log_is_journal())
		len = snprintf(line, size, LOG_PRIORITY, (int)level);
	else
		len = snprintf(line, size, "%.32s: %s",
			       atomic_load_explicit(&log_state.ident, memory_order_relaxed),
			       log_level_name(level));
	return len < 0 ? 0 : (size_t)len;
}

/* Nothing that a terminal, or whoever reads lines, would take for more than text. */
static void log_tame(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = '?';
}

/* Every field of an entry but its message. */
struct log_entry {
	int n;
	struct iovec fields[LOG_FACTS_MAX + 5];
	char texts[LOG_FACTS_MAX + 4][LOG_FACT_BYTES];
};

__attribute__((format(printf, 2, 3))) static void log_add(struct log_entry *entry, const char *fmt,
							  ...)
{
	char *text = entry->texts[entry->n];
	size_t len;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, LOG_FACT_BYTES, fmt, args);
	va_end(args);
	len = n < 0 ? 0 : (size_t)n;
	if (len >= LOG_FACT_BYTES) {
		len = LOG_FACT_BYTES - 1;
		memcpy(text + len - strlen(LOG_CUT), LOG_CUT, strlen(LOG_CUT));
	}
	log_tame(text, len);
	entry->fields[entry->n++] = (struct iovec){text, len};
}

/* 0, or -errno when the journal does not take it. */
static int log_to_journal(const struct log_line *line, const struct iovec *message)
{
	struct log_entry entry;
	const struct log_fact *fact = line->facts;

	entry.n = 0;
	log_add(&entry, "PRIORITY=%d", (int)line->level);
	log_add(&entry, "SYSLOG_IDENTIFIER=%s",
		atomic_load_explicit(&log_state.ident, memory_order_relaxed));
	if (line->kind) {
		log_add(&entry, "MESSAGE_ID=%s", line->kind->id);
		log_add(&entry, "SHUNT_EVENT=%s", line->kind->name);
	}
	for (size_t i = 0; fact && fact->name && i < LOG_FACTS_MAX; i++, fact++) {
		if (fact->text)
			log_add(&entry, "%s=%s", fact->name, fact->text);
		else
			log_add(&entry, "%s=%" PRIi64, fact->name, fact->number);
	}
	entry.fields[entry.n++] = *message;
	return log_state.to_journal(entry.fields, entry.n);
}

/* @text: the line with its prefix, @len bytes, and room for one more. */
static void log_out(const struct log_line *line, char *text, size_t len)
{
	if (log_state.sink) {
		log_state.sink(log_state.ctx, line->level, text);
		return;
	}
	if (log_is_journal() && log_state.to_journal) {
		const struct iovec message = {text, len};
		const size_t spare = strlen(LOG_MESSAGE) - LOG_PRIORITY_LEN;
		char priority[LOG_PRIORITY_LEN + 1];

		if (log_to_journal(line, &message) >= 0)
			return;
		snprintf(priority, sizeof(priority), LOG_PRIORITY, (int)line->level & 7);
		text += spare;
		len -= spare;
		memcpy(text, priority, LOG_PRIORITY_LEN);
	}
	/* The newline takes the place of the terminator. */
	text[len] = '\n';
	sys_write(STDERR_FILENO, text, len + 1);
}

__attribute__((format(printf, 2, 0))) static void log_compose(const struct log_line *line,
							      const char *fmt, va_list args)
{
	int saved_errno = errno;
	char text[LOG_LINE_BYTES];
	size_t start, len;
	int n;

	start = log_prefix(text, sizeof(text), line->level);
	text[start] = '\0';
	n = vsnprintf(text + start, sizeof(text) - start, fmt, args);
	len = start + (n < 0 ? 0 : (size_t)n);
	if (len > sizeof(text) - 1) {
		len = sizeof(text) - 1;
		memcpy(text + len - strlen(LOG_CUT), LOG_CUT, strlen(LOG_CUT));
	}
	log_tame(text + start, len - start);
	log_out(line, text, len);
	errno = saved_errno;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	const struct log_line line = {.level = level};
	va_list args;

	if (!log_is_on(level))
		return;
	va_start(args, fmt);
	log_compose(&line, fmt, args);
	va_end(args);
}

void log_event(const struct log_kind *kind, const struct log_fact *facts, const char *fmt, ...)
{
	const struct log_line line = {.level = kind->level, .kind = kind, .facts = facts};
	va_list args;

	if (!log_is_on(kind->level))
		return;
	va_start(args, fmt);
	log_compose(&line, fmt, args);
	va_end(args);
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

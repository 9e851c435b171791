/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * Log lines: one line per event, in one write(2), to standard error or to a callback.
 *
 *	shuntd: warning: uid 1000: over its quota of 64 connections, this one stays on TCP
 *
 * Where standard error is the journal's (JOURNAL_STREAM names it), the line goes there with its
 * fields, if log_set_journal() said how; else it begins with <N>, the priority of sd-daemon(3), in
 * place of the name. Control characters of a message become '?', since it may quote what a client
 * sent. Any thread; not from signal handlers (printf formats); errno left alone. Libraries log at
 * debug only.
 *
 * A line of a known kind (log_event()) can be found in the journal without knowing its words: by
 * the kind's MESSAGE_ID, and by the facts that go with it, each a field of its own:
 *
 *	journalctl MESSAGE_ID=be08517ec1e34ce7a5146296e87dcbc3 SHUNT_DEVICE=mlx5_0
 */

/* Longest line, bytes; the rest of the message is cut off and marked. Chosen. */
#define LOG_LINE_BYTES 1024u

/* Most facts of a line, and the longest, its name included; more is cut off. Chosen: a path or the
 * text of a reason fits. */
#define LOG_FACTS_MAX 6u
#define LOG_FACT_BYTES 320u

/* Numbered as syslog's priorities. */
enum log_level {
	LOG_LEVEL_ERROR = 3,
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_NOTICE = 5,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7,
};

/* Receives each line without prefix and newline, of any thread; must not log. */
typedef void log_sink_fn(void *ctx, enum log_level level, const char *line);

/* Set the name before the lines (kept, not copied; "shunt" at first), look at JOURNAL_STREAM. */
void log_init(const char *ident);

/* Most verbose level that is written: LOG_LEVEL_INFO at first. */
void log_set_level(enum log_level level);

/* Send lines to @sink (NULL: standard error again). Before other threads log. */
void log_set_sink(log_sink_fn *sink, void *ctx);

/*
 * Write one entry to the journal: @n fields "NAME=value", none with a control character. 0, or
 * -errno: the line is written to standard error then. Any thread; must not log.
 */
typedef int log_journal_fn(const struct iovec *fields, int n);

/* How entries get to the journal (NULL: as lines by standard error). Before other threads log. */
void log_set_journal(log_journal_fn *journal);

bool log_is_on(enum log_level level);

__attribute__((format(printf, 2, 3))) void log_write(enum log_level level, const char *fmt, ...);

/* The arguments are not evaluated when the level is off. */
#define log_at(level, ...)                                                                         \
	do {                                                                                       \
		if (log_is_on(level))                                                              \
			log_write(level, __VA_ARGS__);                                             \
	} while (0)

#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_at(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* A kind of line. */
struct log_kind {
	const char *name;     /* SHUNT_EVENT, like "device-ready" */
	const char *id;	      /* MESSAGE_ID: 32 hexadecimal digits, never changed once given */
	enum log_level level; /* of each such line */
};

/* What a line says, as a field of its own: @text, or @number if that is NULL. */
struct log_fact {
	const char *name; /* "SHUNT_DEVICE"; NULL ends a list */
	const char *text;
	int64_t number;
};

/* A list of facts in place: LOG_FACTS(LOG_TEXT("SHUNT_DEVICE", name), LOG_NUMBER("SHUNT_UID",
 * uid)).
 */
#define LOG_FACTS(...) ((const struct log_fact[]){__VA_ARGS__, {.name = NULL}})
#define LOG_TEXT(field, value)                                                                     \
	{                                                                                          \
		.name = (field), .text = (value)                                                   \
	}
#define LOG_NUMBER(field, value)                                                                   \
	{                                                                                          \
		.name = (field), .number = (int64_t)(value)                                        \
	}

/*
 * Write a line of @kind. @facts: up to a name that is NULL; not needed elsewhere than in the
 * journal, so the text has to say the same. Secrets have no place in either.
 */
__attribute__((format(printf, 3, 4))) void
log_event(const struct log_kind *kind, const struct log_fact *facts, const char *fmt, ...);

/*
 * A limit on one kind of line: at most @burst per @interval_ns. Zero the rest. One thread.
 */
struct log_limit {
	unsigned int burst;
	uint64_t interval_ns;
	/* private */
	uint64_t since_ns;
	unsigned int passed, withheld;
};

/*
 * Whether a line may be written at @now_ns. If so, *@ret_withheld is how many were not since the
 * last one that was: say so in the line.
 */
bool log_limit_pass(struct log_limit *limit, uint64_t now_ns, unsigned int *ret_withheld);

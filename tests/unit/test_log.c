/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/log.h"

#include "lib/child.h"
#include "lib/tap.h"

struct last {
	unsigned int n;
	enum log_level level;
	char line[2 * LOG_LINE_BYTES];
};

static void keep(void *ctx, enum log_level level, const char *line)
{
	struct last *last = ctx;

	last->n++;
	last->level = level;
	snprintf(last->line, sizeof(last->line), "%s", line);
}

static int evaluated(void)
{
	CHECK(false);
	return 1;
}

TAP_CASE(levels_and_callback)
{
	struct last last = {0};

	log_set_sink(keep, &last);
	errno = 77;
	log_info("number %d", 5);
	CHECK_EQ(errno, 77);
	CHECK_EQ(last.n, 1);
	CHECK_EQ(last.level, LOG_LEVEL_INFO);
	CHECK_STR(last.line, "number 5");
	log_debug("%d", evaluated());
	CHECK_EQ(last.n, 1);
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("seen");
	CHECK_EQ(last.n, 2);
	log_set_level(LOG_LEVEL_ERROR);
	log_warning("unseen");
	log_error("error");
	CHECK_EQ(last.n, 3);
	log_set_level(LOG_LEVEL_INFO);
	log_set_sink(NULL, NULL);
}

TAP_CASE(message_stays_one_bounded_line)
{
	struct last last = {0};
	char text[2 * LOG_LINE_BYTES];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_set_sink(keep, &last);
	log_info("a\nb\rc\033[1md\x7f€");
	CHECK_STR(last.line, "a?b?c?[1md?€");
	log_info("%s", text);
	CHECK_EQ(strlen(last.line), LOG_LINE_BYTES - 1);
	CHECK_STR(last.line + LOG_LINE_BYTES - 5, "x...");
	log_set_sink(NULL, NULL);
}

struct journal {
	unsigned int n;
	int result;
	char text[4096]; /* the fields of the last entry, a line each */
};

static struct journal journal;

static int to_journal(const struct iovec *fields, int n)
{
	size_t at = 0;

	journal.n++;
	journal.text[0] = '\0';
	for (int i = 0; i < n; i++)
		at += (size_t)snprintf(journal.text + at, sizeof(journal.text) - at, "%.*s\n",
				       (int)fields[i].iov_len, (const char *)fields[i].iov_base);
	return journal.result;
}

static const struct log_kind kind = {"cat-seen", "0123456789abcdef0123456789abcdef",
				     LOG_LEVEL_WARNING};

/* Standard error is a memfd that JOURNAL_STREAM names. */
static void be_journal(int fd)
{
	char stream[64];
	struct stat st;

	CHECK_EQ(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	CHECK_EQ(fstat(fd, &st), 0);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_init("test");
	log_set_journal(to_journal);
}

static void fields_to_journal(void *arg)
{
	int fd = memfd_create("stderr", MFD_CLOEXEC);
	char got[256] = "", path[600];

	(void)arg;
	be_journal(fd);
	errno = 5;
	log_event(&kind, LOG_FACTS(LOG_TEXT("SHUNT_CAT", "a\nb"), LOG_NUMBER("SHUNT_UID", -7)),
		  "cat %s", "x\ny");
	CHECK_EQ(errno, 5);
	CHECK_STR(journal.text, "PRIORITY=4\nSYSLOG_IDENTIFIER=test\n"
				"MESSAGE_ID=0123456789abcdef0123456789abcdef\n"
				"SHUNT_EVENT=cat-seen\nSHUNT_CAT=a?b\nSHUNT_UID=-7\n"
				"MESSAGE=cat x?y\n");
	log_info("plain");
	CHECK_STR(journal.text, "PRIORITY=6\nSYSLOG_IDENTIFIER=test\nMESSAGE=plain\n");
	CHECK_EQ(journal.n, 2);
	/* What is too long is cut, and too many facts are left out. */
	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	log_event(&kind,
		  LOG_FACTS(LOG_TEXT("F1", path), LOG_TEXT("F2", ""), LOG_NUMBER("F3", 3),
			    LOG_NUMBER("F4", 4), LOG_NUMBER("F5", 5), LOG_NUMBER("F6", 6),
			    LOG_NUMBER("F7", 7)),
		  "long");
	CHECK(strstr(journal.text, "pp...\nF2=\nF3=3\nF4=4\nF5=5\nF6=6\nMESSAGE=long\n"));
	/* Nothing has gone by standard error; what the journal does not take does. */
	CHECK_EQ(pread(fd, got, sizeof(got), 0), 0);
	journal.result = -ENOBUFS;
	log_event(&kind, LOG_FACTS(LOG_NUMBER("F", 1)), "refused");
	CHECK_EQ(pread(fd, got, sizeof(got), 0), 11);
	CHECK_STR(got, "<4>refused\n");
}

TAP_CASE(fields_go_to_the_journal)
{
	child_run(CHILD_UID_SAME, fields_to_journal, NULL);
}

/* Where standard error is no journal's nobody is asked, and the line is as ever. */
TAP_CASE(events_elsewhere_are_lines)
{
	struct last last = {0};

	log_set_sink(keep, &last);
	log_set_journal(to_journal);
	log_event(&kind, LOG_FACTS(LOG_NUMBER("F", 1)), "cat %d", 3);
	CHECK_EQ(last.n, 1);
	CHECK_EQ(last.level, LOG_LEVEL_WARNING);
	CHECK_STR(last.line, "cat 3");
	log_set_level(LOG_LEVEL_ERROR);
	log_event(&kind, NULL, "unseen");
	CHECK_EQ(last.n, 1);
	CHECK_EQ(journal.n, 0);
	log_set_level(LOG_LEVEL_INFO);
	log_set_journal(NULL);
	log_set_sink(NULL, NULL);
}

/* Standard error is a memfd here; with @arg, JOURNAL_STREAM names it. */
static void to_stderr(void *arg)
{
	char got[4096] = "", stream[64];
	struct stat st;
	int fd = memfd_create("stderr", 0);

	CHECK(dup2(fd, STDERR_FILENO) == STDERR_FILENO && fstat(fd, &st) == 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino + (arg ? 0 : 1));
	setenv("JOURNAL_STREAM", stream, 1);
	log_init("unit");
	log_warning("careful");
	log_info("calm");
	CHECK(pread(fd, got, sizeof(got) - 1, 0) > 0);
	CHECK_STR(got, arg ? "<4>careful\n<6>calm\n" : "unit: warning: careful\nunit: calm\n");
}

TAP_CASE(journal_gets_priorities)
{
	child_run(CHILD_UID_SAME, to_stderr, (void *)"journal");
}

TAP_CASE(others_get_names)
{
	child_run(CHILD_UID_SAME, to_stderr, NULL);
}

TAP_CASE(limit_counts_what_it_withheld)
{
	struct log_limit limit = {.burst = 2, .interval_ns = 100};
	unsigned int withheld = 99;

	CHECK(log_limit_pass(&limit, 1000, &withheld));
	CHECK_EQ(withheld, 0);
	CHECK(log_limit_pass(&limit, 1050, &withheld));
	CHECK(!log_limit_pass(&limit, 1051, &withheld));
	CHECK(!log_limit_pass(&limit, 1099, &withheld));
	CHECK(log_limit_pass(&limit, 1100, &withheld));
	CHECK_EQ(withheld, 2);
	CHECK(log_limit_pass(&limit, 1101, &withheld));
	CHECK_EQ(withheld, 0);
}

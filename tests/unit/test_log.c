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

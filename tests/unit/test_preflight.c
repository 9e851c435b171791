/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "fabric/preflight.h"

#include "lib/child.h"
#include "lib/tap.h"

/* A host made of files. Its devices nodes are plain files: access rights are what is looked at. */
static char root[32];

__attribute__((format(printf, 2, 3))) static void put(const char *text, const char *format, ...)
{
	char path[256];
	int used = snprintf(path, sizeof(path), "%s/", root);
	va_list args;
	int fd;

	va_start(args, format);
	vsnprintf(path + used, sizeof(path) - (size_t)used, format, args);
	va_end(args);
	for (char *at = path + used; (at = strchr(at, '/')) != NULL; *at++ = '/') {
		*at = '\0';
		mkdir(path, 0755);
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	chmod(path, 0666);
}

static void host_make(void)
{
	strcpy(root, "/tmp/shunt-host-XXXXXX");
	CHECK(mkdtemp(root));
	chmod(root, 0755);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static void host_remove(void)
{
	CHECK_OK(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS));
}

static void host_device(const char *name, const char *node)
{
	char line[64];

	snprintf(line, sizeof(line), "%s\n", name);
	put("", "sys/class/infiniband/%s/node_guid", name);
	put(line, "sys/class/infiniband_verbs/%s/ibdev", node);
	put("", "dev/infiniband/%s", node);
	put("", "dev/infiniband/rdma_cm");
}

static struct preflight check(const char *const *listed, size_t n)
{
	const struct preflight_config config = {
		.root = root,
		.listed = listed,
		.n_listed = n,
		.memlock_bytes = 2u << 20,
		.memlock_limit = UINT64_MAX,
	};
	static struct preflight preflight;

	preflight_check(&config, &preflight);
	return preflight;
}

/* One line of kind @what that says all of the words, which end with NULL. */
static void expect_line(const struct preflight *preflight, enum preflight_what what, ...)
{
	const struct preflight_line *line = NULL;
	const char *word;
	va_list args;
	int n = 0;

	for (size_t i = 0; i < preflight->n; i++) {
		if (preflight->lines[i].what == what) {
			line = &preflight->lines[i];
			n++;
		}
	}
	tap_diag("%s", line ? line->text : "(none)");
	if (!CHECK_EQ(n, 1))
		return;
	CHECK(!strchr(line->text, '\n'));
	CHECK(line->found_len > 0 && line->found_len <= strlen(line->text));
	/* What could not even be listed is all that is known. */
	if (line->what != PREFLIGHT_NO_LIST)
		CHECK(strlen(preflight_remedy(line)) > 10 && preflight_remedy(line)[0] != ' ');
	va_start(args, what);
	while ((word = va_arg(args, const char *)) != NULL) {
		if (!CHECK(strstr(line->text, word)))
			tap_diag("it does not say \"%s\"", word);
	}
	va_end(args);
}

TAP_CASE(a_good_host_gives_no_line)
{
	static const char *const listed[] = {"rxe0"};

	host_make();
	host_device("rxe0", "uverbs0");
	CHECK_EQ(check(listed, 1).n, 0);
	host_remove();
}

TAP_CASE(no_device_at_all)
{
	struct preflight preflight;

	host_make();
	preflight = check(NULL, 0);
	CHECK_EQ(preflight.n, 1);
	expect_line(&preflight, PREFLIGHT_NO_DEVICE, "no RDMA device", "rdma_rxe", "TCP", NULL);
	host_remove();
}

/* The double: devices that only the library knows. */
TAP_CASE(a_listed_device_needs_no_kernel)
{
	static const char *const listed[] = {"double0"};

	host_make();
	CHECK_EQ(check(listed, 1).n, 0);
	host_remove();
}

TAP_CASE(listing_that_fails_says_why)
{
	const struct preflight_config config = {.root = root, .list_error = -EPERM};
	struct preflight preflight;

	host_make();
	preflight_check(&config, &preflight);
	CHECK_EQ(preflight.n, 1);
	expect_line(&preflight, PREFLIGHT_NO_LIST, "not permitted", NULL);
	host_remove();
}

TAP_CASE(modules_and_nodes_that_are_missing)
{
	static const char *const listed[] = {"rxe0"};
	struct preflight preflight;

	host_make();
	put("", "sys/class/infiniband/rxe0/node_guid");
	preflight = check(listed, 1);
	CHECK_EQ(preflight.n, 2);
	expect_line(&preflight, PREFLIGHT_NO_UVERBS, "rxe0", "modprobe ib_uverbs", NULL);
	expect_line(&preflight, PREFLIGHT_NO_CM, "modprobe rdma_ucm", NULL);
	put("rxe0\n", "sys/class/infiniband_verbs/uverbs7/ibdev");
	preflight = check(listed, 1);
	expect_line(&preflight, PREFLIGHT_NO_UVERBS, "/dev/infiniband/uverbs7", "container", NULL);
	host_remove();
}

TAP_CASE(a_device_without_a_provider)
{
	static const char *const listed[] = {"rxe0"};
	struct preflight preflight;

	host_make();
	host_device("rxe0", "uverbs0");
	host_device("irdma0", "uverbs1");
	preflight = check(listed, 1);
	CHECK_EQ(preflight.n, 1);
	expect_line(&preflight, PREFLIGHT_NO_PROVIDER, "irdma0", "ibverbs-providers", NULL);
	host_remove();
}

/* Rights are only felt without capabilities. */
static void as_nobody(void *arg)
{
	static const char *const listed[] = {"rxe0"};
	struct preflight preflight;
	char path[64];

	(void)arg;
	preflight = check(listed, 1);
	CHECK_EQ(preflight.n, 2);
	expect_line(&preflight, PREFLIGHT_UVERBS_DENIED, "rxe0", "/dev/infiniband/uverbs0",
		    "Permission denied", "chmod 666", NULL);
	expect_line(&preflight, PREFLIGHT_CM_DENIED, "rdma_cm", "group daemon", NULL);
	snprintf(path, sizeof(path), "%s/dev/infiniband/uverbs0", root);
	CHECK_EQ(access(path, R_OK), -1);
}

static void as_nobody_outside(void *arg)
{
	struct preflight preflight;

	(void)arg;
	preflight = check(NULL, 0);
	expect_line(&preflight, PREFLIGHT_UVERBS_DENIED, "folder is closed",
		    "chmod 755 /dev/infiniband", "rdma-core", NULL);
}

TAP_CASE(nodes_that_may_not_be_opened)
{
	char path[64];

	if (!child_can_switch())
		SKIP("only root can make files that others may not open, and become one of them");
	host_make();
	host_device("rxe0", "uverbs0");
	snprintf(path, sizeof(path), "%s/dev/infiniband/uverbs0", root);
	CHECK_OK(chmod(path, 0600));
	snprintf(path, sizeof(path), "%s/dev/infiniband/rdma_cm", root);
	CHECK_OK(chmod(path, 0660));
	CHECK_OK(chown(path, 0, 1)); /* group daemon, on every system */
	child_run(CHILD_UID_OTHER, as_nobody, NULL);
	snprintf(path, sizeof(path), "%s/dev/infiniband", root);
	CHECK_OK(chmod(path, 0700));
	child_run(CHILD_UID_OTHER, as_nobody_outside, NULL);
	host_remove();
}

TAP_CASE(locked_memory)
{
	static const char *const listed[] = {"rxe0"};
	struct preflight_config config = {
		.root = root,
		.listed = listed,
		.n_listed = 1,
		.memlock_bytes = (2u << 20) + 1,
		.memlock_limit = 64 << 10,
	};
	struct preflight preflight;

	host_make();
	host_device("rxe0", "uverbs0");
	preflight_check(&config, &preflight);
	CHECK_EQ(preflight.n, 1);
	expect_line(&preflight, PREFLIGHT_MEMLOCK, "64 KiB", "2049 KiB", "LimitMEMLOCK=infinity",
		    "ulimit -l", NULL);
	config.may_lock = true;
	preflight_check(&config, &preflight);
	CHECK_EQ(preflight.n, 0);
	config.may_lock = false;
	config.memlock_limit = config.memlock_bytes;
	preflight_check(&config, &preflight);
	CHECK_EQ(preflight.n, 0);
	host_remove();
}

/* Many devices: the lines are bounded, each is whole. */
TAP_CASE(lines_are_bounded)
{
	struct preflight preflight;
	char name[16];

	host_make();
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "rxe%d", i);
		put("", "sys/class/infiniband/%s/node_guid", name);
	}
	preflight = check(NULL, 0);
	CHECK_EQ(preflight.n, PREFLIGHT_LINES_MAX);
	for (size_t i = 0; i < preflight.n; i++)
		CHECK(strlen(preflight.lines[i].text) < PREFLIGHT_TEXT_BYTES - 1);
	host_remove();
}

static void with_limit(void *arg)
{
	const struct rlimit limit = {64 << 10, 128 << 10};
	uint64_t bytes;
	bool may_lock;

	(void)arg;
	CHECK_OK(setrlimit(RLIMIT_MEMLOCK, &limit));
	preflight_memlock(&bytes, &may_lock);
	CHECK_EQ(bytes, 128 << 10); /* the soft limit was raised */
	CHECK(!may_lock);
}

TAP_CASE(the_process_knows_its_own_limit)
{
	child_run(child_can_switch() ? CHILD_UID_OTHER : CHILD_UID_SAME, with_limit, NULL);
}

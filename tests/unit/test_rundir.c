/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fd.h"
#include "os/rundir.h"
#include "os/sys.h"

#include "lib/child.h"
#include "lib/tap.h"

static char scratch[64];

/* A directory that anybody may write, as /tmp is. */
static bool scratch_make(void)
{
	snprintf(scratch, sizeof(scratch), "%s", "/tmp/shunt-unit-XXXXXX");
	return CHECK(mkdtemp(scratch)) && CHECK(chmod(scratch, 01777) == 0);
}

static struct rundir in_scratch(enum rundir_kind kind, const char *name)
{
	struct rundir dir = {.kind = kind};

	snprintf(dir.path, sizeof(dir.path), "%s/%s", scratch, name);
	return dir;
}

static int opens(int fd)
{
	fd_close(fd);
	return fd < 0 ? fd : 0;
}

TAP_CASE(candidates_in_order)
{
	struct rundir dirs[RUNDIR_CANDIDATES_MAX];
	char tmp[64], longest[256];

	snprintf(tmp, sizeof(tmp), "/tmp/shunt-%u", geteuid());
	unsetenv("SHUNT_RUNTIME_DIR");
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	CHECK_EQ(rundir_candidates(dirs), 3);
	CHECK_STR(dirs[0].path, "/run/shunt");
	CHECK_EQ(dirs[0].kind, RUNDIR_SYSTEM);
	CHECK_STR(dirs[1].path, "/run/user/7/shunt");
	CHECK_EQ(dirs[1].kind, RUNDIR_XDG);
	CHECK_STR(dirs[2].path, tmp);
	CHECK_EQ(dirs[2].kind, RUNDIR_TMP);
	unsetenv("XDG_RUNTIME_DIR");
	CHECK_EQ(rundir_candidates(dirs), 2);
	CHECK_STR(dirs[1].path, tmp);
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	CHECK_EQ(rundir_candidates(dirs), 2);
	setenv("XDG_RUNTIME_DIR", "", 1);
	CHECK_EQ(rundir_candidates(dirs), 2);
	setenv("SHUNT_RUNTIME_DIR", "/somewhere", 1);
	CHECK_EQ(rundir_candidates(dirs), 1);
	CHECK_STR(dirs[0].path, "/somewhere");
	CHECK_EQ(dirs[0].kind, RUNDIR_OVERRIDE);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	setenv("SHUNT_RUNTIME_DIR", longest, 1);
	CHECK_EQ(rundir_candidates(dirs), 0);
	longest[RUNDIR_PATH_MAX - 1] = '\0';
	setenv("SHUNT_RUNTIME_DIR", longest, 1);
	CHECK_EQ(rundir_candidates(dirs), 1);
	unsetenv("SHUNT_RUNTIME_DIR");
}

TAP_CASE(socket_address_fits)
{
	struct rundir dir = {.kind = RUNDIR_OVERRIDE, .path = "/x"};
	struct sockaddr_un addr;
	char name[RUNDIR_NAME_MAX + 1] = "";
	socklen_t len;

	CHECK_OK(rundir_socket(&dir, "shuntd.sock", &addr, &len));
	CHECK_STR(addr.sun_path, "/x/shuntd.sock");
	CHECK_EQ(len, offsetof(struct sockaddr_un, sun_path) + strlen("/x/shuntd.sock") + 1);
	CHECK_EQ(rundir_socket(&dir, "", &addr, &len), -EINVAL);
	CHECK_EQ(rundir_socket(&dir, "a/b", &addr, &len), -EINVAL);
	memset(name, 'n', RUNDIR_NAME_MAX);
	CHECK_EQ(rundir_socket(&dir, name, &addr, &len), -EINVAL);
	name[RUNDIR_NAME_MAX - 1] = '\0';
	memset(dir.path, 'p', sizeof(dir.path) - 1);
	dir.path[sizeof(dir.path) - 1] = '\0';
	CHECK_OK(rundir_socket(&dir, name, &addr, &len));
	CHECK(len <= sizeof(addr));
	CHECK_EQ(strlen(addr.sun_path), strlen(dir.path) + 1 + strlen(name));
	memset(dir.path, 'p', sizeof(dir.path));
	CHECK_EQ(rundir_socket(&dir, "s", &addr, &len), -EINVAL);
}

TAP_CASE(make_and_open)
{
	struct rundir dir;
	struct stat st;
	mode_t old;

	REQUIRE(scratch_make());
	dir = in_scratch(RUNDIR_TMP, "mine");
	CHECK_EQ(opens(rundir_open(&dir)), -ENOENT);
	old = umask(0777);
	CHECK_EQ(opens(rundir_make(&dir)), 0);
	umask(old);
	CHECK_EQ(stat(dir.path, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0700);
	CHECK_EQ(opens(rundir_make(&dir)), 0);
	CHECK_EQ(opens(rundir_open(&dir)), 0);
	CHECK_EQ(rmdir(dir.path), 0);
	dir = in_scratch(RUNDIR_SYSTEM, "system");
	CHECK_EQ(opens(rundir_make(&dir)), 0);
	CHECK_EQ(stat(dir.path, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0755);
	CHECK_EQ(rmdir(dir.path), 0);
	dir = in_scratch(RUNDIR_XDG, "absent/shunt");
	CHECK_EQ(opens(rundir_make(&dir)), -ENOENT);
	CHECK_EQ(rmdir(scratch), 0);
}

TAP_CASE(loose_modes_and_links_are_refused)
{
	struct rundir dir, link;

	REQUIRE(scratch_make());
	dir = in_scratch(RUNDIR_TMP, "mine");
	link = in_scratch(RUNDIR_TMP, "link");
	CHECK_EQ(mkdir(dir.path, 0700), 0);
	CHECK_EQ(symlink(dir.path, link.path), 0);
	CHECK_EQ(opens(rundir_open(&dir)), 0);
	CHECK_EQ(opens(rundir_open(&link)), -ENOTDIR);
	CHECK_EQ(opens(rundir_make(&link)), -ENOTDIR);
	for (mode_t bit = 1; bit < 0100; bit <<= 1) {
		CHECK_EQ(chmod(dir.path, 0700 | bit), 0);
		dir.kind = RUNDIR_TMP;
		CHECK_EQ(opens(rundir_open(&dir)), -EPERM);
		CHECK_EQ(opens(rundir_make(&dir)), -EPERM);
		dir.kind = RUNDIR_XDG;
		CHECK_EQ(opens(rundir_open(&dir)), -EPERM);
		dir.kind = RUNDIR_OVERRIDE;
		CHECK_EQ(opens(rundir_open(&dir)), bit & 0022 ? -EPERM : 0);
		dir.kind = RUNDIR_SYSTEM;
		CHECK_EQ(opens(rundir_open(&dir)), bit & 0022 ? -EPERM : 0);
	}
	CHECK_EQ(rmdir(dir.path), 0);
	CHECK_EQ(unlink(link.path), 0);
	CHECK_EQ(rmdir(scratch), 0);
}

static void user_makes(void *arg)
{
	struct rundir *dir = arg;

	CHECK_EQ(opens(rundir_make(dir)), 0);
}

static void user_is_refused(void *arg)
{
	struct rundir *dir = arg;

	CHECK_EQ(opens(rundir_open(dir)), -EPERM);
	CHECK_EQ(opens(rundir_make(dir)), -EPERM);
}

static void user_opens(void *arg)
{
	CHECK_EQ(opens(rundir_open(arg)), 0);
}

TAP_CASE(owner_is_checked)
{
	struct rundir dir, root;

	if (!child_can_switch())
		SKIP("needs root, to become another user");
	REQUIRE(scratch_make());
	dir = in_scratch(RUNDIR_TMP, "theirs");
	child_run(CHILD_UID_OTHER, user_makes, &dir);
	child_run(CHILD_UID_OTHER, user_opens, &dir);
	/* Somebody else's, as root and as a third user. */
	user_is_refused(&dir);
	child_run(CHILD_UID_THIRD, user_is_refused, &dir);
	dir.kind = RUNDIR_OVERRIDE;
	user_is_refused(&dir);
	child_run(CHILD_UID_THIRD, user_is_refused, &dir);
	child_run(CHILD_UID_OTHER, user_opens, &dir);
	CHECK_EQ(rmdir(dir.path), 0);
	/* Root's directory in the place of the user's. */
	root = in_scratch(RUNDIR_TMP, "roots");
	CHECK_EQ(mkdir(root.path, 0700), 0);
	child_run(CHILD_UID_OTHER, user_is_refused, &root);
	root.kind = RUNDIR_OVERRIDE;
	child_run(CHILD_UID_OTHER, user_opens, &root);
	CHECK_EQ(rmdir(root.path), 0);
	CHECK_EQ(rmdir(scratch), 0);
}

struct helper {
	char path[128];
	int out;
};

static void helper_exec(void *arg)
{
	const struct helper *helper = arg;

	setenv("SHUNT_RUNTIME_DIR", "/tmp/evil", 1);
	setenv("XDG_RUNTIME_DIR", "/tmp/evil", 1);
	dup2(helper->out, STDOUT_FILENO);
	execl(helper->path, helper->path, (char *)NULL);
	CHECK(false);
}

/* What the helper prints when another user runs it with mode @mode. */
static void helper_run(struct helper *helper, mode_t mode, char *ret_text, size_t size)
{
	int fds[2];

	memset(ret_text, 0, size);
	CHECK_EQ(chmod(helper->path, mode), 0);
	CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
	helper->out = fds[1];
	child_run(CHILD_UID_OTHER, helper_exec, helper);
	close(fds[1]);
	CHECK(read(fds[0], ret_text, size - 1) > 0);
	close(fds[0]);
}

static int copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	struct stat st;
	int ret = -1;

	if (in >= 0 && out >= 0 && fstat(in, &st) == 0)
		ret = copy_file_range(in, NULL, out, NULL, (size_t)st.st_size, 0) == st.st_size
			      ? 0
			      : -1;
	fd_close(in);
	fd_close(out);
	return ret;
}

TAP_CASE(environment_is_ignored_in_a_setuid_program)
{
	const char *built = getenv("SHUNT_RUNDIR_HELPER");
	struct helper helper;
	char text[512];

	if (!child_can_switch())
		SKIP("needs root, to make a set-uid program");
	if (!built)
		SKIP("SHUNT_RUNDIR_HELPER does not name the helper program");
	REQUIRE(scratch_make());
	snprintf(helper.path, sizeof(helper.path), "%s/helper", scratch);
	CHECK_EQ(copy_file(built, helper.path), 0);
	helper_run(&helper, 0755, text, sizeof(text));
	CHECK_STR(text, "0 /tmp/evil\n");
	helper_run(&helper, 04755, text, sizeof(text));
	if (strstr(text, "evil"))
		tap_diag("set-uid bits may be off on the file system of /tmp (nosuid)");
	CHECK_STR(text, "1 /run/shunt\n3 /tmp/shunt-0\n");
	CHECK_EQ(unlink(helper.path), 0);
	CHECK_EQ(rmdir(scratch), 0);
}

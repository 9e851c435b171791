/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "bundle.h"
#include "os/fd.h"
#include "os/sys.h"
#include "tool.h"

#define MANIFEST "MANIFEST.txt"

static void path_of(const struct bundle *bundle, const char *file, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s%s%s", bundle->folder, bundle->name, *file ? "/" : "", file);
}

int bundle_open(struct bundle *bundle, bool anonymize)
{
	const char *temporary = getenv("TMPDIR");
	struct utsname host = {0};
	time_t now = time(NULL);
	char path[PATH_MAX];
	struct tm tm;

	*bundle = (struct bundle){0};
	uname(&host);
	scrub_init(&bundle->scrub, anonymize, host.nodename);
	strftime(bundle->name, sizeof(bundle->name), "shunt-debug-%Y%m%d-%H%M%S",
		 localtime_r(&now, &tm));
	if (!temporary || temporary[0] != '/' || strlen(temporary) > 30)
		temporary = "/tmp";
	snprintf(path, sizeof(path), "%s/shunt-debug-XXXXXX", temporary);
	if (!mkdtemp(path))
		return -errno;
	snprintf(bundle->folder, sizeof(bundle->folder), "%.63s", path);
	path_of(bundle, "", path);
	return mkdir(path, 0700) < 0 ? -errno : 0;
}

void bundle_close(struct bundle *bundle)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < bundle->n; i++) {
		path_of(bundle, bundle->files[i].name, path);
		unlink(path);
	}
	path_of(bundle, MANIFEST, path);
	unlink(path);
	path_of(bundle, "", path);
	rmdir(path);
	if (bundle->folder[0])
		rmdir(bundle->folder);
	scrub_deinit(&bundle->scrub);
}

/* @text is as it may be seen. */
static int write_file(const struct bundle *bundle, const char *name, const char *text, size_t len)
{
	AUTO_FD int fd = -1;
	char path[PATH_MAX];

	path_of(bundle, name, path);
	fd = sys_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return TAKE(fd, -1);
	for (size_t done = 0; done < len;) {
		ssize_t n = sys_write(fd, text + done, len - done);

		if (n < 0)
			return (int)n;
		done += (size_t)n;
	}
	return 0;
}

/* There is always room: see the table of what goes in. */
static struct bundle_file *new_file(struct bundle *bundle, const char *name, const char *why)
{
	struct bundle_file *file;

	if (bundle->n == BUNDLE_FILES_MAX)
		abort();
	file = &bundle->files[bundle->n++];
	snprintf(file->name, sizeof(file->name), "%s", name);
	file->why = why;
	return file;
}

void bundle_add(struct bundle *bundle, const char *name, const char *why, const char *text,
		size_t len)
{
	struct bundle_file *file = new_file(bundle, name, why);
	char *clean = scrub_text(&bundle->scrub, text, len);
	int rc;

	file->bytes = strlen(clean);
	rc = write_file(bundle, name, clean, file->bytes);
	if (rc < 0) {
		file->is_missing = true;
		snprintf(file->note, sizeof(file->note), "can't be written: %s", strerror(-rc));
	}
	free(clean);
}

__attribute__((format(printf, 3, 0))) static void
note(struct bundle *bundle, struct bundle_file *file, const char *format, va_list args)
{
	char text[BUNDLE_NOTE_BYTES], *clean;

	vsnprintf(text, sizeof(text), format, args);
	clean = scrub_text(&bundle->scrub, text, strlen(text));
	snprintf(file->note, sizeof(file->note), "%s", clean);
	for (char *at = file->note; *at; at++) {
		if ((unsigned char)*at < ' ')
			*at = ' ';
	}
	free(clean);
}

void bundle_note(struct bundle *bundle, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	note(bundle, &bundle->files[bundle->n - 1], format, args);
	va_end(args);
}

void bundle_miss(struct bundle *bundle, const char *name, const char *why, const char *format, ...)
{
	struct bundle_file *file = new_file(bundle, name, why);
	va_list args;

	file->is_missing = true;
	va_start(args, format);
	note(bundle, file, format, args);
	va_end(args);
}

static int write_manifest(const struct bundle *bundle)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return -errno;
	fprintf(out,
		"What shunt debug (version " SHUNT_VERSION ") has gathered, and why.\n"
		"\n"
		"Left out: the content of keys and certificates, the environment and command lines "
		"of\n"
		"programs, comments and unknown lines of the settings; and from every text "
		"whatever "
		"looks\n"
		"like a key or a password. %s\n\n",
		bundle->scrub.anonymize
			? "Addresses and this host's name have other names here."
			: "Addresses and names are as they are: shunt debug --anonymize replaces "
			  "them.");
	for (size_t i = 0; i < bundle->n; i++) {
		const struct bundle_file *file = &bundle->files[i];

		fprintf(out, "%-24s %s%s%s%s\n", file->name, file->is_missing ? "MISSING: " : "",
			file->is_missing ? file->note : file->why,
			!file->is_missing && file->note[0] ? "; " : "",
			file->is_missing ? "" : file->note);
	}
	if (fclose(out) != 0)
		return -errno;
	return write_file(bundle, MANIFEST, text, strlen(text));
}

int bundle_pack(struct bundle *bundle, int fd)
{
	int rc = write_manifest(bundle), status;
	pid_t pid;

	if (rc < 0)
		return rc;
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		dup2(fd, STDOUT_FILENO);
		execlp("tar", "tar", "--create", "--gzip", "--file=-", "--owner=0", "--group=0",
		       "--numeric-owner", "--directory", bundle->folder, bundle->name, NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return -ENOENT;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

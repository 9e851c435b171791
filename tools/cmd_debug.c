/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle.h"
#include "debug_items.h"
#include "table.h"
#include "tool.h"

/*
 * shunt debug: one archive for a bug report.
 */

static volatile sig_atomic_t stopped;

/* So that the folder does not stay behind. */
static void on_signal(int number)
{
	stopped = number;
}

static void watch_signals(void)
{
	const struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

struct debug_options {
	const char *output; /* NULL: a name of our own; "-": standard output */
	bool anonymize;
};

static int parse_options(int argc, char **argv, struct debug_options *options)
{
	static const struct option longs[] = {
		{"output", required_argument, NULL, 'o'},
		{"anonymize", no_argument, NULL, 'a'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		switch (opt) {
		case 'o':
			options->output = optarg;
			break;
		case 'a':
			options->anonymize = true;
			break;
		default:
			return tool_other_option("debug", opt, argv);
		}
	}
	if (optind < argc)
		return tool_usage("debug", "one argument too many: %s", argv[optind]);
	/* Rather a forgotten name than a file that is called so. */
	if (options->output && options->output[0] == '-' && options->output[1])
		return tool_usage("debug", "--output needs a file, not \"%s\" (or ./%s)",
				  options->output, options->output);
	if (options->output && strcmp(options->output, "-") == 0 && isatty(STDOUT_FILENO))
		return tool_usage("debug", "an archive is nothing for a terminal; give "
					   "--output FILE, or redirect it");
	return TOOL_GO_ON;
}

/* Nobody else's to read, and never over a file that is there. */
static int open_output(const char *path)
{
	int fd;

	if (strcmp(path, "-") == 0)
		return STDOUT_FILENO;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		tool_say("%s can't be made: %s%s", path, strerror(errno),
			 errno == EEXIST ? "; name another with --output" : "");
	return fd;
}

/* To stdout, unless that is the archive's. */
static void summarize(const struct bundle *bundle, const char *path, int fd)
{
	FILE *out = fd == STDOUT_FILENO ? stderr : stdout;
	char size[BYTES_TEXT];
	size_t missing = 0;
	struct stat st;

	for (size_t i = 0; i < bundle->n; i++)
		missing += bundle->files[i].is_missing;
	fprintf(out, "Wrote %s: %zu files", fd == STDOUT_FILENO ? "the archive" : path,
		bundle->n - missing + 1);
	if (fd != STDOUT_FILENO && fstat(fd, &st) == 0)
		fprintf(out, ", %s bytes", bytes_text((uint64_t)st.st_size, size));
	fputs(". MANIFEST.txt in it says what each is for.\n", out);
	for (size_t i = 0; i < bundle->n; i++) {
		if (bundle->files[i].is_missing)
			fprintf(out, "  missing: %s (%s): %s\n", bundle->files[i].name,
				bundle->files[i].why, bundle->files[i].note);
	}
	fprintf(out,
		"No secret is in it: no content of a key or certificate, no environment or command "
		"line of a\nprogram, and whatever looks like a key or password was taken out of "
		"the "
		"rest.\n%s\n",
		bundle->scrub.anonymize
			? "Addresses and this host's name were replaced."
			: "Addresses and names of hosts are in it; --anonymize replaces them.");
}

static int make(struct bundle *bundle, const struct debug_options *options)
{
	char name[sizeof(bundle->name) + sizeof(".tar.gz")];
	const char *path = options->output;
	int fd, rc = bundle_open(bundle, options->anonymize);

	if (rc < 0) {
		tool_say("no folder for temporary files can be made: %s; set TMPDIR to one",
			 strerror(-rc));
		return TOOL_FAILED;
	}
	if (!path) {
		snprintf(name, sizeof(name), "%s.tar.gz", bundle->name);
		path = name;
	}
	fd = open_output(path);
	if (fd < 0)
		return TOOL_FAILED;
	debug_gather(bundle, &stopped);
	rc = stopped ? -EINTR : bundle_pack(bundle, fd);
	if (rc == 0) {
		summarize(bundle, path, fd);
	} else {
		tool_say("%s can't be written: %s", path,
			 rc == -ENOENT ? "there is no command tar here; install the package tar"
				       : strerror(-rc));
		if (fd != STDOUT_FILENO)
			unlink(path);
	}
	if (fd != STDOUT_FILENO)
		close(fd);
	return rc == 0 ? TOOL_OK : TOOL_FAILED;
}

int cmd_debug(int argc, char **argv)
{
	static struct bundle bundle;
	struct debug_options options = {0};
	int rc = parse_options(argc, argv, &options);

	if (rc != TOOL_GO_ON)
		return rc;
	watch_signals();
	rc = make(&bundle, &options);
	bundle_close(&bundle);
	return rc;
}

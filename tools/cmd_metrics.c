/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask.h"
#include "base/cleanup.h"
#include "gather.h"
#include "metrics_facts.h"
#include "os/clock.h"
#include "tool.h"

/* Longest head of an HTTP request, and how long it may take to come. Chosen: scrapers send some
 * hundred bytes at once. */
#define REQUEST_BYTES 8192
#define REQUEST_NS 5000000000ull

struct metrics_options {
	bool is_http, is_prometheus;
	const char *output; /* NULL: stdout */
};

static int parse(int argc, char **argv, struct metrics_options *options)
{
	static const struct option longs[] = {
		{"http", no_argument, NULL, 't'},
		{"output", required_argument, NULL, 'o'},
		{"prometheus", no_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		switch (opt) {
		case 't':
			options->is_http = true;
			break;
		case 'o':
			options->output = optarg;
			break;
		case 'p':
			options->is_prometheus = true;
			break;
		default:
			return tool_other_option("metrics", opt, argv);
		}
	}
	if (optind < argc)
		return tool_usage("metrics", "it takes no arguments, but got \"%s\"", argv[optind]);
	if (options->is_http && options->output)
		return tool_usage("metrics", "--http answers on the standard output: no --output");
	return TOOL_GO_ON;
}

/* Ask the daemon, and lay out the whole. @ret_text: to be freed. An exit status, the user told. */
static int make_text(const struct metrics_options *options, char **ret_text)
{
	struct metrics_text text = {.is_prometheus = options->is_prometheus};
	AUTO_FREE char *memory = NULL;
	struct gathered gathered;
	struct asker asker;
	size_t len;
	int rc = ask_open(&asker);

	if (rc)
		return rc;
	rc = gather(&asker, METRICS_GATHER, &gathered);
	ask_close(&asker);
	if (rc) {
		tool_say("the daemon in %s gave no answer: %s", asker.dir.path, strerror(-rc));
		return TOOL_FAILED;
	}
	text.out = open_memstream(&memory, &len);
	if (text.out) {
		metrics_write(&text, &gathered);
		metrics_end(&text);
	}
	gathered_deinit(&gathered);
	if (!text.out || fclose(text.out)) {
		tool_say("no memory for the metrics");
		return TOOL_FAILED;
	}
	*ret_text = TAKE(memory, NULL);
	return TOOL_OK;
}

/* Replace the file at once: whoever reads it finds the old or the new one whole. */
static int write_file(const char *path, const char *text)
{
	char temporary[PATH_MAX];
	mode_t mask = umask(0);
	FILE *out;
	int fd;

	umask(mask);
	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary)) {
		tool_say("%s: the name is too long", path);
		return TOOL_FAILED;
	}
	fd = mkstemp(temporary);
	if (fd < 0) {
		tool_say("can't make a file beside %s: %s", path, strerror(errno));
		return TOOL_FAILED;
	}
	out = fdopen(fd, "w");
	if (!out)
		close(fd);
	if (out && fputs(text, out) >= 0 && fchmod(fd, 0666 & ~mask) == 0 &&
	    fclose(TAKE(out, NULL)) == 0 && rename(temporary, path) == 0)
		return TOOL_OK;
	tool_say("can't write %s: %s", path, strerror(errno));
	if (out)
		fclose(out);
	unlink(temporary);
	return TOOL_FAILED;
}

/* Read a request's head from stdin. Its first line is terminated in @head; false: none came. */
static bool read_request(char head[REQUEST_BYTES])
{
	uint64_t until = clock_now_ns() + REQUEST_NS, now;
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	size_t len = 0;
	ssize_t n;

	while ((now = clock_now_ns()) < until && len < REQUEST_BYTES - 1) {
		if (poll(&input, 1, (int)((until - now) / 1000000u) + 1) <= 0)
			continue;
		n = read(STDIN_FILENO, head + len, REQUEST_BYTES - 1 - len);
		if (n <= 0)
			return false;
		len += (size_t)n;
		head[len] = '\0';
		if (strstr(head, "\r\n\r\n") || strstr(head, "\n\n")) {
			head[strcspn(head, "\r\n")] = '\0';
			return true;
		}
	}
	return false;
}

static void respond(const char *status, const char *type, const char *body, bool has_body)
{
	printf("HTTP/1.0 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
	       "Connection: close\r\n\r\n%s",
	       status, type, strlen(body), has_body ? body : "");
}

static int answer_http(const struct metrics_options *options)
{
	static const char plain[] = "text/plain; charset=utf-8";
	const char *type = options->is_prometheus
				   ? "text/plain; version=0.0.4; charset=utf-8"
				   : "application/openmetrics-text; version=1.0.0; charset=utf-8";
	AUTO_FREE char *text = NULL;
	char head[REQUEST_BYTES], method[16] = "", path[64] = "";
	bool is_head;

	if (!read_request(head) || sscanf(head, "%15s %63s", method, path) != 2) {
		respond("400 Bad Request", plain, "no request\n", true);
		return TOOL_OK;
	}
	path[strcspn(path, "?")] = '\0';
	is_head = strcmp(method, "HEAD") == 0;
	if (!is_head && strcmp(method, "GET") != 0)
		respond("405 Method Not Allowed", plain, "GET only\n", true);
	else if (strcmp(path, "/metrics") != 0)
		respond("404 Not Found", plain, "it is at /metrics\n", !is_head);
	else if (make_text(options, &text) != TOOL_OK)
		respond("503 Service Unavailable", plain, "no shuntd answers\n", !is_head);
	else
		respond("200 OK", type, text, !is_head);
	return TOOL_OK;
}

int cmd_metrics(int argc, char **argv)
{
	struct metrics_options options = {0};
	AUTO_FREE char *text = NULL;
	int rc = parse(argc, argv, &options);

	if (rc != TOOL_GO_ON)
		return rc;
	if (options.is_http)
		return answer_http(&options);
	rc = make_text(&options, &text);
	if (rc)
		return rc;
	if (options.output)
		return write_file(options.output, text);
	fputs(text, stdout);
	return TOOL_OK;
}

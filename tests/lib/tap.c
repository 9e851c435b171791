/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/tap.h"

/* Failed checks of one case that are printed; a broken loop would flood the log. */
#define TAP_PRINT_MAX 20u

#define TAP_LINE_BYTES 1024

/* Shared with forked children. */
struct tap_counts {
	_Atomic unsigned int checks, failures, skipped;
	char reason[256];
};

static struct tap_counts *tap_counts;
static struct tap_case *tap_first;
static struct tap_case **tap_last = &tap_first;

void tap_register(struct tap_case *tap_case)
{
	*tap_last = tap_case;
	tap_last = &tap_case->next;
}

/* One line in one write, so that the lines of several threads and processes stay whole. */
__attribute__((format(printf, 1, 0))) static void tap_vprint(const char *fmt, va_list args)
{
	char line[TAP_LINE_BYTES];
	int len;

	len = vsnprintf(line, sizeof(line) - 1, fmt, args);
	if (len < 0)
		return;
	if (len > (int)sizeof(line) - 2)
		len = (int)sizeof(line) - 2;
	for (int i = 0; i < len; i++)
		if (line[i] == '\n')
			line[i] = ' ';
	line[len++] = '\n';
	fwrite(line, 1, (size_t)len, stdout);
	fflush(stdout);
}

__attribute__((format(printf, 1, 2))) static void tap_print(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	tap_vprint(fmt, args);
	va_end(args);
}

void tap_diag(const char *fmt, ...)
{
	char text[TAP_LINE_BYTES - 16];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	tap_print("# %s", text);
}

bool tap_check(bool ok, const char *file, int line, const char *fmt, ...)
{
	char text[TAP_LINE_BYTES / 2];
	va_list args;

	atomic_fetch_add(&tap_counts->checks, 1);
	if (ok || atomic_fetch_add(&tap_counts->failures, 1) >= TAP_PRINT_MAX)
		return ok;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	tap_diag("%s:%d: failed: %s", file, line, text);
	return false;
}

bool tap_check_eq(long long got, long long want, const char *file, int line, const char *what)
{
	return tap_check(got == want, file, line, "%s: got %lld (0x%llx), want %lld (0x%llx)", what,
			 got, got, want, want);
}

bool tap_check_str(const char *got, const char *want, const char *file, int line, const char *what)
{
	bool same = got && want ? strcmp(got, want) == 0 : got == want;

	return tap_check(same, file, line, "%s: got \"%s\", want \"%s\"", what,
			 got ? got : "(null)", want ? want : "(null)");
}

bool tap_check_ok(long long got, const char *file, int line, const char *what)
{
	return tap_check(got >= 0, file, line, "%s: got %lld (%s)", what, got,
			 got < 0 ? strerror((int)-got) : "fine");
}

void tap_skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(tap_counts->reason, sizeof(tap_counts->reason), fmt, args);
	va_end(args);
	atomic_store(&tap_counts->skipped, 1);
}

/* Run one case and print its line; whether it did not fail. */
static bool tap_run(const struct tap_case *tap_case, unsigned int number)
{
	bool ok;

	memset(tap_counts, 0, sizeof(*tap_counts));
	tap_case->run();
	if (!tap_counts->skipped && tap_counts->checks == 0) {
		tap_diag("%s: no check was run", tap_case->name);
		tap_counts->failures++;
	}
	if (tap_counts->failures > TAP_PRINT_MAX)
		tap_diag("%u failed checks were not printed", tap_counts->failures - TAP_PRINT_MAX);
	ok = tap_counts->failures == 0;
	if (ok && tap_counts->skipped)
		tap_print("ok %u - %s # SKIP %s", number, tap_case->name, tap_counts->reason);
	else
		tap_print("%s %u - %s", ok ? "ok" : "not ok", number, tap_case->name);
	return ok;
}

static bool tap_is_wanted(const struct tap_case *tap_case, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], tap_case->name) == 0)
			return true;
	return argc < 2;
}

static bool tap_is_known(const char *name)
{
	for (struct tap_case *at = tap_first; at; at = at->next)
		if (strcmp(at->name, name) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	unsigned int n = 0;
	bool ok = true;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (struct tap_case *at = tap_first; at; at = at->next)
			printf("%s\n", at->name);
		return 0;
	}
	for (int i = 1; i < argc; i++)
		if (!tap_is_known(argv[i])) {
			fprintf(stderr, "%s: no case %s; see --list\n", argv[0], argv[i]);
			return 2;
		}
	tap_counts = mmap(NULL, sizeof(*tap_counts), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tap_counts == MAP_FAILED)
		return 2;
	for (struct tap_case *at = tap_first; at; at = at->next)
		n += tap_is_wanted(at, argc, argv);
	tap_print("1..%u", n);
	n = 0;
	for (struct tap_case *at = tap_first; at; at = at->next)
		if (tap_is_wanted(at, argc, argv))
			ok &= tap_run(at, ++n);
	return ok && n > 0 ? 0 : 1;
}

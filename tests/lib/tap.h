/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A small test harness that prints TAP. A case registers itself:
 *
 *	TAP_CASE(ring_wraps_once)
 *	{
 *		CHECK_EQ(ring_space(…), 4096);
 *	}
 *
 * tap.c has main(): runs every case of the program, or those named on the command line; --list
 * lists them. A case fails when a check in it fails, when it runs no check at all, or when
 * a process that it forked with child_run() does not end well. Checks count in any thread, and in
 * forked children too. A failed check prints file, line and values and goes on; REQUIRE() leaves
 * the function.
 */
struct tap_case {
	const char *name;
	void (*run)(void);
	struct tap_case *next;
};

void tap_register(struct tap_case *tap_case);

#define TAP_CASE(case_name)                                                                        \
	static void case_name(void);                                                               \
	__attribute__((constructor)) static void tap_register_##case_name(void)                    \
	{                                                                                          \
		static struct tap_case self = {#case_name, case_name, NULL};                       \
                                                                                                   \
		tap_register(&self);                                                               \
	}                                                                                          \
	static void case_name(void)

/* Count one check; a failed one prints where, what and the message. Returns @ok. */
__attribute__((format(printf, 4, 5))) bool tap_check(bool ok, const char *file, int line,
						     const char *fmt, ...);
bool tap_check_eq(long long got, long long want, const char *file, int line, const char *what);
bool tap_check_str(const char *got, const char *want, const char *file, int line, const char *what);
bool tap_check_ok(long long got, const char *file, int line, const char *what);

/* Print a diagnostic line. */
__attribute__((format(printf, 1, 2))) void tap_diag(const char *fmt, ...);

/* Mark the running case as skipped, for @fmt's reason; a failed check still fails it. */
__attribute__((format(printf, 1, 2))) void tap_skip(const char *fmt, ...);

#define CHECK(cond) tap_check(!!(cond), __FILE__, __LINE__, "%s", #cond)

/* Integers; both are shown. */
#define CHECK_EQ(got, want)                                                                        \
	tap_check_eq((long long)(got), (long long)(want), __FILE__, __LINE__, #got " == " #want)

#define CHECK_STR(got, want) tap_check_str(got, want, __FILE__, __LINE__, #got " is " #want)

/* A result that is not negative; a negative one is shown as an error. */
#define CHECK_OK(expr) tap_check_ok((long long)(expr), __FILE__, __LINE__, #expr)

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!CHECK(cond))                                                                  \
			return;                                                                    \
	} while (0)

#define REQUIRE_OK(expr)                                                                           \
	do {                                                                                       \
		if (!CHECK_OK(expr))                                                               \
			return;                                                                    \
	} while (0)

/* Leave the case as skipped: say what is missing. */
#define SKIP(...)                                                                                  \
	do {                                                                                       \
		tap_skip(__VA_ARGS__);                                                             \
		return;                                                                            \
	} while (0)

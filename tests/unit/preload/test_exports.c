/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "lib/tap.h"

/* calls.def against what the preload library exports, and against this machine's libc. */

#define CALL(ret, name, params, args, impl) {#name, false},
#define LIBC CALL
#define ALIAS(ret, name, params, args, impl) {#name, true},
#define CHECKED ALIAS
#define BEFORE(ret, name, params, args, impl, fail) {#name, false},
#define BEFORE_HIDDEN(ret, name, params, args, impl, fail) {#name, true},
#define HAND(ret, name, params) {#name, false},
#define HAND_HIDDEN(ret, name, params) {#name, true},
static const struct row {
	const char *name;
	bool hidden; /* no header declares it */
} rows[] = {
#include "preload/calls.def"
};
#include "preload/rows_end.h"

static bool seen[ARRAY_SIZE(rows)];

static void note(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].name, name) == 0) {
			seen[i] = true;
			return;
		}
	tap_check(false, __FILE__, __LINE__, "%s is exported and has no row", name);
}

/* Symbols that tools put there: a sanitizer's or coverage's. */
static bool is_ours(const char *name)
{
	return strncmp(name, "__asan", 6) != 0 && strncmp(name, "__odr_asan", 10) != 0 &&
	       strncmp(name, "__ubsan", 7) != 0 && strncmp(name, "__tsan", 6) != 0 &&
	       strncmp(name, "__gcov", 6) != 0;
}

TAP_CASE(exports_are_the_table)
{
	const char *library = getenv("SHUNT_PRELOAD");
	char command[4096], line[4096], name[256];
	FILE *nm;
	int count = 0;

	REQUIRE(library != NULL);
	if (system("nm --version >/dev/null 2>&1"))
		SKIP("no nm here (binutils)");
	snprintf(command, sizeof(command), "nm -D --defined-only '%s'", library);
	nm = popen(command, "r");
	REQUIRE(nm != NULL);
	while (fgets(line, sizeof(line), nm))
		if (sscanf(line, "%*x %*c %255s", name) == 1 && is_ours(name)) {
			note(name);
			count++;
		}
	CHECK_EQ(pclose(nm), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		tap_check(seen[i], __FILE__, __LINE__, "%s has a row and is exported",
			  rows[i].name);
	CHECK_EQ(count, ARRAY_SIZE(rows));
}

TAP_CASE(no_row_twice)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = i + 1; k < ARRAY_SIZE(rows); k++)
			tap_check(strcmp(rows[i].name, rows[k].name) != 0, __FILE__, __LINE__,
				  "%s has one row", rows[i].name);
}

/* A row for a name that libc does not have would be a mistake in the name. */
TAP_CASE(libc_has_them_all)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		tap_check(dlsym(RTLD_DEFAULT, rows[i].name) != NULL, __FILE__, __LINE__,
			  "libc has %s", rows[i].name);
}

TAP_CASE(the_library_loads)
{
	const char *library = getenv("SHUNT_PRELOAD");
	void *handle;

	REQUIRE(library != NULL);
	handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		tap_diag("%s", dlerror());
	REQUIRE(handle != NULL);
	CHECK(dlsym(handle, "recvmsg") != NULL);
	CHECK(dlsym(handle, "sock_recvmsg") == NULL);
}

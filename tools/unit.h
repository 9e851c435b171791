/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Units of systemd as files, in the running system or in a directory that will be the root of one,
 * and what is in force for a service as far as it concerns a library that is preloaded into it.
 */

/* Longest name of a unit, with the terminator (UNIT_NAME_MAX of systemd). */
#define UNIT_NAME_BYTES 256

struct unit_root {
	int fd;		   /* of the root directory; unit_root_close() */
	const char *path;  /* as people call it: empty for the running system's */
	bool runs_systemd; /* it is the running system's, with systemd as its init */
};

/* Open the root @path; NULL: that of the running system. 0, or -errno. */
int unit_root_open(const char *path, struct unit_root *ret_root);
void unit_root_close(struct unit_root *root);

/*
 * Open @path, without a leading slash, in @root; links lead nowhere out of it. The descriptor,
 * with close-on-exec, or -errno.
 */
int unit_open_in(const struct unit_root *root, const char *path, int flags);

/* The first file of a text, whole, to be freed; NULL: it can't be read, *@ret_error says why. */
char *unit_read_in(const struct unit_root *root, const char *path, int *ret_error);

/*
 * The full name of the service @given: "redis" is redis.service. Positive, with nothing set, if it
 * can be none.
 */
#define UNIT_NAME_BAD 1
int unit_name_of(const char *given, char ret_name[UNIT_NAME_BYTES]);

/* The template of an instance: "a@b.service" is of "a@.service". False: @name is no instance. */
bool unit_template_of(const char *name, char ret_template[UNIT_NAME_BYTES]);

/* Whether @name is a template itself. */
bool unit_is_template(const char *name);

enum unit_state { UNIT_FOUND, UNIT_UNKNOWN, UNIT_MASKED };

/*
 * Look for the unit @name, or its template. @name: room for UNIT_NAME_BYTES; where it is another
 * name for a unit, that unit's takes its place. @ret_file: where it was found, without a leading
 * slash; empty: not in a file.
 */
enum unit_state unit_find(const struct unit_root *root, char *name, char ret_file[PATH_MAX]);

/* What is looked at in the section [Service]. */
enum unit_key {
	UNIT_ENVIRONMENT,
	UNIT_ENVIRONMENT_FILE,
	UNIT_UNSET_ENVIRONMENT,
	UNIT_ROOT_DIRECTORY,
	UNIT_ROOT_IMAGE,
	UNIT_PROTECT_HOME,
	UNIT_PRIVATE_TMP,
	UNIT_PRIVATE_NETWORK,
	UNIT_NETWORK_NAMESPACE_PATH,
	UNIT_RESTRICT_ADDRESS_FAMILIES,
	UNIT_TEMPORARY_FILE_SYSTEM,
	UNIT_INACCESSIBLE_PATHS,
	UNIT_NO_EXEC_PATHS,
	UNIT_EXEC_PATHS,
	UNIT_SYSTEM_CALL_FILTER,
	UNIT_KEY_COUNT,
};

struct unit_settings {
	char *values[UNIT_KEY_COUNT]; /* NULL: not set; parts of a list with a space between */
	char late[PATH_MAX]; /* a file that is read behind our drop-in and sets, or forgets, the
			      * environment that is preloaded by; empty: none */
};

/* The name of a key; static storage. */
const char *unit_key_name(enum unit_key key);

/*
 * What the files of the unit @name set, in the order in which systemd reads them; our own drop-in
 * is left out. @file: from unit_find(). unit_settings_deinit() later.
 */
void unit_settings_read(const struct unit_root *root, const char *name, const char *file,
			struct unit_settings *ret_settings);

/*
 * Let the running systemd say what is in force of all but the environment, which includes what only
 * it knows. False: it does not say.
 */
bool unit_settings_ask(const char *name, struct unit_settings *settings);

void unit_settings_deinit(struct unit_settings *settings);

/* Where drop-ins of administrators are, and the name of ours. */
#define UNIT_ETC "etc/systemd/system"
#define UNIT_DROP_IN "50-shunt.conf"

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

/*
 * The runtime directory: where a daemon keeps its socket and lock, and where clients look for it.
 *
 *	SHUNT_RUNTIME_DIR, if set	that one and no other (never under AT_SECURE)
 *	/run/shunt			the system's daemon
 *	$XDG_RUNTIME_DIR/shunt		the user's daemon (never under AT_SECURE)
 *	/tmp/shunt-UID			the user's daemon, where there is no XDG_RUNTIME_DIR
 *
 * A client tries all candidates in order. A user's directory is his (effective uid), mode 0700; the
 * system's lies in /run, where root alone decides; an override belongs to the caller or to root;
 *none may be written by others, and none may be a symbolic link: whoever answers there sees our
 *bytes.
 */

enum rundir_kind {
	RUNDIR_OVERRIDE,
	RUNDIR_SYSTEM,
	RUNDIR_XDG,
	RUNDIR_TMP,
};

#define RUNDIR_CANDIDATES_MAX 3u

/* Longest name of a file in the directory, terminator included. Chosen. */
#define RUNDIR_NAME_MAX 24u

/* Of the daemon that serves the whole system. */
#define RUNDIR_SYSTEM_PATH "/run/shunt"

/* So that every file in it has a name that fits a socket address. */
#define RUNDIR_PATH_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - RUNDIR_NAME_MAX)

struct rundir {
	enum rundir_kind kind;
	char path[RUNDIR_PATH_MAX]; /* absolute */
};

/*
 * The candidates in the order of preference, from the environment and the effective uid; nothing
 * is looked up. A variable that is relative or too long is passed over. Returns how many: at
 * least 1 unless the override is unusable, for which nothing else stands in: then 0. Reads the
 * environment: not while another thread changes it.
 */
size_t rundir_candidates(struct rundir ret_dirs[RUNDIR_CANDIDATES_MAX]);

/*
 * Open @dir after checking its owner and mode. Returns a close-on-exec O_PATH descriptor for
 * openat(2); -ENOENT; -ENOTDIR (also for a symbolic link); -EPERM when the owner or the mode is
 * wrong. Any thread.
 */
int rundir_open(const struct rundir *dir);

/*
 * As rundir_open(), but makes the directory (not its parents) if there is none: mode 0755 for the
 * system's, else 0700, whatever the umask.
 */
int rundir_make(const struct rundir *dir);

/* The address of the socket @name (shorter than RUNDIR_NAME_MAX, no slash) in @dir: 0; -EINVAL. */
int rundir_socket(const struct rundir *dir, const char *name, struct sockaddr_un *ret_addr,
		  socklen_t *ret_len);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a host lacks for RDMA, found before it fails somewhere deep: one line each, with what to do
 * about it. Nothing here is fatal: connections stay on TCP.
 */

enum preflight_what {
	PREFLIGHT_NO_DEVICE,	 /* the host has no RDMA device at all */
	PREFLIGHT_NO_LIST,	 /* the library can't list devices */
	PREFLIGHT_NO_UVERBS,	 /* a device without its node in /dev/infiniband */
	PREFLIGHT_UVERBS_DENIED, /* … which we may not open */
	PREFLIGHT_NO_PROVIDER,	 /* a device that libibverbs has no provider library for */
	PREFLIGHT_NO_CM,	 /* no /dev/infiniband/rdma_cm */
	PREFLIGHT_CM_DENIED,
	PREFLIGHT_MEMLOCK, /* too little memory may be locked */
};

/* Longest line, with terminator; most lines. Chosen: two for each of a few devices. */
#define PREFLIGHT_TEXT_BYTES 400u
#define PREFLIGHT_LINES_MAX 16u
#define PREFLIGHT_NAME_BYTES 64u

struct preflight_line {
	enum preflight_what what;
	char device[PREFLIGHT_NAME_BYTES]; /* that it is about; empty: none in particular */
	uint32_t found_len; /* bytes of @text that say what is missing; the rest says what to do */
	char text[PREFLIGHT_TEXT_BYTES];
};

struct preflight {
	size_t n;
	struct preflight_line lines[PREFLIGHT_LINES_MAX];
};

struct preflight_config {
	const char *root; /* "" for the host itself; a folder with sys/ and dev/ in tests */
	const char *const *listed; /* names of the devices that libibverbs lists */
	size_t n_listed;
	int list_error;		/* of listing them, -errno; 0 */
	uint64_t memlock_bytes; /* locked memory that is needed at the least */
	uint64_t memlock_limit; /* RLIMIT_MEMLOCK; UINT64_MAX: none */
	bool may_lock;		/* CAP_IPC_LOCK: the limit does not count */
};

/*
 * Look at the host. Reads a few files and asks for access rights as the effective user; blocks as
 * sysfs does: not for the daemon's loop. @ret_preflight: set; n = 0 when nothing is missing.
 */
void preflight_check(const struct preflight_config *config, struct preflight *ret_preflight);

/*
 * Raise the soft limit of locked memory to the hard one, and tell what holds then: the process's
 * own values for memlock_limit and may_lock. Never fails: what can't be read counts as 0 and false.
 */
void preflight_memlock(uint64_t *ret_limit, bool *ret_may_lock);

/* Whether @preflight says that the node of @device can't be opened: there is no point in trying. */
bool preflight_is_closed(const struct preflight *preflight, const char *device);

/* The part of its text that says what to do. */
const char *preflight_remedy(const struct preflight_line *line);

/* Short name for JSON: "no_device", "no_provider", … */
const char *preflight_name(enum preflight_what what);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "scrub.h"

/*
 * The archive of `shunt debug`: texts, each scrubbed before it touches a disk, gathered in a folder
 * of our own and packed by tar(1). A manifest says what each is for, and what could not be had.
 */

#define BUNDLE_FILES_MAX 64u
#define BUNDLE_NOTE_BYTES 200u

struct bundle_file {
	char name[48];
	const char *why; /* what it is good for; static */
	bool is_missing;
	char note[BUNDLE_NOTE_BYTES]; /* why it is missing, or what is missing in it; may be empty
				       */
	size_t bytes;
};

struct bundle {
	char folder[64]; /* of ours, with the folder @name in it */
	char name[64];	 /* what the archive unpacks to */
	struct scrub scrub;
	size_t n;
	struct bundle_file files[BUNDLE_FILES_MAX];
};

/* Make the folder. 0 or -errno. bundle_close() in any case. */
int bundle_open(struct bundle *bundle, bool anonymize);

/* Remove the folder with all in it. */
void bundle_close(struct bundle *bundle);

/* Put @text[0, @len) in as the file @name. What can't be written is noted as missing. */
void bundle_add(struct bundle *bundle, const char *name, const char *why, const char *text,
		size_t len);

/* Of the file that was added last (there is one): something of it is missing. */
__attribute__((format(printf, 2, 3))) void bundle_note(struct bundle *bundle, const char *format,
						       ...);

/* The file @name is not to be had. */
__attribute__((format(printf, 4, 5))) void bundle_miss(struct bundle *bundle, const char *name,
						       const char *why, const char *format, ...);

/* Write the manifest, and everything as a gzipped tar archive to @fd. 0; -ENOENT without tar(1) or
 * gzip(1); -EIO when they fail, after which the user has been told what they said; -errno. */
int bundle_pack(struct bundle *bundle, int fd);

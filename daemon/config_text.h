/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/*
 * The text of a file of settings, looked at before libconfig reads it. libconfig takes a number
 * that is too large for another one, ends the process when a file that it includes is a directory,
 * reads nothing behind a NUL, takes a comment that is never closed for the rest of the file, and
 * tells the end of the file as the line of a text that is not closed.
 */

/* Longest file, and how deep files may include others (as libconfig). Chosen. */
#define CONF_TEXT_BYTES_MAX (1024u * 1024u)
#define CONF_TEXT_DEPTH_MAX 10u

/* What is wrong, and where: in @file, which another may have included. */
struct conf_text_error {
	char file[256];
	int line; /* 0: the file as a whole */
	char text[256];
};

/* The text is wrong; positive, unlike -errno. */
#define CONF_TEXT_BAD 1

/*
 * Read the file @path, and look at it and at all that it includes.
 * @ret_text: its bytes, an end of line and a NUL, to be freed by the caller.
 * @ret_error: set if the result is not 0.
 * Returns 0, CONF_TEXT_BAD, or -errno if @path itself can't be read (-EISDIR: a directory, -EINVAL:
 * another thing that is no file, -EFBIG: too large). Blocks for file reads, never for a pipe.
 */
int conf_text_read(const char *path, char **ret_text, struct conf_text_error *ret_error);

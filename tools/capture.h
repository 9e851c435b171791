/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Of a longer output its end is kept. Chosen: a day of a busy daemon's log. */
#define CAPTURE_BYTES_MAX (8u << 20)

/* What a command said, on both outputs. */
struct capture {
	char *text; /* the caller frees it */
	size_t len;
	bool is_cut; /* the beginning is missing */
	int status;  /* its exit status; -1: it was killed, or ended by a signal */
};

/*
 * Run @argv, found by PATH, without input and with LC_ALL=C, for at most @timeout_ms.
 * 0; -ENOENT when there is no such command; -ETIMEDOUT after killing it; -errno of starting it.
 * @ret_capture: set with 0 only.
 */
int capture_run(const char *const argv[], int timeout_ms, struct capture *ret_capture);

/* The content of the file @path, of its end if it is long. 0 or -errno; @ret_capture as above. */
int capture_file(const char *path, struct capture *ret_capture);

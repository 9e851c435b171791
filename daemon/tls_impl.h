/* SPDX-License-Identifier: MIT */
#pragma once

#include "tls.h"

/* Between the parts of tls.h. */

#define TLS_PATH_MAX 512u

/*
 * Read the file @path (see tls_key_load()) into @to[0, @size). @is_secret: its owner and mode are
 * checked. The length, less than @size; or -errno with @error set.
 */
ssize_t tls_file_read(const char *path, bool is_secret, char *to, size_t size,
		      struct tls_error *error);

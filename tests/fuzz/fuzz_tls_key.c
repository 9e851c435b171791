/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tls.h"

#include "fuzz/fuzz.h"

/*
 * A file with a key, whatever it holds. What is taken for one is of a good length, and its digits
 * are those of the file; what is not has a reason and gives nothing.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static int fd = -1;
	static char path[64];
	struct tls_error error = {{0}};
	struct tls_key key = {.len = 5};
	char digits[3];

	if (fd < 0) {
		fd = memfd_create("key", MFD_CLOEXEC);
		if (fd < 0 || fchmod(fd, 0600) < 0)
			abort();
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data, len, 0) != (ssize_t)len)
		abort();
	if (tls_key_load(path, &key, &error) < 0) {
		if (key.len != 5 || !error.text[0])
			abort();
		return 0;
	}
	if (key.len < TLS_KEY_MIN || key.len > TLS_KEY_MAX || len < 2 * key.len)
		abort();
	for (size_t i = 0; i < key.len; i++) {
		snprintf(digits, sizeof(digits), "%02x", key.bytes[i]);
		if (strncasecmp(digits, (const char *)data + 2 * i, 2) != 0)
			abort();
	}
	return 0;
}

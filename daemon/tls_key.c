/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/fd.h"
#include "os/sys.h"
#include "tls.h"
#include "tls_impl.h"

__attribute__((format(printf, 3, 4))) static int fail(struct tls_error *error, int rc,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return rc;
}

static bool full_path(const char *path, char full[TLS_PATH_MAX])
{
	const char *folder = secure_getenv("CREDENTIALS_DIRECTORY");
	int len;

	if (path[0] == '/')
		len = snprintf(full, TLS_PATH_MAX, "%s", path);
	else if (folder && folder[0] == '/')
		len = snprintf(full, TLS_PATH_MAX, "%s/%s", folder, path);
	else
		return false;
	return len < (int)TLS_PATH_MAX;
}

bool tls_credential_exists(const char *name)
{
	char full[TLS_PATH_MAX];

	return full_path(name, full) && access(full, F_OK) == 0;
}

/* Nobody but root and we may have had a hand in a secret, or a look at it. */
static int check_secret(int fd, const char *path, struct tls_error *error)
{
	struct stat stat;
	int rc = sys_fstat(fd, &stat);

	if (rc < 0)
		return fail(error, rc, "%s can't be looked at: %s", path, strerror(-rc));
	if (!S_ISREG(stat.st_mode))
		return fail(error, -EPERM, "%s is not a regular file", path);
	if (stat.st_uid != 0 && stat.st_uid != geteuid())
		return fail(error, -EPERM,
			    "%s belongs to user %u, but must belong to root or to user %u", path,
			    (unsigned int)stat.st_uid, (unsigned int)geteuid());
	if (stat.st_mode & 077)
		return fail(error, -EPERM,
			    "%s may be read or written by others (mode %04o): chmod 0600 %s", path,
			    (unsigned int)stat.st_mode & 07777, path);
	return 0;
}

ssize_t tls_file_read(const char *path, bool is_secret, char *to, size_t size,
		      struct tls_error *error)
{
	AUTO_FD int fd = -1;
	char full[TLS_PATH_MAX];
	size_t len = 0;
	int rc;

	if (!full_path(path, full))
		return fail(error, -ENOENT,
			    "%s names a credential, but there is no $CREDENTIALS_DIRECTORY: give "
			    "a full path, or LoadCredential=%s:… in the unit",
			    path, path);
	fd = sys_openat(AT_FDCWD, full, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	if (fd < 0)
		return fail(error, fd, "%s can't be opened: %s", full, strerror(-fd));
	rc = is_secret ? check_secret(fd, full, error) : 0;
	if (rc < 0)
		return rc;
	while (len < size) {
		ssize_t n = sys_read(fd, to + len, size - len);

		if (n < 0)
			return fail(error, (int)n, "%s can't be read: %s", full, strerror((int)-n));
		if (n == 0)
			return (ssize_t)len;
		len += (size_t)n;
	}
	return fail(error, -EFBIG, "%s is too long: more than %zu bytes", full, size - 1);
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void tls_key_forget(struct tls_key *key)
{
	explicit_bzero(key, sizeof(*key));
}

int tls_key_load(const char *path, struct tls_key *ret_key, struct tls_error *ret_error)
{
	char text[2 * TLS_KEY_MAX + 8];
	struct tls_key key = {0};
	ssize_t len = tls_file_read(path, true, text, sizeof(text), ret_error);
	bool good;

	if (len < 0)
		return (int)len;
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' '))
		len--;
	good = len % 2 == 0 && len >= 2 * (ssize_t)TLS_KEY_MIN && len <= 2 * (ssize_t)TLS_KEY_MAX;
	for (ssize_t i = 0; good && i < len; i += 2) {
		int hi = digit(text[i]), lo = digit(text[i + 1]);

		good = hi >= 0 && lo >= 0;
		if (good)
			key.bytes[key.len++] = (uint8_t)(hi << 4 | lo);
	}
	explicit_bzero(text, sizeof(text));
	if (!good) {
		tls_key_forget(&key);
		return fail(ret_error, -EINVAL,
			    "%s holds no key: one line of %u to %u hexadecimal digits is wanted, "
			    "as openssl rand -hex 32 prints it",
			    path, 2 * TLS_KEY_MIN, 2 * TLS_KEY_MAX);
	}
	*ret_key = key;
	tls_key_forget(&key);
	return 0;
}

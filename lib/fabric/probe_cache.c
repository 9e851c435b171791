/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fabric/probe_cache.h"
#include "fabric/probe_entry.h"
#include "os/fd.h"
#include "os/syswait.h"

#define FILE_NAME "probe.json"
#define TEMP_NAME ".probe.json.new"

/* Largest file read; most entries kept. Chosen: an entry has a few hundred bytes, a host a few
 * devices, and an experimenter some dozen shapes of each. */
#define FILE_BYTES_MAX 262144
#define ENTRIES_MAX 128u

/* Waiting for the lock. Chosen: who holds it writes a few kilobytes. */
#define LOCK_TRIES 100
#define LOCK_PAUSE_NS 10000000L

CLEANUP_DEFINE(json, json_t *, NULL, json_decref);
#define AUTO_JSON CLEANUP(cleanup_json)

__attribute__((format(printf, 3, 4))) static int problem(struct probe_cache *cache, int rc,
							 const char *format, ...)
{
	int used = snprintf(cache->problem, sizeof(cache->problem), "%.300s/" FILE_NAME ": ",
			    cache->dir);
	va_list args;

	va_start(args, format);
	vsnprintf(cache->problem + used, sizeof(cache->problem) - (size_t)used, format, args);
	va_end(args);
	return rc;
}

static bool set_dir(struct probe_cache *cache, const char *base, const char *sub)
{
	int len;

	if (!base || base[0] != '/')
		return false;
	/* systemd may give several, separated by colons. */
	len = snprintf(cache->dir, sizeof(cache->dir), "%.*s%s", (int)strcspn(base, ":"), base,
		       sub);
	if (len > 0 && (size_t)len < sizeof(cache->dir))
		return true;
	cache->dir[0] = '\0';
	return false;
}

void probe_cache_init(struct probe_cache *cache)
{
	bool is_secure = getauxval(AT_SECURE) != 0;
	const char *override = is_secure ? NULL : getenv("SHUNT_CACHE_DIR");

	*cache = (struct probe_cache){.is_told = false};
	if (override && *override) {
		set_dir(cache, override, "");
		return;
	}
	if (!is_secure && set_dir(cache, getenv("STATE_DIRECTORY"), ""))
		return;
	if (sys_geteuid() == 0)
		set_dir(cache, "/var/lib/shunt", "");
	else if (!is_secure && !set_dir(cache, getenv("XDG_CACHE_HOME"), "/shunt"))
		set_dir(cache, getenv("HOME"), "/.cache/shunt");
}

/* Make the folder and those above it, as far as they are missing. */
static void make_dir(const char *dir)
{
	char path[PATH_MAX];
	mode_t mode = sys_geteuid() == 0 ? 0755 : 0700;

	snprintf(path, sizeof(path), "%s", dir);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, mode);
		*slash = '/';
	}
	mkdir(path, mode);
}

/* Open and lock the folder: whoever closes the descriptor releases it. -errno on failure. */
static int lock_dir(const struct probe_cache *cache)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	AUTO_FD int dir = -1;
	int rc = -EBUSY;

	if (!cache->dir[0])
		return -ENOENT;
	dir = sys_openat(AT_FDCWD, cache->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir < 0)
		return TAKE(dir, -1);
	for (int i = 0; i < LOCK_TRIES; i++) {
		rc = sys_flock(dir, LOCK_EX | LOCK_NB);
		if (rc != -EWOULDBLOCK)
			break;
		nanosleep(&pause, NULL);
	}
	if (rc < 0)
		return rc == -EWOULDBLOCK ? -EBUSY : rc;
	return TAKE(dir, -1);
}

/* Read the whole of @fd, at most FILE_BYTES_MAX. */
static ssize_t read_whole(int fd, char *text)
{
	size_t used = 0;

	while (used < FILE_BYTES_MAX) {
		ssize_t n = sys_read(fd, text + used, FILE_BYTES_MAX - used);

		if (n == -EINTR)
			continue;
		if (n < 0)
			return n;
		if (n == 0)
			break;
		used += (size_t)n;
	}
	return (ssize_t)used;
}

/*
 * Load the entries of the file in @dir. 0 and a JSON object for the caller (an empty one if there
 * is no file), or PROBE_CACHE_BAD with the problem and an empty one.
 */
static int load(struct probe_cache *cache, int dir, json_t **ret_entries)
{
	AUTO_FREE char *text = malloc(FILE_BYTES_MAX);
	AUTO_FD int fd = -1;
	char why[PROBE_PARSE_BYTES];
	json_t *entries;
	struct stat st;
	ssize_t len;

	*ret_entries = json_object();
	if (!text || !*ret_entries)
		return problem(cache, PROBE_CACHE_BAD, "no memory to read it");
	fd = sys_openat(dir, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0 || sys_fstat(fd, &st) < 0)
		return problem(cache, PROBE_CACHE_BAD, "can't be opened: %s",
			       strerror(fd < 0 ? -fd : EIO));
	if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != sys_geteuid()) ||
	    (st.st_mode & 022) != 0)
		return problem(cache, PROBE_CACHE_BAD, "not a file of ours that only we may write");
	if (st.st_size >= FILE_BYTES_MAX)
		return problem(cache, PROBE_CACHE_BAD, "too large");
	len = read_whole(fd, text);
	if (len < 0)
		return problem(cache, PROBE_CACHE_BAD, "can't be read: %s", strerror((int)-len));
	entries = probe_entries_parse(text, (size_t)len, why);
	if (!entries)
		return problem(cache, PROBE_CACHE_BAD, "%s", why);
	json_decref(*ret_entries);
	*ret_entries = entries;
	return 0;
}

static int write_whole(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = sys_write(fd, text, len);

		if (n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		text += n;
		len -= (size_t)n;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

/* Put @entries in the place of the file: all of it or nothing. */
static int save(struct probe_cache *cache, int dir, json_t *entries)
{
	AUTO_FREE char *text = probe_entries_text(entries);
	AUTO_FD int fd = -1;
	int rc;

	if (!text)
		return problem(cache, -ENOMEM, "no memory to write it");
	/* What a crash left behind; nobody else is here, for we hold the lock. */
	sys_unlinkat(dir, TEMP_NAME, 0);
	fd = sys_openat(dir, TEMP_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	rc = fd < 0 ? fd : write_whole(fd, text, strlen(text));
	if (rc == 0 && renameat(dir, TEMP_NAME, dir, FILE_NAME) < 0)
		rc = -errno;
	if (rc < 0) {
		sys_unlinkat(dir, TEMP_NAME, 0);
		return problem(cache, rc, "can't be written: %s", strerror(-rc));
	}
	return 0;
}

int probe_cache_find(struct probe_cache *cache, const struct device_info *info,
		     const struct probe_order *order, struct probe_report *ret_report)
{
	AUTO_JSON json_t *entries = NULL;
	AUTO_FD int dir = lock_dir(cache);
	char key[PROBE_KEY_BYTES];
	const json_t *entry;
	int rc;

	/* No folder, no cache. */
	if (dir < 0)
		return 0;
	rc = load(cache, dir, &entries);
	if (rc) {
		if (cache->is_told)
			return 0;
		cache->is_told = true;
		return rc;
	}
	probe_entry_key(info, order, key);
	entry = json_object_get(entries, key);
	return entry && probe_entry_decode(entry, order, ret_report) ? PROBE_CACHE_HIT : 0;
}

/* Set the entry of @order to @value (ours to release), or remove it if that is NULL. */
static int change(struct probe_cache *cache, const struct device_info *info,
		  const struct probe_order *order, json_t *value)
{
	AUTO_JSON json_t *entries = NULL;
	AUTO_FD int dir = -1;
	char key[PROBE_KEY_BYTES];

	dir = lock_dir(cache);
	if (dir < 0) {
		json_decref(value);
		return problem(cache, dir, "can't lock its folder: %s", strerror(-dir));
	}
	probe_entry_key(info, order, key);
	/* A bad file is replaced; nothing was in it. */
	(void)load(cache, dir, &entries);
	if (!entries) {
		json_decref(value);
		return -ENOMEM;
	}
	if (!value && !json_object_get(entries, key))
		return 0;
	json_object_del(entries, key);
	if (value) {
		if (json_object_size(entries) >= ENTRIES_MAX)
			json_object_clear(entries);
		if (json_object_set_new(entries, key, value) < 0)
			return problem(cache, -ENOMEM, "no memory to write it");
	}
	return save(cache, dir, entries);
}

int probe_cache_store(struct probe_cache *cache, const struct device_info *info,
		      const struct probe_order *order, const struct probe_report *report)
{
	json_t *entry;

	if (!cache->dir[0])
		return -ENOENT;
	if (!probe_is_lasting(report))
		return -EINVAL;
	entry = probe_entry_encode(report);
	if (!entry)
		return problem(cache, -ENOMEM, "no memory to write it");
	make_dir(cache->dir);
	return change(cache, info, order, entry);
}

int probe_cache_drop(struct probe_cache *cache, const struct device_info *info,
		     const struct probe_order *order)
{
	int rc;

	if (!cache->dir[0])
		return 0;
	rc = change(cache, info, order, NULL);
	return rc == -ENOENT ? 0 : rc;
}

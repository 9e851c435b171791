/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fabric/probe_cache.h"
#include "os/fd.h"
#include "os/syswait.h"

#define FILE_NAME "probe.json"
#define TEMP_NAME ".probe.json.new"
#define VERSION 1

/* Largest file read; most entries kept. Chosen: an entry has a few hundred bytes, a host a few
 * devices, and an experimenter some dozen shapes of each. */
#define FILE_BYTES_MAX 262144
#define ENTRIES_MAX 128u
#define KEY_BYTES 768u

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

/* What an entry is found by: everything that the result depends on. */
static void make_key(const struct device_info *info, const struct probe_order *order,
		     char key[KEY_BYTES])
{
	struct utsname kernel;
	int used;

	if (uname(&kernel) < 0)
		strcpy(kernel.release, "?");
	used = snprintf(key, KEY_BYTES,
			"%s guid %016" PRIx64 " firmware %s kernel %.64s provider %s driver %s "
			"depth %u+%u pieces %u+%u ask %u floor %u cap %u hints",
			info->name, info->guid, info->firmware, kernel.release, info->provider,
			info->driver, order->shape.send_wr, order->shape.recv_wr,
			order->shape.send_sge, order->shape.recv_sge, order->ask.ask,
			order->ask.floor, order->ask.cap);
	for (uint32_t i = 0; i < u64_min(order->ask.n_hints, INLINE_HINTS_MAX); i++)
		used += snprintf(key + used, KEY_BYTES - (size_t)used, " %u", order->ask.hints[i]);
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
	AUTO_JSON json_t *root = NULL;
	AUTO_FD int fd = -1;
	json_error_t error;
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
	root = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		return problem(cache, PROBE_CACHE_BAD, "line %d: %s", error.line, error.text);
	entries = json_object_get(root, "entries");
	if (json_integer_value(json_object_get(root, "version")) != VERSION ||
	    !json_is_object(entries))
		return problem(cache, PROBE_CACHE_BAD, "not of this version");
	json_decref(*ret_entries);
	*ret_entries = json_incref(entries);
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
	AUTO_JSON json_t *root = json_pack("{s:i, s:O}", "version", VERSION, "entries", entries);
	AUTO_FREE char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
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

/* A number of an entry: false if it is none, or beyond @max. */
static bool get_number(const json_t *entry, const char *name, uint32_t max, uint32_t *ret_number)
{
	const json_t *value = json_object_get(entry, name);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > max)
		return false;
	*ret_number = (uint32_t)json_integer_value(value);
	return true;
}

static bool get_reason(const json_t *entry, enum inline_reason *ret_reason)
{
	const char *name = json_string_value(json_object_get(entry, "reason"));

	for (int i = 0; name && i < INLINE_REASON_COUNT; i++) {
		if (strcmp(name, inline_reason_name(i)) == 0) {
			*ret_reason = i;
			return true;
		}
	}
	return false;
}

static bool get_frontier(const json_t *entry, struct frontier *frontier)
{
	const json_t *points = json_object_get(entry, "frontier");

	if (!points)
		return true;
	if (!json_is_array(points) || json_array_size(points) > FRONTIER_POINTS_MAX)
		return false;
	for (size_t i = 0; i < json_array_size(points); i++) {
		struct frontier_point *point = &frontier->points[i];
		const json_t *value = json_array_get(points, i);

		if (!get_number(value, "inline_bytes", INLINE_BYTES_MAX, &point->inline_bytes) ||
		    !get_number(value, "send_wr", INT32_MAX, &point->send_wr))
			return false;
	}
	frontier->n = (uint32_t)json_array_size(points);
	return true;
}

/* Whether @entry is a report that a probe of @order could have come to; if so, it is. */
static bool decode(const json_t *entry, const struct probe_order *order,
		   struct probe_report *report)
{
	*report =
		(struct probe_report){.shape = order->shape, .ask = order->ask, .is_cached = true};
	if (!json_is_object(entry) || !get_reason(entry, &report->reason) ||
	    !get_number(entry, "used", INLINE_BYTES_MAX, &report->used) ||
	    !get_number(entry, "granted", INT32_MAX, &report->granted) ||
	    !get_number(entry, "verified", INLINE_BYTES_MAX, &report->verified) ||
	    !get_number(entry, "send_wr_granted", INT32_MAX, &report->send_wr_granted) ||
	    !get_number(entry, "port", UINT8_MAX, &report->port) ||
	    !get_number(entry, "creations", INT32_MAX, &report->creations) ||
	    !get_number(entry, "us", INT32_MAX, &report->us) ||
	    !get_frontier(entry, &report->frontier))
		return false;
	report->exact = json_is_true(json_object_get(entry, "exact"));
	if (!probe_is_lasting(report) || report->used > order->ask.cap ||
	    report->used > report->granted)
		return false;
	if (inline_reason_is_good(report->reason))
		return report->used >= order->ask.floor && report->used > 0 &&
		       report->used == report->verified;
	return report->used == 0;
}

static json_t *encode(const struct probe_report *report)
{
	json_t *points, *entry;

	entry = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "reason",
			  inline_reason_name(report->reason), "used", (int)report->used, "granted",
			  (int)u64_min(report->granted, INT32_MAX), "verified",
			  (int)report->verified, "send_wr_granted",
			  (int)u64_min(report->send_wr_granted, INT32_MAX), "port",
			  (int)report->port, "creations", (int)report->creations, "us",
			  (int)u64_min(report->us, INT32_MAX), "exact", (int)report->exact);
	if (!entry || report->frontier.n == 0)
		return entry;
	points = json_array();
	for (uint32_t i = 0; i < report->frontier.n; i++) {
		const struct frontier_point *point = &report->frontier.points[i];

		if (point->error == 0)
			json_array_append_new(points,
					      json_pack("{s:i, s:i}", "inline_bytes",
							(int)point->inline_bytes, "send_wr",
							(int)u64_min(point->send_wr, INT32_MAX)));
	}
	json_object_set_new(entry, "frontier", points);
	return entry;
}

int probe_cache_find(struct probe_cache *cache, const struct device_info *info,
		     const struct probe_order *order, struct probe_report *ret_report)
{
	AUTO_JSON json_t *entries = NULL;
	AUTO_FD int dir = lock_dir(cache);
	struct probe_report report;
	char key[KEY_BYTES];
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
	make_key(info, order, key);
	entry = json_object_get(entries, key);
	if (!entry || !decode(entry, order, &report))
		return 0;
	*ret_report = report;
	return PROBE_CACHE_HIT;
}

/* Set the entry of @order to @value (ours to release), or remove it if that is NULL. */
static int change(struct probe_cache *cache, const struct device_info *info,
		  const struct probe_order *order, json_t *value)
{
	AUTO_JSON json_t *entries = NULL;
	AUTO_FD int dir = -1;
	char key[KEY_BYTES];

	dir = lock_dir(cache);
	if (dir < 0) {
		json_decref(value);
		return problem(cache, dir, "can't lock its folder: %s", strerror(-dir));
	}
	make_key(info, order, key);
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
	entry = encode(report);
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

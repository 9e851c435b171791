/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "host.h"
#include "personality.h"

#define DEVICES_MAX 8
#define KEYS_MAX 12

struct setting {
	char key[24], value[40];
};

struct device {
	char name[32], personality[32], state[16], ip[64], netdev[16];
	unsigned ifindex;
	int index;
	struct setting settings[KEYS_MAX];
	unsigned setting_count;
};

struct verbs_host {
	char dir[512];
	struct device devices[DEVICES_MAX];
	unsigned count;
	int next_index;
	bool owns_fabric;
};

/* Devices that this process has plugged in, in all: makes indices and LIDs differ. */
static int plugged;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fprintf(stderr, "verbs host: ");
	vfprintf(stderr, fmt, args);
	fprintf(stderr, ": %s\n", strerror(errno));
	va_end(args);
	abort();
}

static struct device *find(struct verbs_host *host, const char *name)
{
	for (unsigned i = 0; i < host->count; i++) {
		if (strcmp(host->devices[i].name, name) == 0)
			return &host->devices[i];
	}
	die("no device %s", name);
}

/* The link-local GID of a port, from its index. */
static void link_local(const struct device *device, char text[40])
{
	snprintf(text, 40, "fe80::200:ff:fe00:%x", device->index + 1);
}

static void print_gids(FILE *out, const struct device *device)
{
	const struct personality *p = personality_find(device->personality);
	char local[40], mapped[80];

	link_local(device, local);
	snprintf(mapped, sizeof(mapped), "%s%s",
		 strchr(device->ip, ':') ? "" : "::ffff:", device->ip);
	switch (p->net) {
	case NET_IB:
	case NET_IWARP:
	case NET_OTHER:
		fprintf(out, "gid device=%s index=0 type=ib gid=%s\n", device->name, local);
		break;
	case NET_ROCE:
		fprintf(out, "gid device=%s index=0 type=v1 gid=%s\n", device->name, local);
		fprintf(out, "gid device=%s index=1 type=v2 gid=%s\n", device->name, local);
		if (!device->ip[0])
			break;
		fprintf(out, "gid device=%s index=2 type=v1 gid=%s\n", device->name, mapped);
		fprintf(out, "gid device=%s index=3 type=v2 gid=%s\n", device->name, mapped);
		break;
	}
	if (device->ip[0])
		fprintf(out, "addr device=%s ip=%s\n", device->name, device->ip);
}

static void print_device(FILE *out, const struct device *device)
{
	const struct personality *p = personality_find(device->personality);

	fprintf(out, "device name=%s personality=%s index=%d", device->name, device->personality,
		device->index);
	for (unsigned i = 0; i < device->setting_count; i++)
		fprintf(out, " %s=%s", device->settings[i].key, device->settings[i].value);
	fprintf(out, "\nport device=%s num=1 state=%s lid=%d netdev=%s ifindex=%u\n", device->name,
		device->state, p->net == NET_IB ? device->index + 1 : 0, device->netdev,
		device->ifindex);
	print_gids(out, device);
}

/* Whole, under another name, then in one step. */
static void replace(const struct verbs_host *host, const char *name, const char *text)
{
	char path[PATH_MAX + 64], again[PATH_MAX + 64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/.%s.new", host->dir, name);
	snprintf(again, sizeof(again), "%s/%s", host->dir, name);
	file = fopen(path, "we");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		die("%s", path);
	/* Of the test's user, written by the programs' users. */
	chmod(path, 0666);
	if (rename(path, again) < 0)
		die("%s", again);
}

static void write_host(const struct verbs_host *host)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		die("memory");
	for (unsigned i = 0; i < host->count; i++)
		print_device(out, &host->devices[i]);
	fclose(out);
	replace(host, "host", text);
	free(text);
}

static struct verbs_host *make(const char *fabric)
{
	struct verbs_host *host = calloc(1, sizeof(*host));
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX + 16];

	if (!host)
		die("memory");
	snprintf(host->dir, sizeof(host->dir), "%s/verbs-host-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(host->dir) || chmod(host->dir, 0777) < 0)
		die("%s", host->dir);
	snprintf(path, sizeof(path), "%s/fabric", host->dir);
	host->owns_fabric = !fabric;
	if (fabric ? symlink(fabric, path) < 0 : (mkdir(path, 0777) < 0 || chmod(path, 0777) < 0))
		die("%s", path);
	write_host(host);
	replace(host, "faults", "");
	return host;
}

struct verbs_host *verbs_host_new(void)
{
	return make(NULL);
}

struct verbs_host *verbs_host_join(const struct verbs_host *other)
{
	char fabric[PATH_MAX + 16], real[PATH_MAX];

	snprintf(fabric, sizeof(fabric), "%s/fabric", other->dir);
	if (!realpath(fabric, real))
		die("%s", fabric);
	return make(real);
}

static void remove_tree(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)) != NULL) {
		char below[PATH_MAX];
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if ((size_t)snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) >=
		    sizeof(below))
			continue;
		if (lstat(below, &st) == 0 && S_ISDIR(st.st_mode))
			remove_tree(below);
		else
			unlink(below);
	}
	if (folder)
		closedir(folder);
	rmdir(path);
}

void verbs_host_free(struct verbs_host *host)
{
	if (!host)
		return;
	remove_tree(host->dir);
	free(host);
}

const char *verbs_host_dir(const struct verbs_host *host)
{
	return host->dir;
}

void verbs_host_enter(const struct verbs_host *host)
{
	setenv("VERBS_DOUBLE_DIR", host->dir, 1);
}

void verbs_host_add(struct verbs_host *host, const char *name, const char *personality,
		    const char *ip)
{
	struct device *device = &host->devices[host->count];

	if (host->count == DEVICES_MAX || !personality_find(personality))
		die("device %s with personality %s", name, personality);
	memset(device, 0, sizeof(*device));
	snprintf(device->name, sizeof(device->name), "%s", name);
	snprintf(device->personality, sizeof(device->personality), "%s", personality);
	snprintf(device->state, sizeof(device->state), "active");
	snprintf(device->ip, sizeof(device->ip), "%s", ip ? ip : "");
	/* Other processes plug devices into the same network: their LIDs must differ, too. */
	device->index = plugged++ + ((int)getpid() & 0xfff) * 8;
	snprintf(device->netdev, sizeof(device->netdev), "lo");
	device->ifindex = 1;
	host->count++;
	write_host(host);
}

void verbs_host_remove(struct verbs_host *host, const char *name)
{
	struct device *device = find(host, name);

	*device = host->devices[--host->count];
	write_host(host);
}

void verbs_host_set(struct verbs_host *host, const char *name, const char *key, const char *value)
{
	struct device *device = find(host, name);
	unsigned kept = 0;

	for (unsigned i = 0; i < device->setting_count; i++) {
		if (strcmp(device->settings[i].key, key) != 0)
			device->settings[kept++] = device->settings[i];
	}
	device->setting_count = kept;
	if (value) {
		struct setting *setting = &device->settings[device->setting_count++];

		if (device->setting_count > KEYS_MAX)
			die("too many settings of %s", name);
		snprintf(setting->key, sizeof(setting->key), "%s", key);
		snprintf(setting->value, sizeof(setting->value), "%s", value);
	}
	write_host(host);
}

void verbs_host_port(struct verbs_host *host, const char *name, const char *state)
{
	struct device *device = find(host, name);

	snprintf(device->state, sizeof(device->state), "%s", state);
	write_host(host);
}

void verbs_host_address(struct verbs_host *host, const char *name, const char *ip)
{
	struct device *device = find(host, name);

	snprintf(device->ip, sizeof(device->ip), "%s", ip ? ip : "");
	write_host(host);
}

void verbs_host_netdev(struct verbs_host *host, const char *name, const char *netdev,
		       unsigned ifindex)
{
	struct device *device = find(host, name);

	snprintf(device->netdev, sizeof(device->netdev), "%s", netdev);
	device->ifindex = ifindex;
	write_host(host);
}

void verbs_host_faults(struct verbs_host *host, const char *lines)
{
	replace(host, "faults", lines);
}

const char *verbs_host_faults_left(const struct verbs_host *host)
{
	static char text[4096];
	char path[PATH_MAX + 16];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s/faults", host->dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("%s", path);
	flock(fd, LOCK_SH);
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length < 0 ? 0 : length] = '\0';
	return text;
}

/* A lock that can be taken was left by a process that was killed. */
static bool is_locked(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	bool locked;

	if (fd < 0)
		return false;
	locked = flock(fd, LOCK_EX | LOCK_NB) < 0;
	close(fd);
	return locked;
}

static bool has_lock(const char *folder)
{
	DIR *files = opendir(folder);
	struct dirent *entry;
	bool held = false;

	while (files && !held && (entry = readdir(files)) != NULL) {
		char path[2 * PATH_MAX];

		if (entry->d_name[0] == '.')
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) <
		    sizeof(path))
			held = is_locked(path);
	}
	if (files)
		closedir(files);
	return held;
}

bool verbs_host_is_held(const struct verbs_host *host, const char *name)
{
	char path[PATH_MAX + 16];
	struct dirent *entry;
	bool held = false;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/refs", host->dir);
	folder = opendir(path);
	while (folder && !held && (entry = readdir(folder)) != NULL) {
		char below[2 * PATH_MAX];
		size_t length = strlen(name);

		/* NAME.INDEX, of any incarnation. */
		if (strncmp(entry->d_name, name, length) != 0 || entry->d_name[length] != '.')
			continue;
		snprintf(below, sizeof(below), "%s/refs/%s", host->dir, entry->d_name);
		held = has_lock(below);
	}
	if (folder)
		closedir(folder);
	return held;
}

bool verbs_host_wait_free(const struct verbs_host *host, const char *name, unsigned timeout_ms)
{
	for (unsigned waited = 0; waited <= timeout_ms; waited += 5) {
		if (!verbs_host_is_held(host, name))
			return true;
		usleep(5000);
	}
	return false;
}

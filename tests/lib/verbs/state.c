/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "state.h"

/* Room for one host file. Chosen: far above what 16 devices need. */
#define FILE_MAX_BYTES 65536

/* One `key=value` of a line. */
struct pair {
	char *key, *value;
};

#define PAIRS_MAX 24

struct line {
	const char *kind;
	struct pair pairs[PAIRS_MAX];
	unsigned count;
	unsigned number;
	const char *dir;
};

__attribute__((noreturn)) static void bad_line(const struct line *line, const char *what)
{
	fprintf(stderr, "verbs double: %s/host:%u (%s): %s\n", line->dir, line->number, line->kind,
		what);
	abort();
}

int state_errno(const char *name)
{
	static const struct {
		const char *name;
		int value;
	} names[] = {
		{"0", 0},
		{"EPERM", EPERM},
		{"ENOENT", ENOENT},
		{"EIO", EIO},
		{"EAGAIN", EAGAIN},
		{"ENOMEM", ENOMEM},
		{"EACCES", EACCES},
		{"EBUSY", EBUSY},
		{"ENODEV", ENODEV},
		{"EINVAL", EINVAL},
		{"EMFILE", EMFILE},
		{"ENOSPC", ENOSPC},
		{"ENOSYS", ENOSYS},
		{"EMSGSIZE", EMSGSIZE},
		{"EOPNOTSUPP", EOPNOTSUPP},
		{"EADDRNOTAVAIL", EADDRNOTAVAIL},
		{"ENETUNREACH", ENETUNREACH},
		{"ETIMEDOUT", ETIMEDOUT},
		{"EHOSTUNREACH", EHOSTUNREACH},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(names[i].name, name) == 0)
			return names[i].value;
	}
	return -1;
}

DBL_API int state_parse_ip(const char *text, uint8_t ret_raw[16])
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		memset(ret_raw, 0, 10);
		ret_raw[10] = ret_raw[11] = 0xff;
		memcpy(ret_raw + 12, &v4, 4);
		return 0;
	}
	return inet_pton(AF_INET6, text, ret_raw) == 1 ? 0 : -EINVAL;
}

/* The value of @key, or NULL. */
static const char *get(const struct line *line, const char *key)
{
	for (unsigned i = 0; i < line->count; i++) {
		if (strcmp(line->pairs[i].key, key) == 0)
			return line->pairs[i].value;
	}
	return NULL;
}

static const char *need(const struct line *line, const char *key)
{
	const char *value = get(line, key);

	if (!value)
		bad_line(line, key);
	return value;
}

static long get_number(const struct line *line, const char *key, long otherwise)
{
	const char *value = get(line, key);
	char *end;
	long number;

	if (!value)
		return otherwise;
	number = strtol(value, &end, 0);
	if (end == value || *end)
		bad_line(line, key);
	return number;
}

/* One of the words of a list, as the number beside it. */
static int get_word(const struct line *line, const char *key, const char *otherwise,
		    const struct line *words)
{
	const char *value = get(line, key);

	if (!value)
		value = otherwise;
	for (unsigned i = 0; i < words->count; i++) {
		if (strcmp(words->pairs[i].key, value) == 0)
			return (int)strtol(words->pairs[i].value, NULL, 0);
	}
	bad_line(line, key);
}

static void copy(const struct line *line, char *dst, size_t size, const char *value)
{
	if (strlen(value) >= size)
		bad_line(line, value);
	memcpy(dst, value, strlen(value) + 1);
}

/* A GUID of its own for each name and folder, so that tests need not invent one (FNV-1a). */
static uint64_t make_guid(const char *dir, const char *name, int index)
{
	char text[PATH_MAX + STATE_NAME_MAX + 16];
	uint64_t hash = 0xcbf29ce484222325u;

	snprintf(text, sizeof(text), "%s/%s/%d", dir, name, index);
	for (const char *p = text; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
	return hash | 1;
}

static void take_device(const struct line *line, struct state_host *host)
{
	struct state_device *device = &host->devices[host->count];
	const char *guid = get(line, "guid"), *open = get(line, "open"), *fw = get(line, "fw");

	if (host->count == STATE_DEVICES_MAX)
		bad_line(line, "too many devices");
	memset(device, 0, sizeof(*device));
	copy(line, device->name, sizeof(device->name), need(line, "name"));
	copy(line, device->personality, sizeof(device->personality), need(line, "personality"));
	copy(line, device->fw, sizeof(device->fw), fw ? fw : "");
	device->index = (int)get_number(line, "index", host->count);
	device->guid =
		guid ? strtoull(guid, NULL, 16) : make_guid(line->dir, device->name, device->index);
	device->inline_limit = get_number(line, "inline", STATE_UNSET);
	device->max_qp_wr = get_number(line, "max_qp_wr", STATE_UNSET);
	device->max_qp = get_number(line, "max_qp", STATE_UNSET);
	device->max_cq = get_number(line, "max_cq", STATE_UNSET);
	device->max_mr = get_number(line, "max_mr", STATE_UNSET);
	device->wqebb = get_number(line, "wqebb", STATE_UNSET);
	device->memlock = get_number(line, "memlock", STATE_UNSET);
	device->open_errno = open ? state_errno(open) : 0;
	if (device->open_errno < 0)
		bad_line(line, "open");
	host->count++;
}

static struct state_port *find_port(const struct line *line, struct state_host *host,
				    const char *key)
{
	struct state_device *device = state_find(host, need(line, "device"));
	long num = get_number(line, key, 1);

	if (!device || num < 1 || num > STATE_PORTS_MAX)
		bad_line(line, "no such device or port");
	return &device->ports[num - 1];
}

static void take_port(const struct line *line, struct state_host *host)
{
	static const struct line states = {
		.pairs = {{(char *)"active", (char *)"4"},
			  {(char *)"down", (char *)"1"},
			  {(char *)"init", (char *)"2"}},
		.count = 3,
	};
	static const struct line mtus = {
		.pairs = {{(char *)"256", (char *)"1"},
			  {(char *)"512", (char *)"2"},
			  {(char *)"1024", (char *)"3"},
			  {(char *)"2048", (char *)"4"},
			  {(char *)"4096", (char *)"5"}},
		.count = 5,
	};
	struct state_port *port = find_port(line, host, "num");
	const char *netdev = get(line, "netdev");

	port->present = true;
	port->state = get_word(line, "state", "active", &states);
	port->mtu = get_word(line, "mtu", "1024", &mtus);
	port->lid = (uint16_t)get_number(line, "lid", 0);
	port->ifindex = (uint32_t)get_number(line, "ifindex", 0);
	copy(line, port->netdev, sizeof(port->netdev), netdev ? netdev : "");
}

static void take_gid(const struct line *line, struct state_host *host)
{
	static const struct line types = {
		.pairs = {{(char *)"ib", (char *)"0"},
			  {(char *)"v1", (char *)"1"},
			  {(char *)"v2", (char *)"2"}},
		.count = 3,
	};
	struct state_port *port = find_port(line, host, "port");
	long index = get_number(line, "index", 0);
	struct state_gid *gid = &port->gids[index];

	if (index < 0 || index >= STATE_GIDS_MAX)
		bad_line(line, "index");
	if (state_parse_ip(need(line, "gid"), gid->raw) != 0)
		bad_line(line, "gid");
	gid->type = (uint32_t)get_word(line, "type", "v2", &types);
	gid->ifindex = (uint32_t)get_number(line, "ifindex", (long)port->ifindex);
	gid->valid = true;
}

static void take_addr(const struct line *line, struct state_host *host)
{
	struct state_port *port = find_port(line, host, "port");

	if (port->addr_count == STATE_ADDRS_MAX)
		bad_line(line, "too many addresses");
	if (state_parse_ip(need(line, "ip"), port->addrs[port->addr_count]) != 0)
		bad_line(line, "ip");
	port->addr_count++;
}

static void take_line(struct line *line, char *text, struct state_host *host)
{
	char *save = NULL, *word = strtok_r(text, " \t", &save);

	if (!word || *word == '#')
		return;
	line->kind = word;
	line->count = 0;
	while ((word = strtok_r(NULL, " \t", &save)) != NULL) {
		char *equals = strchr(word, '=');

		if (!equals || line->count == PAIRS_MAX)
			bad_line(line, word);
		*equals = '\0';
		line->pairs[line->count++] = (struct pair){word, equals + 1};
	}
	if (strcmp(line->kind, "device") == 0)
		take_device(line, host);
	else if (strcmp(line->kind, "port") == 0)
		take_port(line, host);
	else if (strcmp(line->kind, "gid") == 0)
		take_gid(line, host);
	else if (strcmp(line->kind, "addr") == 0)
		take_addr(line, host);
	else
		bad_line(line, "unknown kind");
}

DBL_API int state_read(const char *dir, struct state_host *ret_host)
{
	char path[PATH_MAX], *text, *rest, *one;
	struct line line = {.kind = "", .dir = dir};
	ssize_t length;
	int fd;

	ret_host->count = 0;
	if ((size_t)snprintf(path, sizeof(path), "%s/host", dir) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	text = malloc(FILE_MAX_BYTES + 1);
	if (!text) {
		close(fd);
		return -ENOMEM;
	}
	length = read(fd, text, FILE_MAX_BYTES);
	close(fd);
	if (length < 0 || length == FILE_MAX_BYTES) {
		free(text);
		return length < 0 ? -EIO : -E2BIG;
	}
	text[length] = '\0';
	rest = text;
	while ((one = strsep(&rest, "\n")) != NULL) {
		line.number++;
		take_line(&line, one, ret_host);
	}
	free(text);
	return 0;
}

struct state_device *state_find(struct state_host *host, const char *name)
{
	for (unsigned i = 0; i < host->count; i++) {
		if (strcmp(host->devices[i].name, name) == 0)
			return &host->devices[i];
	}
	return NULL;
}

/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "double.h"
#include "engine.h"
#include "fabric.h"

/* The lowest QP number given out; 0 and 1 are the management QPs of every port. */
#define QPN_FIRST 17u

void fabric_path(const char *folder, const char *name, char ret_path[PATH_MAX])
{
	if ((size_t)snprintf(ret_path, PATH_MAX, "%s/fabric/%s/%s", dbl_dir(), folder, name) >=
	    PATH_MAX) {
		fprintf(stderr, "verbs double: path too long\n");
		abort();
	}
}

DBL_API uint64_t fabric_own_host(void)
{
	char real[PATH_MAX];
	uint64_t hash = 0xcbf29ce484222325u;

	if (!realpath(dbl_dir(), real))
		return 0;
	for (const char *p = real; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
	return hash;
}

/* Anyone may join: a fabric is shared by daemons of several users. */
static int make_folder(const char *path)
{
	if (mkdir(path, 0777) == 0) {
		chmod(path, 0777);
		return 0;
	}
	return errno == EEXIST ? 0 : -errno;
}

int fabric_join(void)
{
	static const char *const folders[] = {"", "hosts", "sock", "qp", "cm", "qpn"};
	char path[PATH_MAX], real[PATH_MAX], name[32];

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		int rc;

		fabric_path(folders[i], "", path);
		/* A symlink to another host's fabric is followed. */
		rc = make_folder(path);
		if (rc < 0)
			return rc;
	}
	if (!realpath(dbl_dir(), real))
		return -errno;
	snprintf(name, sizeof(name), "%016lx", (unsigned long)fabric_own_host());
	fabric_path("hosts", name, path);
	if (symlink(real, path) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

int fabric_take_qpn(uint64_t guid, uint32_t *ret_qpn)
{
	char path[PATH_MAX], name[32];
	uint32_t next = QPN_FIRST;
	ssize_t done;
	int fd;

	snprintf(name, sizeof(name), "%016lx", (unsigned long)guid);
	fabric_path("qpn", name, path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	fchmod(fd, 0666);
	flock(fd, LOCK_EX);
	if (pread(fd, &next, sizeof(next), 0) != sizeof(next))
		next = QPN_FIRST;
	*ret_qpn = next;
	next = next >= 0xfffffe ? QPN_FIRST : next + 1;
	done = pwrite(fd, &next, sizeof(next), 0);
	close(fd);
	return done == sizeof(next) ? 0 : -EIO;
}

/* Links whose target is a socket's name. */
static int publish(const char *folder, const char *name, const char *socket)
{
	char path[PATH_MAX];

	fabric_path(folder, name, path);
	return symlink(socket, path) < 0 ? -errno : 0;
}

static void forget(const char *folder, const char *name)
{
	char path[PATH_MAX];

	fabric_path(folder, name, path);
	unlink(path);
}

static int find(const char *folder, const char *name, char ret_socket[FABRIC_SOCKET_MAX])
{
	char path[PATH_MAX];
	ssize_t length;

	fabric_path(folder, name, path);
	length = readlink(path, ret_socket, FABRIC_SOCKET_MAX - 1);
	if (length < 0)
		return -errno;
	ret_socket[length] = '\0';
	return 0;
}

static void qp_name(uint64_t guid, uint32_t qpn, char name[32])
{
	snprintf(name, 32, "%016lx-%06x", (unsigned long)guid, qpn);
}

int fabric_publish_qp(uint64_t guid, uint32_t qpn, const char *socket)
{
	char name[32];

	qp_name(guid, qpn, name);
	return publish("qp", name, socket);
}

void fabric_forget_qp(uint64_t guid, uint32_t qpn)
{
	char name[32];

	qp_name(guid, qpn, name);
	forget("qp", name);
}

int fabric_find_qp(uint64_t guid, uint32_t qpn, char ret_socket[FABRIC_SOCKET_MAX])
{
	char name[32];

	qp_name(guid, qpn, name);
	return find("qp", name, ret_socket);
}

static void cm_name(uint64_t host, const uint8_t ip[16], uint16_t port, char name[64])
{
	int at = snprintf(name, 64, "%016lx-", (unsigned long)host);

	for (unsigned i = 0; i < 16; i++)
		at += snprintf(name + at, 64 - (size_t)at, "%02x", ip[i]);
	snprintf(name + at, 64 - (size_t)at, "-%u", port);
}

/* Whether a process listens on the socket still: what it left behind when killed is nobody's. */
static bool is_alive(const char *socket)
{
	int fd = engine_dial(socket);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -EAGAIN;
}

unsigned fabric_count_qps(uint64_t guid)
{
	char path[PATH_MAX], prefix[32], socket[FABRIC_SOCKET_MAX], last[FABRIC_SOCKET_MAX] = "";
	bool last_alive = false;
	struct dirent *entry;
	unsigned count = 0;
	DIR *folder;

	fabric_path("qp", "", path);
	snprintf(prefix, sizeof(prefix), "%016lx-", (unsigned long)guid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)) != NULL) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
		    find("qp", entry->d_name, socket) < 0)
			continue;
		/* Most are of one process. */
		if (strcmp(socket, last) != 0) {
			memcpy(last, socket, sizeof(last));
			last_alive = is_alive(socket);
		}
		count += last_alive;
	}
	if (folder)
		closedir(folder);
	return count;
}

DBL_API int fabric_publish_cm(const uint8_t ip[16], uint16_t port, const char *socket)
{
	char name[64], holder[FABRIC_SOCKET_MAX];
	int rc;

	cm_name(fabric_own_host(), ip, port, name);
	rc = publish("cm", name, socket);
	if (rc == -EEXIST && find("cm", name, holder) == 0 && !is_alive(holder)) {
		forget("cm", name);
		rc = publish("cm", name, socket);
	}
	return rc == -EEXIST ? -EADDRINUSE : rc;
}

DBL_API void fabric_forget_cm(const uint8_t ip[16], uint16_t port)
{
	char name[64];

	cm_name(fabric_own_host(), ip, port, name);
	forget("cm", name);
}

DBL_API int fabric_find_cm(uint64_t host, const uint8_t ip[16], uint16_t port,
			   char ret_socket[FABRIC_SOCKET_MAX])
{
	static const uint8_t any[16];
	char name[64];

	cm_name(host, ip, port, name);
	if (find("cm", name, ret_socket) == 0)
		return 0;
	cm_name(host, any, port, name);
	return find("cm", name, ret_socket);
}

/* What is looked for. */
struct wanted {
	const uint8_t *gid, *ip;
	uint16_t lid;
};

static bool port_has(const struct state_port *port, const struct wanted *wanted)
{
	for (unsigned i = 0; wanted->gid && i < STATE_GIDS_MAX; i++) {
		if (port->gids[i].valid && memcmp(port->gids[i].raw, wanted->gid, 16) == 0)
			return true;
	}
	for (unsigned i = 0; wanted->ip && i < port->addr_count; i++) {
		if (memcmp(port->addrs[i], wanted->ip, 16) == 0)
			return true;
	}
	return wanted->lid && port->lid == wanted->lid;
}

static int find_in_host(const char *dir, const struct wanted *wanted, struct state_host *host,
			struct fabric_place *ret_place)
{
	if (state_read(dir, host) < 0)
		return -ENOENT;
	for (unsigned i = 0; i < host->count; i++) {
		struct state_device *device = &host->devices[i];

		for (int port = 0; port < STATE_PORTS_MAX; port++) {
			if (!device->ports[port].present || !port_has(&device->ports[port], wanted))
				continue;
			ret_place->guid = device->guid;
			ret_place->port = port + 1;
			ret_place->facts = device->ports[port];
			memcpy(ret_place->device, device->name, sizeof(device->name));
			return 0;
		}
	}
	return -ENOENT;
}

static int find_place(const struct wanted *wanted, struct fabric_place *ret_place)
{
	struct state_host *host = malloc(sizeof(*host));
	char path[PATH_MAX], dir[PATH_MAX];
	struct dirent *entry;
	int rc = -ENOENT;
	DIR *folder;

	fabric_path("hosts", "", path);
	folder = opendir(path);
	while (host && folder && rc < 0 && (entry = readdir(folder)) != NULL) {
		ssize_t length;

		if (entry->d_name[0] == '.')
			continue;
		fabric_path("hosts", entry->d_name, path);
		length = readlink(path, dir, sizeof(dir) - 1);
		if (length < 0)
			continue;
		dir[length] = '\0';
		rc = find_in_host(dir, wanted, host, ret_place);
		if (rc == 0)
			ret_place->host = strtoull(entry->d_name, NULL, 16);
	}
	if (folder)
		closedir(folder);
	free(host);
	return rc;
}

DBL_API int fabric_find_gid(const uint8_t raw[16], struct fabric_place *ret_place)
{
	return find_place(&(struct wanted){.gid = raw}, ret_place);
}

int fabric_find_lid(uint16_t lid, struct fabric_place *ret_place)
{
	return find_place(&(struct wanted){.lid = lid}, ret_place);
}

DBL_API int fabric_find_ip(const uint8_t raw[16], struct fabric_place *ret_place)
{
	return find_place(&(struct wanted){.ip = raw}, ret_place);
}

/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "os/clock.h"

#include "lib/peer.h"
#include "lib/tap.h"

#define KEYS 4

static char key_files[KEYS][32];

const char *peer_ip(unsigned int host)
{
	static char text[8][16];
	unsigned int pid = (unsigned int)getpid();

	snprintf(text[host], sizeof(text[host]), "127.%u.%u.%u", 1 + pid / 250 % 250, 1 + pid % 250,
		 2 + host);
	return text[host];
}

static void remove_keys(void)
{
	for (int i = 0; i < KEYS; i++) {
		if (key_files[i][0])
			unlink(key_files[i]);
	}
}

const char *peer_key_file(unsigned int which)
{
	uint8_t bytes[32];
	int fd;

	if (key_files[which][0])
		return key_files[which];
	strcpy(key_files[which], "/tmp/shunt-key-XXXXXX");
	fd = mkstemp(key_files[which]);
	CHECK_OK(fd);
	CHECK_EQ(getrandom(bytes, sizeof(bytes), 0), sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		dprintf(fd, "%02x", bytes[i]);
	dprintf(fd, "\n");
	close(fd);
	atexit(remove_keys);
	return key_files[which];
}

const char *peer_conf_text(unsigned int host, unsigned int other, unsigned int key,
			   const char *more)
{
	static char text[2048];

	snprintf(text, sizeof(text),
		 "peer_sessions = \"on\"; peer_listen = \"%s\"; rdma = \"off\";\n"
		 "peer_key = \"%s\"; peers = ( { address = \"%s\"; name = \"host %u\"; } );\n%s\n",
		 peer_ip(host), key ? peer_key_file(key) : "", peer_ip(other), other, more);
	return text;
}

bool peer_pair_start(struct shuntd daemons[2], const char *more)
{
	return shuntd_start(&daemons[0], peer_conf_text(0, 1, 1, more)) &&
	       shuntd_start(&daemons[1], peer_conf_text(1, 0, 1, more));
}

void peer_pair_stop(struct shuntd daemons[2])
{
	shuntd_stop(&daemons[0]);
	shuntd_stop(&daemons[1]);
}

static struct sockaddr_in address_of(unsigned int host, unsigned int port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	inet_pton(AF_INET, peer_ip(host), &addr.sin_addr);
	return addr;
}

static int connect_from(unsigned int from, const struct sockaddr_in *to)
{
	struct sockaddr_in addr = address_of(from, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = 0;

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0)
		rc = -errno;
	if (rc == 0)
		return fd;
	fd_close(fd);
	return rc;
}

int peer_connect(unsigned int from, unsigned int to, int ret_fds[2])
{
	struct sockaddr_in addr = address_of(to, 0);
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (listener < 0 || bind(listener, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&addr, &len) < 0) {
		fd_close(listener);
		return -EIO;
	}
	ret_fds[0] = connect_from(from, &addr);
	ret_fds[1] = ret_fds[0] < 0 ? ret_fds[0] : accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	return ret_fds[1] < 0 ? ret_fds[1] : 0;
}

json_t *peer_query(const struct shuntd *daemon)
{
	int sock = shuntd_session(daemon, CTL_HELLO_TOOL);
	char *text = sock < 0 ? NULL : msg_query(sock, CTL_QUERY_PEERS, -1, -1);
	json_t *json = text ? json_loads(text, 0, NULL) : NULL;

	free(text);
	fd_close(sock);
	CHECK(json);
	return json;
}

static long number_in(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (json_is_boolean(value))
		return json_is_true(value);
	return json_is_integer(value) ? (long)json_integer_value(value) : -1;
}

long peer_count(const struct shuntd *daemon, const char *key)
{
	json_t *json = peer_query(daemon);
	long value = number_in(json, key);

	if (value < 0)
		value = number_in(json_object_get(json, "refused"), key);
	if (value < 0 && strcmp(key, "up") == 0) {
		const json_t *peer;
		size_t i;

		value = 0;
		json_array_foreach(json_object_get(json, "peers"), i, peer) value +=
			strcmp(json_string_value(json_object_get(peer, "state")), "up") == 0;
	}
	if (value < 0 && strcmp(key, "unreachable_hosts") == 0)
		value = (long)json_array_size(json_object_get(json, "unreachable"));
	if (value < 0) {
		const json_t *peer = json_array_get(json_object_get(json, "peers"), 0);

		value = number_in(peer, key);
	}
	json_decref(json);
	return value;
}

bool peer_await(const struct shuntd *daemon, const char *key, long want)
{
	uint64_t limit = clock_now_ns() + SHUNTD_WAIT_MS * 1000000ull;
	long value;

	do {
		value = peer_count(daemon, key);
		if (value >= want)
			return true;
		usleep(10000);
	} while (clock_now_ns() < limit);
	return tap_check_eq(value, want, __FILE__, __LINE__, key);
}

long peer_total(const struct shuntd *daemon, const char *key)
{
	json_t *json = peer_query(daemon);
	long value = number_in(json_object_get(json, "ended_sessions"), key);
	const json_t *peer;
	size_t i;

	json_array_foreach(json_object_get(json, "peers"), i, peer) value +=
		number_in(json_object_get(peer, "counts"), key);
	json_decref(json);
	return value;
}

bool peer_await_total(const struct shuntd *daemon, const char *key, long want)
{
	uint64_t limit = clock_now_ns() + SHUNTD_WAIT_MS * 1000000ull;
	long value;

	do {
		value = peer_total(daemon, key);
		if (value >= want)
			return true;
		usleep(10000);
	} while (clock_now_ns() < limit);
	return tap_check_eq(value, want, __FILE__, __LINE__, key);
}

int hand_connect(unsigned int from, unsigned int to)
{
	const struct timeval limit = {.tv_sec = SHUNTD_WAIT_MS / 1000};
	const struct sockaddr_in addr = address_of(to, 7609);
	int fd = connect_from(from, &addr);

	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	}
	return fd;
}

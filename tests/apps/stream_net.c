/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "stream_net.h"

/* For how long a connect is repeated while nobody listens yet: 100 times 50 ms. Chosen. */
#define CONNECT_TRIES 100
#define CONNECT_PAUSE_NS 50000000L

int stream_listen(const char *address, const char *port, char ret_port[STREAM_PORT_BYTES])
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	addr.sin_port = htons((uint16_t)atoi(port));
	if (inet_pton(AF_INET, address, &addr.sin_addr) != 1) {
		fprintf(stderr, "stream: not an IPv4 address: %s\n", address);
		close(fd);
		return -1;
	}
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len)) {
		perror("stream: listening");
		return -1;
	}
	snprintf(ret_port, STREAM_PORT_BYTES, "%u", (unsigned int)ntohs(addr.sin_port));
	return fd;
}

int stream_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		perror("stream: accepting");
	close(listener);
	return fd;
}

int stream_connect(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	const struct timespec pause = {0, CONNECT_PAUSE_NS};
	struct addrinfo *list;
	int fd, rc = getaddrinfo(host, port, &hints, &list);

	if (rc) {
		fprintf(stderr, "stream: %s port %s: %s\n", host, port, gai_strerror(rc));
		return -1;
	}
	for (int i = 0; i < CONNECT_TRIES; i++) {
		fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0) {
			freeaddrinfo(list);
			return fd;
		}
		if (fd >= 0)
			close(fd);
		nanosleep(&pause, NULL);
	}
	freeaddrinfo(list);
	perror("stream: connecting");
	return -1;
}

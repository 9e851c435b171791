/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/net.h"

static socklen_t net_addr(int domain, enum net_family family, struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	struct sockaddr_in *in = (struct sockaddr_in *)addr;

	memset(addr, 0, sizeof(*addr));
	addr->ss_family = (sa_family_t)domain;
	if (domain == AF_INET) {
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return sizeof(*in);
	}
	inet_pton(AF_INET6, family == NET_V6 ? "::1" : "::ffff:127.0.0.1", &in6->sin6_addr);
	return sizeof(*in6);
}

static int net_connect(enum net_family family, int listener, int ret_fds[2])
{
	int domain = family == NET_V4 || family == NET_MIXED ? AF_INET : AF_INET6;
	struct sockaddr_storage bound, addr;
	socklen_t bound_len = sizeof(bound), len;
	int fd, ret;

	if (getsockname(listener, (struct sockaddr *)&bound, &bound_len))
		return -errno;
	len = net_addr(domain, family, &addr);
	/* The port is at the same place in both kinds of address. */
	((struct sockaddr_in *)&addr)->sin_port = ((struct sockaddr_in *)&bound)->sin_port;
	fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&addr, len) == 0) {
		ret_fds[0] = fd;
		ret_fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (ret_fds[1] >= 0)
			return 0;
	}
	ret = -errno;
	close(fd);
	return ret;
}

int net_pair(enum net_family family, int ret_fds[2])
{
	int domain = family == NET_V4 ? AF_INET : AF_INET6;
	struct sockaddr_storage addr;
	socklen_t len = net_addr(domain, family, &addr);
	int listener, ret;

	listener = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0)
		return -errno;
	if (bind(listener, (struct sockaddr *)&addr, len) || listen(listener, 4))
		ret = -errno;
	else
		ret = net_connect(family, listener, ret_fds);
	close(listener);
	return ret;
}

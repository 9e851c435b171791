/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "cm.h"

static bool is_mapped(const uint8_t ip[16])
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(ip, prefix, sizeof(prefix)) == 0;
}

int cm_addr_parse(const struct sockaddr *addr, uint8_t ret_ip[16], uint16_t *ret_port)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;

	memset(ret_ip, 0, 16);
	switch (addr->sa_family) {
	case AF_INET:
		*ret_port = ntohs(v4->sin_port);
		/* Any is any, of either family. */
		if (v4->sin_addr.s_addr == 0)
			return 0;
		ret_ip[10] = ret_ip[11] = 0xff;
		memcpy(ret_ip + 12, &v4->sin_addr, 4);
		return 0;
	case AF_INET6:
		*ret_port = ntohs(v6->sin6_port);
		memcpy(ret_ip, &v6->sin6_addr, 16);
		return 0;
	default:
		return EAFNOSUPPORT;
	}
}

void cm_addr_print(const uint8_t ip[16], uint16_t port, struct sockaddr_storage *ret_addr)
{
	static const uint8_t any[16];
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret_addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret_addr;

	memset(ret_addr, 0, sizeof(*ret_addr));
	if (is_mapped(ip) || memcmp(ip, any, 16) == 0) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, ip + 12, 4);
		return;
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, ip, 16);
}

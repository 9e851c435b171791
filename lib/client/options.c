/* SPDX-License-Identifier: MIT */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "base/util.h"
#include "client/options.h"
#include "os/sys.h"

/* What keeps a socket on TCP: any value, one that is not 0, one above 1. */
enum when {
	WHEN_USED,
	WHEN_ON,
	WHEN_ABOVE_ONE,
	WHEN_NOT_NEGATIVE,
};

static const struct pinning {
	int level, option;
	enum when when;
	bool inherited; /* a socket may have it without a setsockopt() of its own */
	enum reason reason;
} pinning[] = {
	{SOL_SOCKET, SO_RCVLOWAT, WHEN_ABOVE_ONE, true, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_OOBINLINE, WHEN_ON, true, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_ZEROCOPY, WHEN_ON, true, REASON_ZEROCOPY},
	{SOL_SOCKET, SO_BINDTODEVICE, WHEN_USED, false, REASON_BOUND_TO_DEVICE},
	{SOL_SOCKET, SO_BINDTOIFINDEX, WHEN_ON, true, REASON_BOUND_TO_DEVICE},
	{SOL_SOCKET, SO_ATTACH_FILTER, WHEN_USED, false, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_ATTACH_BPF, WHEN_USED, false, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_TIMESTAMP_OLD, WHEN_ON, true, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_TIMESTAMPNS_OLD, WHEN_ON, true, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_TIMESTAMPING_OLD, WHEN_ON, true, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_TIMESTAMP_NEW, WHEN_ON, true, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_TIMESTAMPNS_NEW, WHEN_ON, true, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_TIMESTAMPING_NEW, WHEN_ON, true, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_TXTIME, WHEN_USED, false, REASON_PINNED_OPTION},
	{SOL_SOCKET, SO_PEEK_OFF, WHEN_NOT_NEGATIVE, true, REASON_PINNED_OPTION},
	{IPPROTO_TCP, TCP_ULP, WHEN_USED, false, REASON_KTLS},
	{IPPROTO_TCP, TCP_REPAIR, WHEN_USED, false, REASON_PINNED_OPTION},
	{IPPROTO_TCP, TCP_MD5SIG, WHEN_USED, false, REASON_PINNED_OPTION},
	{IPPROTO_TCP, TCP_MD5SIG_EXT, WHEN_USED, false, REASON_PINNED_OPTION},
	{IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, WHEN_USED, false, REASON_PINNED_OPTION},
	{IPPROTO_TCP, TCP_INQ, WHEN_ON, true, REASON_PINNED_OPTION},
};

static bool holds(enum when when, int val)
{
	switch (when) {
	case WHEN_ON:
		return val != 0;
	case WHEN_ABOVE_ONE:
		return val > 1;
	case WHEN_NOT_NEGATIVE:
		return val >= 0;
	default:
		return true;
	}
}

enum reason options_pin(int level, int option, const void *val, socklen_t len)
{
	int number = 1; /* the kernel will refuse what is no number */

	if (val && len >= sizeof(number))
		memcpy(&number, val, sizeof(number));
	for (size_t i = 0; i < ARRAY_SIZE(pinning); i++)
		if (pinning[i].level == level && pinning[i].option == option)
			return holds(pinning[i].when, number) ? pinning[i].reason : REASON_NONE;
	return REASON_NONE;
}

/* A filter is told by its length. */
static bool has_filter(int fd)
{
	socklen_t len = 0;

	return sys_getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &len) == 0 && len > 0;
}

enum reason options_in_force(int fd)
{
	for (size_t i = 0; i < ARRAY_SIZE(pinning); i++) {
		/* Larger than an int: SO_TIMESTAMPING tells two. */
		int val[4] = {0};
		socklen_t len = sizeof(val);

		if (pinning[i].inherited &&
		    sys_getsockopt(fd, pinning[i].level, pinning[i].option, val, &len) == 0 &&
		    holds(pinning[i].when, val[0]))
			return pinning[i].reason;
	}
	return has_filter(fd) ? REASON_PINNED_OPTION : REASON_NONE;
}

/* SPDX-License-Identifier: MIT */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/options.h"
#include "lib/net.h"
#include "lib/tap.h"

/* Which options keep a socket on TCP. */

static enum reason pin_of(int level, int option, int val)
{
	return options_pin(level, option, &val, sizeof(val));
}

TAP_CASE(values_decide)
{
	CHECK_EQ(pin_of(SOL_SOCKET, SO_RCVLOWAT, 1), REASON_NONE);
	CHECK_EQ(pin_of(SOL_SOCKET, SO_RCVLOWAT, 2), REASON_PINNED_OPTION);
	CHECK_EQ(pin_of(SOL_SOCKET, SO_ZEROCOPY, 0), REASON_NONE);
	CHECK_EQ(pin_of(SOL_SOCKET, SO_ZEROCOPY, 1), REASON_ZEROCOPY);
	CHECK_EQ(pin_of(SOL_SOCKET, SO_PEEK_OFF, -1), REASON_NONE);
	CHECK_EQ(pin_of(SOL_SOCKET, SO_PEEK_OFF, 0), REASON_PINNED_OPTION);
	CHECK_EQ(pin_of(IPPROTO_TCP, TCP_ULP, 0), REASON_KTLS);
	CHECK_EQ(options_pin(IPPROTO_TCP, TCP_ULP, "tls", 3), REASON_KTLS);
	CHECK_EQ(options_pin(SOL_SOCKET, SO_ZEROCOPY, NULL, 0), REASON_ZEROCOPY);
}

TAP_CASE(common_ones_are_free)
{
	CHECK_EQ(pin_of(IPPROTO_TCP, TCP_NODELAY, 1), REASON_NONE);
	CHECK_EQ(pin_of(SOL_SOCKET, SO_KEEPALIVE, 1), REASON_NONE);
	CHECK_EQ(pin_of(SOL_SOCKET, SO_SNDBUF, 100000), REASON_NONE);
	CHECK_EQ(pin_of(SOL_SOCKET, SO_REUSEADDR, 1), REASON_NONE);
	CHECK_EQ(pin_of(IPPROTO_IP, SO_ZEROCOPY, 1), REASON_NONE);
}

TAP_CASE(what_is_in_force)
{
	int fds[2], on = 1, three = 3, one = 1;

	REQUIRE_OK(net_pair(NET_V4, fds));
	CHECK_EQ(options_in_force(fds[0]), REASON_NONE);
	CHECK_EQ(options_in_force(fds[1]), REASON_NONE);
	REQUIRE_OK(setsockopt(fds[0], SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on)));
	CHECK_EQ(options_in_force(fds[0]), REASON_PINNED_OPTION);
	REQUIRE_OK(setsockopt(fds[1], SOL_SOCKET, SO_RCVLOWAT, &three, sizeof(three)));
	CHECK_EQ(options_in_force(fds[1]), REASON_PINNED_OPTION);
	REQUIRE_OK(setsockopt(fds[1], SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one)));
	CHECK_EQ(options_in_force(fds[1]), REASON_NONE);
	close(fds[0]);
	close(fds[1]);
}

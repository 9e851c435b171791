/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * TCP connections over loopback for tests.
 */
enum net_family {
	NET_V4,
	NET_V6,
	NET_MAPPED, /* IPv4, through IPv6 sockets on both ends */
	NET_MIXED,  /* IPv4, through an IPv6 socket on the accepting end only */
};

/* A connected pair: [0] connected, [1] accepted. 0; -errno (say, no IPv6 here). */
int net_pair(enum net_family family, int ret_fds[2]);

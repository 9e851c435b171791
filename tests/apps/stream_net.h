/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * TCP connections of the stream program, by ordinary blocking calls; errors are told on stderr.
 */

#define STREAM_PORT_BYTES 8

/* Listen on @port ("0": any free one) of the IPv4 @address: a descriptor, or -1. */
int stream_listen(const char *address, const char *port, char ret_port[STREAM_PORT_BYTES]);

/* One connection; @listener is closed. A descriptor, or -1. */
int stream_accept(int listener);

/* A connection to @host and @port, tried for a few seconds: a descriptor, or -1. */
int stream_connect(const char *host, const char *port);

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Shunt: moves the bytes of a live TCP connection onto a faster lane and back.
 *
 * Attach a stream to a connected TCP socket and use it instead of the descriptor. Nothing else
 * changes: the descriptor stays the program's, `getpeername`, `ss` and the peer see the same
 * connection. Without a daemon, or with a peer that has no Shunt, every byte goes over TCP.
 *
 * All functions return 0 or a count, or a negative errno; none sets errno. A stream may be used
 * from several threads. None may be called from a signal handler.
 */
#include <shunt/info.h>
#include <shunt/stream.h>
#include <shunt/zerocopy.h>

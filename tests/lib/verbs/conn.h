/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "fabric.h"
#include "wire.h"

/*
 * Streams between processes. All under dbl_lock; nothing blocks: what a socket doesn't take is
 * kept and written by the engine.
 */
struct conn;

/*
 * The connection to the process behind @socket, dialled if there is none yet; shared, and counted.
 * NULL if nobody is there.
 */
struct conn *conn_get(const char *socket);

/* Give it back; the last one closes it once all is written. NULL is fine. */
void conn_put(struct conn *conn);

/* Queue one message. 0, or -EPIPE if the stream is broken (get another). */
int conn_send(struct conn *conn, const struct wire *wire, const void *payload);

/* Take over an accepted stream. */
void conn_adopt(int fd);

/* Close all: the engine ends. In a forked child: forget all. */
void conn_close_all(void);

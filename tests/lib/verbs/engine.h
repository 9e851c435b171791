/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * The thread that carries out a process's work requests, and its sockets. It lives while somebody
 * holds it: an open device, an event channel of the CM.
 */
struct engine_source {
	int fd;
	void (*ready)(struct engine_source *source, uint32_t events);
};

/* Start it if need be, and keep it. Not under dbl_lock; blocks briefly. 0 or -errno. */
int engine_hold(void);

/* Let it go; with the last one the thread ends and its descriptors close. Not under dbl_lock. */
void engine_drop(void);

/* Have it look at all QPs and deadlines again. Under dbl_lock; from any thread. */
void engine_wake(void);

/* Have @source->ready called, in the engine's thread and under dbl_lock, on these epoll events. */
int engine_watch(struct engine_source *source, uint32_t events);
void engine_rewatch(struct engine_source *source, uint32_t events);
void engine_unwatch(struct engine_source *source);

/* The name of this process's socket in the fabric. */
const char *engine_socket(void);

/* Connect to a socket of the fabric. A descriptor, or -errno. */
int engine_dial(const char *socket);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>

/* Bytes of a thread's name with terminator, as the kernel has it. */
#define THREAD_NAME_BYTES 16u

/*
 * Start a thread that gets no signals: the daemon reads its own from a descriptor, and none may be
 * delivered elsewhere. @name: shown by ps(1) and top(1), cut to THREAD_NAME_BYTES. @ret_thread: to
 * be joined by the caller. 0 or -errno of pthread_create(3).
 */
int thread_start(const char *name, void *(*main)(void *arg), void *arg, pthread_t *ret_thread);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * What a program does, counted from outside: a library to preload into one that runs on the verbs
 * double (../counts.py reads the result while it runs). It counts per thread, in a file that both
 * have mapped:
 *
 *	COUNT_FILE	that file, which is there, sizeof(struct count_file) long, and zero
 *	COUNT_PROGRAM	name of the program to count in; others are left alone
 *
 * Allocations that the double's own libraries make are left out: they stand for a device and
 * a kernel, which allocate nothing of the program's. All else counts, the C library included.
 *
 * Calls that make or end what a connection needs are kept one by one as well, in their order, with
 * time and thread, so that a test can say what lies between which.
 */
#define COUNT_THREADS 64u
#define COUNT_EVENTS 8192u

enum count_what {
	COUNT_ALLOC, /* malloc, calloc, realloc, posix_memalign, aligned_alloc; not kept one by one
		      */
	COUNT_CREATE_QP,
	COUNT_DESTROY_QP,
	COUNT_REG_MR,
	COUNT_DEREG_MR,
	COUNT_CREATE_CQ,
	COUNT_RESOLVE_ADDR,
	COUNT_CONNECT,
	COUNT_ACCEPT,
	COUNT_ESTABLISH,
	COUNT_DESTROY_ID,
	COUNT_CM_EVENT, /* value: enum rdma_cm_event_type */
	COUNT_KINDS,
};

struct count_file {
	_Atomic uint32_t n_threads, n_events; /* may be more than there is room for */
	struct count_thread {
		_Atomic int32_t tid;
		uint32_t pad;
		_Atomic uint64_t n[COUNT_KINDS];
	} threads[COUNT_THREADS];
	struct count_event {
		_Atomic uint64_t ns; /* CLOCK_MONOTONIC, when the call returned; set last */
		uint64_t object;     /* of the connection manager: the id; else 0 */
		int32_t tid;
		uint16_t what, value;
	} events[COUNT_EVENTS];
};

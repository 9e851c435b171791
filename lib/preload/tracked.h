/* SPDX-License-Identifier: MIT */
#pragma once

#include "client/cancel.h"
#include "client/fdtable.h"

/*
 * The socket of @fd if it is a tracked one, for a call that is a cancellation point: a thread that
 * was cancelled already ends here, where it holds nothing.
 */
static inline struct sock *tracked(int fd)
{
	struct sock *sock = fdtable_get(fd);

	if (sock)
		cancel_point();
	return sock;
}

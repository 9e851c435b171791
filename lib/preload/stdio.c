/* SPDX-License-Identifier: MIT */
#include "client/demote.h"
#include "client/fdtable.h"
#include "client/stream.h"
#include "preload/calls.h"
#include "preload/state.h"

/*
 * stdio reads, writes and closes by calls of its own, which pass this library by: a socket goes
 * back to TCP before stdio gets it. fdopen() takes the descriptor over for good, its close
 * included, so that it is not tracked any more.
 */
int before_fdopen(int fd, const char *mode)
{
	struct sock *sock = fdtable_get(fd);
	int rc = 0;

	(void)mode;
	if (sock)
		rc = demote_handover(sock, REASON_FDOPEN);
	if (sock && !rc && !state_is_foreign())
		stream_untrack(fd);
	return rc;
}

/* It closes the descriptor of @stream, which may be a standard one. */
int before_freopen(const char *path, const char *mode, FILE *stream)
{
	(void)path;
	return stream ? before_fdopen(fileno(stream), mode) : 0;
}

/* dprintf() only writes. */
int before_vdprintf(int fd, const char *format, va_list args)
{
	struct sock *sock = fdtable_get(fd);

	(void)format;
	(void)args;
	return sock ? demote_tx_wait(sock, REASON_FDOPEN) : 0;
}

int before_vdprintf_chk(int fd, int level, const char *format, va_list args)
{
	(void)level;
	return before_vdprintf(fd, format, args);
}

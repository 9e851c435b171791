/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>

#include "client/demote.h"
#include "client/epset.h"
#include "client/exec.h"
#include "client/fdtable.h"
#include "client/ownfd.h"
#include "client/stream.h"
#include "os/sys.h"
#include "preload/calls.h"
#include "preload/descriptors.h"
#include "preload/sockets.h"
#include "preload/state.h"

/*
 * Descriptors of a socket come and go. The child of a vfork() runs through here on its parent's
 * memory: its descriptors are its own, the tables are not, so that it leaves them alone and only
 * has noted what its exec will need to know.
 */

/* From <linux/close_range.h>. */
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4u
#endif

/* @to is a descriptor of what @from is. */
static void note_dup(int from, int to)
{
	struct sock *sock = fdtable_get(from);

	if (!sock && !epset_get(from))
		return;
	if (state_is_foreign()) {
		exec_note(to, sock);
		return;
	}
	epset_dup(from, to);
	/* stdio may use, and close, a standard descriptor without asking: it is not tracked. */
	if (sock && to <= STDERR_FILENO)
		demote_handover(sock, REASON_FDOPEN);
	else if (sock)
		fdtable_dup(to, sock);
}

long call_dup(int fd)
{
	int new = sys_dup(fd);

	if (new >= 0)
		note_dup(fd, new);
	return new;
}

long descriptors_fcntl_dup(int fd, int cmd, long arg)
{
	int new = sys_fcntl(fd, cmd, arg);

	if (new >= 0)
		note_dup(fd, new);
	return new;
}

/*
 * @fd is about to be closed. Where a lane is at stake it is worth a system call to know for certain
 * that it is ours to end.
 */
static void note_close(int fd)
{
	struct sock *sock = fdtable_get(fd);

	if (!sock && !epset_get(fd) && !sockets_listens(fd))
		return;
	if (sock && sock_stage(sock) == CONN_TCP ? state_is_foreign() : state_is_stranger()) {
		exec_note(fd, NULL);
		return;
	}
	sockets_forget(fd);
	epset_closed(fd);
	stream_untrack(fd);
}

/* @to is about to be replaced. 0 or -errno. */
static int make_way(int from, int to)
{
	if (ownfd_is(to))
		return -EBUSY;
	/* From a number that is not open the kernel will refuse, and nothing happens to @to. */
	if ((fdtable_get(to) || epset_get(to) || sockets_listens(to)) &&
	    sys_fcntl(from, F_GETFD, 0) >= 0)
		note_close(to);
	return 0;
}

long call_dup3(int from, int to, int flags)
{
	int rc = 0;

	if (from != to && !(flags & ~O_CLOEXEC))
		rc = make_way(from, to);
	if (!rc)
		rc = sys_dup3(from, to, flags);
	if (rc >= 0)
		note_dup(from, to);
	return rc;
}

long call_dup2(int from, int to)
{
	int rc;

	if (from != to)
		return call_dup3(from, to, 0);
	rc = sys_fcntl(from, F_GETFD, 0);
	return rc < 0 ? rc : to;
}

long call_close(int fd)
{
	if (ownfd_is(fd))
		return -EBADF;
	note_close(fd);
	return sys_close(fd);
}

/* Close from @first to @last, but not what is the library's. */
static int close_around_own(unsigned int first, unsigned int last, unsigned int flags)
{
	int rc = 0;

	while (first <= last && !rc) {
		unsigned int own = ownfd_next(first);
		unsigned int end = own < FDTABLE_SIZE && own <= last ? own : last + 1;

		if (first < end || end == 0)
			rc = (int)SYS_CALL(close_range, first, end - 1, flags);
		if (end == 0 || end > last)
			break;
		first = end + 1;
	}
	return rc;
}

long call_close_range(unsigned int first, unsigned int last, int flags)
{
	if (first > last || ((unsigned int)flags & CLOSE_RANGE_CLOEXEC) || !fdtable_slots)
		return SYS_CALL(close_range, first, last, flags);
	if (state_is_stranger()) /* its exec may have to hand over a lane, and closes ours */
		return close_around_own(first, last, (unsigned int)flags);
	for (unsigned int fd = first; fd <= last && fd < fdtable_top(); fd++)
		note_close((int)fd);
	return close_around_own(first, last, (unsigned int)flags);
}

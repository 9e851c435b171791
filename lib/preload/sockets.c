/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>

#include "client/demote.h"
#include "client/fdtable.h"
#include "client/stream.h"
#include "os/sys.h"
#include "os/tcp.h"
#include "preload/calls.h"
#include "client/cancel.h"
#include "preload/sockets.h"
#include "preload/state.h"

/*
 * The life of a socket. A TCP socket is tracked from its birth in this process (socket() or
 * accept()), so that a fork before connect() is known to have given it a second holder; one that
 * begins to listen is no stream and is forgotten.
 */

long call_socket(int domain, int type, int protocol)
{
	int fd = sys_socket(domain, type, protocol);

	if (fd >= 0 && (domain == AF_INET || domain == AF_INET6) &&
	    (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM &&
	    (protocol == 0 || protocol == IPPROTO_TCP))
		state_track(fd);
	return fd;
}

long call_connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
	struct sock *sock = fdtable_get(fd);

	/* AF_UNSPEC takes the connection away, and the kernel knows nothing of a lane above it. */
	if (sock && addr.__sockaddr__ && len >= sizeof(sa_family_t) &&
	    addr.__sockaddr__->sa_family == AF_UNSPEC)
		demote_handover(sock, REASON_UNSERVED_CALL);
	return CANCELLABLE(sys_connect(fd, addr.__sockaddr__, len));
}

_Atomic uint64_t sockets_listening[FDTABLE_SIZE / 64];

static void note_listens(int fd)
{
	if ((unsigned int)fd >= FDTABLE_SIZE)
		return;
	fdtable_reach(fd);
	atomic_fetch_or(&sockets_listening[(unsigned int)fd / 64],
			(uint64_t)1 << (unsigned int)fd % 64);
}

void sockets_forget(int fd)
{
	if (!sockets_listens(fd))
		return;
	atomic_fetch_and(&sockets_listening[(unsigned int)fd / 64],
			 ~((uint64_t)1 << (unsigned int)fd % 64));
}

long call_listen(int fd, int backlog)
{
	int rc = sys_listen(fd, backlog);

	if (!rc && fdtable_get(fd) && !state_is_foreign()) {
		stream_untrack(fd);
		note_listens(fd);
	}
	return rc;
}

long call_accept4(int fd, __SOCKADDR_ARG addr, socklen_t *len, int flags)
{
	int new = (int)CANCELLABLE(sys_accept4(fd, addr.__sockaddr__, len, flags));

	if (new < 0 || !state_tracks())
		return new;
	if (!sockets_listens(fd)) {
		if (tcp_check_accepted(new))
			return new;
		note_listens(fd);
	}
	state_track(new);
	return new;
}

long call_accept(int fd, __SOCKADDR_ARG addr, socklen_t *len)
{
	return call_accept4(fd, addr, len, 0);
}

long call_shutdown(int fd, int how)
{
	struct sock *sock = fdtable_get(fd);

	return sock ? sock_shutdown(sock, how) : sys_shutdown(fd, how);
}

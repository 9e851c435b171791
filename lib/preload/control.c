/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "base/util.h"
#include "client/demote.h"
#include "client/fdtable.h"
#include "core/ring.h"
#include "os/sys.h"
#include "preload/calls.h"
#include "preload/descriptors.h"
#include "client/cancel.h"

/* fcntl and ioctl. */

static void note_nonblock(struct sock *sock, bool on)
{
	atomic_store(&sock->sh->nonblock, on);
}

long call_fcntl(int fd, int cmd, long arg)
{
	struct sock *sock = fdtable_get(fd);
	long rc;

	if (cmd == F_SETLKW || cmd == F_OFD_SETLKW)
		return CANCELLABLE(sys_fcntl(fd, cmd, arg));
	if (!sock)
		return sys_fcntl(fd, cmd, arg);
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return descriptors_fcntl_dup(fd, cmd, arg);
	case F_SETFL:
		if (arg & O_ASYNC) /* signals that only TCP can raise */
			demote_handover(sock, REASON_UNSERVED_CALL);
		rc = sys_fcntl(fd, cmd, arg);
		if (!rc)
			note_nonblock(sock, arg & O_NONBLOCK);
		return rc;
	default:
		return sys_fcntl(fd, cmd, arg);
	}
}

/* Bytes that stand in the lane: unread ones of the peer's, or own ones that nobody has read. */
static int lane_bytes(struct sock *sock, bool rx)
{
	uint64_t bytes = 0;

	sock_lock_tx(sock);
	sock_lock_rx(sock);
	if (sock->lane.peer && stage_on_lane(sock_stage(sock))) {
		const struct half_ctl *peer = sock->lane.peer;

		/* What has come to TCP is counted there. */
		uint64_t replayed = atomic_load(&peer->replayed), cons = atomic_load(&peer->cons);

		if (!rx && replayed != OPT_NONE)
			cons = u64_max(cons, opt_value(replayed));
		if (!rx)
			bytes = sock->sh->lane.tx.prod.v - cons;
		else if (sock->sh->lane.rx.phase != RX_ENDED)
			bytes = atomic_load(&peer->prod) - sock->sh->lane.rx.cons.v;
		/* The peer may have written anything there. */
		if (bytes > (rx ? sock->lane.peer_bytes : sock->lane.own_bytes))
			bytes = 0;
	}
	sock_unlock_rx(sock);
	sock_unlock_tx(sock);
	return (int)bytes;
}

/* A count of the kernel's plus what stands in the lane. */
static long count_bytes(struct sock *sock, int fd, unsigned long request, void *arg)
{
	int bytes = lane_bytes(sock, request == SIOCINQ);
	long rc = sys_ioctl(fd, request, arg);

	if (!rc)
		*(int *)arg += bytes;
	return rc;
}

long call_ioctl(int fd, unsigned long request, void *arg)
{
	struct sock *sock = fdtable_get(fd);
	long rc;

	if (!sock)
		return sys_ioctl(fd, request, arg);
	switch (request) {
	case FIONBIO:
		rc = sys_ioctl(fd, request, arg);
		if (!rc)
			note_nonblock(sock, *(int *)arg);
		return rc;
	case SIOCINQ: /* FIONREAD is the same number */
	case SIOCOUTQ:
	case SIOCOUTQNSD:
		return count_bytes(sock, fd, request, arg);
	case FIOASYNC:
		demote_handover(sock, REASON_UNSERVED_CALL);
		return sys_ioctl(fd, request, arg);
	default:
		return sys_ioctl(fd, request, arg);
	}
}

long call_sockatmark(int fd)
{
	int mark;
	int rc = sys_ioctl(fd, SIOCATMARK, &mark);

	return rc ? rc : mark;
}

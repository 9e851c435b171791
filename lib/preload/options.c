/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "client/demote.h"
#include "client/fdtable.h"
#include "client/options.h"
#include "os/sys.h"
#include "preload/calls.h"

/*
 * Socket options. Most concern the TCP connection below the lane, and go there. Some the library
 * has to know, since it does the kernel's work on a lane; and some ask for what only TCP can do
 * (client/options.h): those sockets go back to TCP and stay there.
 */

/* The value as an int, as most options have it; 1 for those that are not one. */
static int int_of(const void *val, socklen_t len)
{
	int i = 1;

	if (val && len >= sizeof(i))
		memcpy(&i, val, sizeof(i));
	return i;
}

static uint64_t timeout_of(struct sock *sock, int option)
{
	struct timeval tv = {0};
	socklen_t len = sizeof(tv);

	if (sys_getsockopt(sock->fd, SOL_SOCKET, option, &tv, &len))
		return 0;
	return (uint64_t)tv.tv_sec * 1000000000u + (uint64_t)tv.tv_usec * 1000u;
}

static bool is_rcv_timeout(int option)
{
	return option == SO_RCVTIMEO_OLD || option == SO_RCVTIMEO_NEW;
}

static bool is_snd_timeout(int option)
{
	return option == SO_SNDTIMEO_OLD || option == SO_SNDTIMEO_NEW;
}

/* While the ring is guarded (demote_guard()), SO_LINGER is the library's, and the program's value
 * is noted. */
static bool set_linger_aside(struct sock *sock, const void *val, socklen_t len)
{
	bool guarded;

	if (!val || len < sizeof(struct linger))
		return false;
	sock_lock_tx(sock);
	guarded = sock->sh->linger_guarded;
	if (guarded)
		memcpy(&sock->sh->linger, val, sizeof(sock->sh->linger));
	sock_unlock_tx(sock);
	return guarded;
}

long call_setsockopt(int fd, int level, int option, const void *val, socklen_t len)
{
	struct sock *sock = fdtable_get(fd);
	enum reason reason;
	long rc;

	if (!sock)
		return sys_setsockopt(fd, level, option, val, len);
	reason = options_pin(level, option, val, len);
	if (reason != REASON_NONE)
		demote_handover(sock, reason);
	if (level == SOL_SOCKET && option == SO_LINGER && set_linger_aside(sock, val, len))
		return 0;
	/* A cork would hold back nothing but what the lane has sent already. */
	if (level == IPPROTO_TCP && option == TCP_CORK && int_of(val, len) &&
	    stage_on_lane(sock_stage(sock)))
		return len < sizeof(int) ? -EINVAL : 0;
	rc = sys_setsockopt(fd, level, option, val, len);
	if (!rc && level == SOL_SOCKET && is_rcv_timeout(option))
		sock->rcv_timeout_ns = timeout_of(sock, option);
	if (!rc && level == SOL_SOCKET && is_snd_timeout(option))
		sock->snd_timeout_ns = timeout_of(sock, option);
	return rc;
}

long call_getsockopt(int fd, int level, int option, void *val, socklen_t *len)
{
	struct sock *sock = fdtable_get(fd);
	long rc = sys_getsockopt(fd, level, option, val, len);

	if (!rc && sock && level == SOL_SOCKET && option == SO_ERROR && *len >= sizeof(int) &&
	    !*(int *)val)
		*(int *)val = -atomic_exchange(&sock->late_error, 0);
	if (!rc && sock && level == SOL_SOCKET && option == SO_LINGER) {
		sock_lock_tx(sock);
		if (sock->sh->linger_guarded)
			memcpy(val, &sock->sh->linger,
			       *len < sizeof(struct linger) ? *len : sizeof(struct linger));
		sock_unlock_tx(sock);
	}
	return rc;
}

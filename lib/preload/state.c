/* SPDX-License-Identifier: MIT */
#include <sys/auxv.h>

#include "client/demote.h"
#include "client/fdtable.h"
#include "client/fork.h"
#include "client/signal.h"
#include "client/stream.h"
#include "os/syswait.h"
#include "preload/real.h"
#include "preload/state.h"

struct shim_state shim_state;

__attribute__((constructor)) static void start(void)
{
	real_init();
	/* With more rights than its caller's a program is none of our business. */
	if (getauxval(AT_SECURE) || stream_library_init())
		return;
	atomic_store(&shim_state.pid, sys_getpid());
	if (fork_init(state_forked))
		return;
	atomic_store(&shim_state.tracks, true);
}

bool state_is_stranger(void)
{
	return state_is_foreign() ||
	       sys_getpid() != atomic_load_explicit(&shim_state.pid, memory_order_relaxed);
}

void state_track(int fd)
{
	int last;

	if (!state_tracks() || state_is_foreign())
		return;
	/* Its last owner was closed by a call that nobody saw; the number says nothing about it. */
	if (fdtable_get(fd))
		fdtable_remove(fd, &last);
	signal_guard_faults(real(sigaction));
	stream_track(fd);
}

void state_forked(void)
{
	atomic_store(&shim_state.pid, sys_getpid());
}

void state_stop(void)
{
	struct sock *sock;

	atomic_store(&shim_state.tracks, false);
	for (uint32_t i = 0; (sock = sock_at(i)); i++)
		if (sock->live)
			demote_handover(sock, REASON_IO_URING);
}

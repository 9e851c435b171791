/* SPDX-License-Identifier: MIT */
#include "client/fork.h"
#include "client/fdtable.h"
#include "os/sysraw.h"
#include "preload/calls.h"
#include "client/cancel.h"
#include "preload/state.h"

/*
 * syscall(2): programs that go past libc's names still come through here. The numbers that may
 * concern a socket are served as the call of that name; all others go to the kernel.
 */
#define A(i) args[i]
#define INT(i) ((int)args[i])
#define PTR(i) ((void *)args[i])
#define ADDR(i) ((__SOCKADDR_ARG){.__sockaddr__ = PTR(i)})
#define CONST_ADDR(i) ((__CONST_SOCKADDR_ARG){.__sockaddr__ = PTR(i)})

static long other(long number, const long args[6])
{
	return CANCELLABLE(sys_raw(number, A(0), A(1), A(2), A(3), A(4), A(5)));
}

static long bytes(long number, const long args[6])
{
	switch (number) {
	case SYS_read:
		return call_read(INT(0), PTR(1), (size_t)A(2));
	case SYS_write:
		return call_write(INT(0), PTR(1), (size_t)A(2));
	case SYS_readv:
		return call_readv(INT(0), PTR(1), INT(2));
	case SYS_writev:
		return call_writev(INT(0), PTR(1), INT(2));
	case SYS_preadv2:
		return call_preadv2(INT(0), PTR(1), INT(2), A(3), INT(5));
	case SYS_pwritev2:
		return call_pwritev2(INT(0), PTR(1), INT(2), A(3), INT(5));
	case SYS_sendto:
		return call_sendto(INT(0), PTR(1), (size_t)A(2), INT(3), CONST_ADDR(4),
				   (socklen_t)A(5));
	case SYS_recvfrom:
		return call_recvfrom(INT(0), PTR(1), (size_t)A(2), INT(3), ADDR(4), PTR(5));
	case SYS_sendmsg:
		return call_sendmsg(INT(0), PTR(1), INT(2));
	case SYS_recvmsg:
		return call_recvmsg(INT(0), PTR(1), INT(2));
	case SYS_sendmmsg:
		return call_sendmmsg(INT(0), PTR(1), (unsigned int)A(2), INT(3));
	case SYS_recvmmsg:
		return call_recvmmsg(INT(0), PTR(1), (unsigned int)A(2), INT(3), PTR(4));
	case SYS_sendfile:
		return call_sendfile(INT(0), INT(1), PTR(2), (size_t)A(3));
	case SYS_splice:
		return call_splice(INT(0), PTR(1), INT(2), PTR(3), (size_t)A(4),
				   (unsigned int)A(5));
	default:
		return other(number, args);
	}
}

static long sockets(long number, const long args[6])
{
	switch (number) {
	case SYS_socket:
		return call_socket(INT(0), INT(1), INT(2));
	case SYS_connect:
		return call_connect(INT(0), CONST_ADDR(1), (socklen_t)A(2));
	case SYS_listen:
		return call_listen(INT(0), INT(1));
	case SYS_accept:
		return call_accept(INT(0), ADDR(1), PTR(2));
	case SYS_accept4:
		return call_accept4(INT(0), ADDR(1), PTR(2), INT(3));
	case SYS_shutdown:
		return call_shutdown(INT(0), INT(1));
	case SYS_getsockopt:
		return call_getsockopt(INT(0), INT(1), INT(2), PTR(3), PTR(4));
	case SYS_setsockopt:
		return call_setsockopt(INT(0), INT(1), INT(2), PTR(3), (socklen_t)A(4));
	default:
		return bytes(number, args);
	}
}

static long readiness(long number, const long args[6])
{
	switch (number) {
#ifdef SYS_poll
	case SYS_poll:
		return call_poll(PTR(0), (nfds_t)A(1), INT(2));
#endif
	case SYS_ppoll:
		return call_ppoll(PTR(0), (nfds_t)A(1), PTR(2), PTR(3));
#ifdef SYS_select
	case SYS_select:
		return call_select(INT(0), PTR(1), PTR(2), PTR(3), PTR(4));
#endif
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
		return call_epoll_wait(INT(0), PTR(1), INT(2), INT(3));
#endif
	case SYS_epoll_ctl:
		return call_epoll_ctl(INT(0), INT(1), INT(2), PTR(3));
	case SYS_epoll_pwait:
		return call_epoll_pwait(INT(0), PTR(1), INT(2), INT(3), PTR(4));
	case SYS_epoll_pwait2:
		return call_epoll_pwait2(INT(0), PTR(1), INT(2), PTR(3), PTR(4));
	default:
		return sockets(number, args);
	}
}

/* fork by number: with a stack of its own a child could not return through here. */
static long fork_by_number(long number, const long args[6])
{
	bool ours = fdtable_slots && !state_is_foreign();
	long pid;

	if (ours)
		fork_prepare();
	pid = sys_raw(number, A(0), A(1), A(2), A(3), A(4), A(5));
	if (ours && pid == 0)
		fork_in_child();
	else if (ours)
		fork_in_parent();
	if (ours && pid < 0)
		fork_failed();
	return pid;
}

long call_syscall(long number, const long args[6])
{
	switch (number) {
	case SYS_close:
		return call_close(INT(0));
	case SYS_close_range:
		return call_close_range((unsigned int)A(0), (unsigned int)A(1), INT(2));
	case SYS_dup:
		return call_dup(INT(0));
#ifdef SYS_dup2
	case SYS_dup2:
		return call_dup2(INT(0), INT(1));
#endif
	case SYS_dup3:
		return INT(0) == INT(1) ? other(number, args) : call_dup3(INT(0), INT(1), INT(2));
	case SYS_fcntl:
		return call_fcntl(INT(0), INT(1), A(2));
	case SYS_ioctl:
		return call_ioctl(INT(0), (unsigned long)A(1), PTR(2));
#ifdef SYS_fork
	case SYS_fork:
		return fork_by_number(number, args);
#endif
	case SYS_clone:
		if (!(A(0) & (CLONE_VM | CLONE_VFORK)) && !A(1))
			return fork_by_number(number, args);
		return other(number, args);
	case SYS_execve:
		return call_execve(PTR(0), PTR(1), PTR(2));
	case SYS_execveat:
		return call_execveat(INT(0), PTR(1), PTR(2), PTR(3), INT(4));
	case SYS_io_uring_setup:
		/* Its requests reach sockets without any call. */
		state_stop();
		return other(number, args);
	default:
		return readiness(number, args);
	}
}

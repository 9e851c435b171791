/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <ucontext.h>

#include "base/util.h"
#include "client/cancel.h"
#include "client/fault.h"
#include "client/signal.h"
#include "os/syswait.h"

/* What the program wants done with a signal while the kernel knows signal_deliver(). */
struct wanted {
	_Atomic uintptr_t handler;
	_Atomic int flags;
};

static struct wanted wanted[_NSIG];
static _Atomic bool guards; /* SIGSEGV and SIGBUS are ours */

__thread struct signal_local signal_local __attribute__((tls_model("initial-exec")));

#define SIGBIT(sig) ((uint64_t)1 << ((sig)-1))
/* Never blocked while a signal is put off: faults, and 32 and 33, with which libc interrupts its
 * own threads. */
#define NEVER_BLOCKED                                                                              \
	(SIGBIT(SIGSEGV) | SIGBIT(SIGBUS) | SIGBIT(SIGFPE) | SIGBIT(SIGILL) | SIGBIT(SIGTRAP) |    \
	 SIGBIT(SIGSYS) | SIGBIT(32) | SIGBIT(33))

static bool is_fault(int sig, const siginfo_t *info)
{
	return sig < 32 && (NEVER_BLOCKED & SIGBIT(sig)) && info->si_code > 0;
}

/* Let the interrupted code go on, with everything blocked but faults. */
static void put_off(const siginfo_t *info, ucontext_t *context)
{
	uint64_t blocked = ~NEVER_BLOCKED;

	signal_local.info = *info;
	memcpy(&signal_local.mask, &context->uc_sigmask, sizeof(signal_local.mask));
	memcpy(&context->uc_sigmask, &blocked, sizeof(blocked));
	signal_local.put_off = 1;
}

void signal_resume(void)
{
	siginfo_t info = signal_local.info;
	uint64_t mask = signal_local.mask;

	signal_local.put_off = 0;
	SYS_CALL(rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), info.si_signo, &info);
	SYS_CALL(rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

/* As the kernel's: handler, flags, restorer, mask. */
static void reset_to_default(int sig)
{
	unsigned long action[4] = {0};

	SYS_CALL(rt_sigaction, sig, action, NULL, SYS_SIGSET_BYTES);
	atomic_store(&wanted[sig].handler, (uintptr_t)SIG_DFL);
}

/*
 * The program handles @sig no more, or never did and the handler is there for the library's sake.
 * The instruction fails again, or the signal comes again, and the kernel does what is its custom.
 */
static void unhandled(int sig, siginfo_t *info, uintptr_t handler)
{
	if (handler == (uintptr_t)SIG_IGN && !is_fault(sig, info))
		return;
	reset_to_default(sig);
	if (!is_fault(sig, info))
		SYS_CALL(rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), sig, info);
}

static void signal_deliver(int sig, siginfo_t *info, void *context)
{
	volatile struct timespec *timeout = signal_local.timeout;
	uintptr_t handler;
	int flags;

	if (is_fault(sig, info)) {
		fault_catch(context);
	} else if (signal_local.depth) {
		put_off(info, context);
		return;
	}
	handler = atomic_load(&wanted[sig].handler);
	flags = atomic_load(&wanted[sig].flags);
	if (handler == (uintptr_t)SIG_DFL || handler == (uintptr_t)SIG_IGN) {
		unhandled(sig, info, handler);
		return;
	}
	if (flags & SA_RESETHAND)
		reset_to_default(sig);
	signal_local.handled++;
	if (!(flags & SA_RESTART))
		signal_local.interrupting++;
	/* The wait that begins now must not begin. */
	signal_local.timeout = NULL;
	if (timeout) {
		timeout->tv_sec = 0;
		timeout->tv_nsec = 0;
	}
	((void (*)(int, siginfo_t *, void *))handler)(sig, info, context);
}

/* A time limit that a handler can cut down to nothing until the kernel has read it. */
static void sleep_begin(volatile struct timespec *left, const struct timespec *timeout)
{
	/* About thirty years: never, and yet a time. */
	left->tv_sec = timeout ? timeout->tv_sec : 1000000000;
	left->tv_nsec = timeout ? timeout->tv_nsec : 0;
	signal_local.timeout = left;
	/* Either the handler sees the pointer, or we see that it has run. */
	atomic_signal_fence(memory_order_seq_cst);
}

static int sleep_end(int rc, const struct signal_mark *mark)
{
	signal_local.timeout = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	return rc <= 0 && signal_local.handled != mark->handled ? -EINTR : rc;
}

int signal_ppoll(struct pollfd *fds, unsigned int n, const struct timespec *timeout,
		 const sigset_t *mask, const struct signal_mark *mark)
{
	volatile struct timespec left;
	int rc = 0;

	sleep_begin(&left, timeout);
	if (signal_local.handled == mark->handled)
		rc = (int)CANCELLABLE(SYS_CALL(ppoll, fds, n, &left, mask, SYS_SIGSET_BYTES));
	return sleep_end(rc, mark);
}

int signal_epoll_pwait2(int ep, struct epoll_event *ret_events, int n,
			const struct timespec *timeout, const sigset_t *mask,
			const struct signal_mark *mark)
{
	volatile struct timespec left;
	int rc = 0;

	sleep_begin(&left, timeout);
	if (signal_local.handled == mark->handled)
		rc = (int)CANCELLABLE(
			SYS_CALL(epoll_pwait2, ep, ret_events, n, &left, mask, SYS_SIGSET_BYTES));
	return sleep_end(rc, mark);
}

void signal_forked(uint32_t depth)
{
	uint64_t mask = signal_local.mask;

	signal_local.depth = depth;
	if (!signal_local.put_off)
		return;
	signal_local.put_off = 0;
	SYS_CALL(rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

static bool is_function(const struct sigaction *act)
{
	return act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN;
}

/* What the program is told of an action that the kernel knows as ours. */
static void translate(int sig, struct sigaction *old, uintptr_t handler, int flags)
{
	(void)sig;
	if (!(old->sa_flags & SA_SIGINFO) || old->sa_sigaction != signal_deliver)
		return;
	old->sa_flags &= ~(SA_SIGINFO | SA_RESETHAND);
	old->sa_flags |= flags & (SA_SIGINFO | SA_RESETHAND);
	old->sa_handler = (sighandler_t)handler;
}

/* Signals whose handler in the kernel stays ours whatever the program wants. */
static bool is_guarded(int sig)
{
	return (sig == SIGSEGV || sig == SIGBUS) && atomic_load(&guards);
}

void signal_guard_faults(signal_action_fn real)
{
	static const int sigs[] = {SIGSEGV, SIGBUS};
	struct sigaction ours = {.sa_sigaction = signal_deliver, .sa_flags = SA_SIGINFO}, old;

	/* Asked at every new socket: looked at first, since an exchange costs more. */
	if (!real || atomic_load(&guards) || atomic_exchange(&guards, true))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++) {
		if (real(sigs[i], NULL, &old) || old.sa_sigaction == signal_deliver)
			continue;
		atomic_store(&wanted[sigs[i]].flags, old.sa_flags);
		atomic_store(&wanted[sigs[i]].handler, (uintptr_t)old.sa_handler);
		if (is_function(&old)) {
			ours.sa_mask = old.sa_mask;
			ours.sa_flags = (old.sa_flags | SA_SIGINFO) & ~SA_RESETHAND;
		}
		real(sigs[i], &ours, NULL);
	}
}

int signal_action(int sig, const struct sigaction *act, struct sigaction *old,
		  signal_action_fn real, bool foreign)
{
	struct sigaction ours;
	uintptr_t handler;
	int flags, saved = errno, rc;
	bool wraps;

	if (sig <= 0 || sig >= _NSIG)
		return -EINVAL;
	wraps = act && !foreign && (is_function(act) || is_guarded(sig));
	handler = atomic_load(&wanted[sig].handler);
	flags = atomic_load(&wanted[sig].flags);
	if (wraps) {
		ours = *act;
		ours.sa_sigaction = signal_deliver;
		ours.sa_flags = (act->sa_flags | SA_SIGINFO) & ~SA_RESETHAND;
		/* Before the kernel knows: the first signal must find them. */
		atomic_store(&wanted[sig].flags, act->sa_flags);
		atomic_store(&wanted[sig].handler, (uintptr_t)act->sa_handler);
	}
	rc = real(sig, wraps ? &ours : act, old) ? -errno : 0;
	errno = saved;
	if (rc && wraps) {
		atomic_store(&wanted[sig].flags, flags);
		atomic_store(&wanted[sig].handler, handler);
	}
	if (!rc && old)
		translate(sig, old, handler, flags);
	return rc;
}

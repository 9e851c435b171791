/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "client/signal.h"
#include "preload/calls.h"
#include "preload/real.h"
#include "preload/state.h"

/* The calls that set a signal's handler. libc's own would go past this library's sigaction(). */

/* Signals that siginterrupt() has taken SA_RESTART from, for signal(). */
static _Atomic uint64_t interrupting;

static bool is_signal(int sig)
{
	return sig > 0 && sig < _NSIG;
}

static uint64_t bit_of(int sig)
{
	return (uint64_t)1 << (sig - 1);
}

long call_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	signal_action_fn libc = real(sigaction);

	if (!libc)
		return -ENOSYS;
	return signal_action(sig, act, old, libc, act && state_is_foreign());
}

/* Set @handler; the one before, or -errno, as the calls below return it. */
static long replace(int sig, sighandler_t handler, int flags, bool block_itself)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags}, old;
	long rc;

	if (handler == SIG_ERR || !is_signal(sig))
		return -EINVAL;
	if (block_itself)
		sigaddset(&act.sa_mask, sig);
	rc = call_sigaction(sig, &act, &old);
	return rc ? rc : (long)old.sa_handler;
}

long call_signal(int sig, sighandler_t handler)
{
	bool restart = is_signal(sig) && !(atomic_load(&interrupting) & bit_of(sig));

	return replace(sig, handler, restart ? SA_RESTART : 0, true);
}

long call_sysv_signal(int sig, sighandler_t handler)
{
	return replace(sig, handler, (int)SA_RESETHAND | SA_NODEFER, false);
}

long call_sigset(int sig, sighandler_t handler)
{
	struct sigaction old;
	sigset_t set, before;
	long rc;

	if (handler == SIG_ERR || !is_signal(sig))
		return -EINVAL;
	sigemptyset(&set);
	sigaddset(&set, sig);
	if (handler == SIG_HOLD) {
		sigprocmask(SIG_BLOCK, &set, &before);
		rc = call_sigaction(sig, NULL, &old);
		if (!rc)
			rc = (long)old.sa_handler;
	} else {
		rc = replace(sig, handler, 0, false);
		if (rc >= 0)
			sigprocmask(SIG_UNBLOCK, &set, &before);
	}
	if (rc < 0)
		return rc;
	return sigismember(&before, sig) == 1 ? (long)SIG_HOLD : rc;
}

long call_sigignore(int sig)
{
	struct sigaction act = {.sa_handler = SIG_IGN};

	return call_sigaction(sig, &act, NULL);
}

long call_siginterrupt(int sig, int interrupt)
{
	struct sigaction act;
	long rc = is_signal(sig) ? call_sigaction(sig, NULL, &act) : -EINVAL;

	if (rc)
		return rc;
	if (interrupt) {
		atomic_fetch_or(&interrupting, bit_of(sig));
		act.sa_flags &= ~SA_RESTART;
	} else {
		atomic_fetch_and(&interrupting, ~bit_of(sig));
		act.sa_flags |= SA_RESTART;
	}
	return call_sigaction(sig, &act, NULL);
}

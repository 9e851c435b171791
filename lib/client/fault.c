/* SPDX-License-Identifier: MIT */
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

#include "client/fault.h"
#include "os/syswait.h"

/* Where the copy under way in this thread goes on after a fault. */
static __thread struct {
	volatile sig_atomic_t copying;
	void *landing[5];
} local __attribute__((tls_model("initial-exec")));

__attribute__((noinline)) bool fault_copy(void *dst, const void *src, size_t len)
{
	if (__builtin_setjmp(local.landing))
		return false;
	local.copying = 1;
	atomic_signal_fence(memory_order_seq_cst);
	memcpy(dst, src, len);
	atomic_signal_fence(memory_order_seq_cst);
	local.copying = 0;
	return true;
}

void fault_catch(void *context)
{
	const ucontext_t *interrupted = context;

	if (!local.copying)
		return;
	local.copying = 0;
	SYS_CALL(rt_sigprocmask, SIG_SETMASK, &interrupted->uc_sigmask, NULL, SYS_SIGSET_BYTES);
	__builtin_longjmp(local.landing, 1);
}

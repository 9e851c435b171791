/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "client/fault.h"
#include "client/signal.h"
#include "lib/child.h"
#include "lib/tap.h"

/* Handlers that are put off, waits that they end, faults that come back. */

static volatile sig_atomic_t handled, value, blocked_there;

/* ThreadSanitizer holds signals back until the thread next calls libc. */
#ifdef __SANITIZE_THREAD__
#define NEED_SIGNALS_AT_ONCE() SKIP("ThreadSanitizer delivers signals late")
#else
#define NEED_SIGNALS_AT_ONCE()
#endif

static void count(int sig)
{
	(void)sig;
	handled++;
}

static void note_value(int sig, siginfo_t *info, void *context)
{
	sigset_t now;

	(void)context;
	handled++;
	value = info->si_value.sival_int;
	sigprocmask(SIG_BLOCK, NULL, &now);
	blocked_there = sigismember(&now, sig) == 1 && sigismember(&now, SIGUSR2) == 1 &&
			sigismember(&now, SIGTERM) == 0;
}

static int set(int sig, void (*handler)(int sig), int flags)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags};

	return signal_action(sig, &act, NULL, sigaction, false);
}

TAP_CASE(handler_runs_at_once_outside)
{
	handled = 0;
	REQUIRE_OK(set(SIGUSR1, count, 0));
	raise(SIGUSR1);
	CHECK_EQ(handled, 1);
}

TAP_CASE(handler_waits_for_the_end_of_a_section)
{
	struct sigaction act = {.sa_sigaction = note_value, .sa_flags = SA_SIGINFO};
	union sigval sent = {.sival_int = 4711};
	sigset_t before, after;

	NEED_SIGNALS_AT_ONCE();
	handled = value = 0;
	sigaddset(&act.sa_mask, SIGUSR2);
	REQUIRE_OK(signal_action(SIGUSR1, &act, NULL, sigaction, false));
	sigprocmask(SIG_BLOCK, NULL, &before);
	section_enter();
	section_enter();
	sigqueue(getpid(), SIGUSR1, sent);
	CHECK_EQ(handled, 0);
	section_leave();
	CHECK_EQ(handled, 0);
	section_leave();
	CHECK_EQ(handled, 1);
	CHECK_EQ(value, 4711);
	CHECK(blocked_there);
	sigprocmask(SIG_BLOCK, NULL, &after);
	CHECK(memcmp(&before, &after, sizeof(uint64_t)) == 0);
	section_enter();
	section_leave();
	CHECK_EQ(handled, 1);
}

TAP_CASE(several_signals_in_one_section)
{
	NEED_SIGNALS_AT_ONCE();
	handled = 0;
	REQUIRE_OK(set(SIGUSR1, count, 0));
	REQUIRE_OK(set(SIGUSR2, count, 0));
	REQUIRE_OK(set(SIGRTMIN, count, 0));
	section_enter();
	raise(SIGUSR1);
	raise(SIGUSR2);
	raise(SIGRTMIN);
	raise(SIGRTMIN);
	CHECK_EQ(handled, 0);
	section_leave();
	CHECK_EQ(handled, 4);
}

TAP_CASE(one_shot_handler)
{
	struct sigaction old;

	NEED_SIGNALS_AT_ONCE();
	handled = 0;
	REQUIRE_OK(set(SIGUSR1, count, (int)SA_RESETHAND));
	REQUIRE_OK(signal_action(SIGUSR1, NULL, &old, sigaction, false));
	CHECK(old.sa_handler == count);
	CHECK(old.sa_flags & (int)SA_RESETHAND);
	CHECK(!(old.sa_flags & SA_SIGINFO));
	section_enter();
	raise(SIGUSR1);
	section_leave();
	CHECK_EQ(handled, 1);
	REQUIRE_OK(signal_action(SIGUSR1, NULL, &old, sigaction, false));
	CHECK(old.sa_handler == SIG_DFL);
}

TAP_CASE(errors_of_sigaction)
{
	struct sigaction act = {.sa_handler = count}, old;

	CHECK_EQ(signal_action(SIGKILL, &act, NULL, sigaction, false), -EINVAL);
	CHECK_EQ(signal_action(0, &act, NULL, sigaction, false), -EINVAL);
	CHECK_EQ(signal_action(1000, NULL, &old, sigaction, false), -EINVAL);
	CHECK_EQ(signal_action(SIGKILL, NULL, &old, sigaction, false), 0);
	CHECK(old.sa_handler == SIG_DFL);
}

TAP_CASE(marks)
{
	struct signal_mark mark = signal_mark();

	CHECK(signal_restarts(&mark));
	REQUIRE_OK(set(SIGUSR1, count, SA_RESTART));
	raise(SIGUSR1);
	CHECK(signal_restarts(&mark));
	CHECK_EQ(signal_ppoll(NULL, 0, NULL, NULL, &mark), -EINTR);
	mark = signal_mark();
	REQUIRE_OK(set(SIGUSR1, count, 0));
	raise(SIGUSR1);
	CHECK(!signal_restarts(&mark));
}

TAP_CASE(sleep_with_nothing_to_say)
{
	struct timespec short_time = {.tv_nsec = 2000000};
	struct signal_mark mark = signal_mark();
	struct pollfd ready;
	int pipes[2];

	CHECK_EQ(signal_ppoll(NULL, 0, &short_time, NULL, &mark), 0);
	REQUIRE_OK(pipe(pipes));
	REQUIRE(write(pipes[1], "x", 1) == 1);
	ready = (struct pollfd){.fd = pipes[0], .events = POLLIN};
	CHECK_EQ(signal_ppoll(&ready, 1, NULL, NULL, &mark), 1);
	close(pipes[0]);
	close(pipes[1]);
}

/* An alarm that comes at any moment between the mark and the kernel ends the sleep: one that does
 * not would sleep until the harness gives up. */
TAP_CASE(no_alarm_is_missed)
{
	struct timespec limit = {.tv_sec = 20};
	int interrupted = 0, rounds = 0;

	REQUIRE_OK(set(SIGALRM, count, 0));
	for (suseconds_t us = 1; us < 400; us++, rounds++) {
		struct itimerval timer = {.it_value.tv_usec = us};
		struct signal_mark mark = signal_mark();

		setitimer(ITIMER_REAL, &timer, NULL);
		interrupted += signal_ppoll(NULL, 0, &limit, NULL, &mark) == -EINTR;
	}
	CHECK_EQ(interrupted, rounds);
}

static void fork_in_section(void *arg)
{
	sigset_t now;

	(void)arg;
	handled = 0;
	set(SIGUSR1, count, 0);
	section_enter();
	raise(SIGUSR1);
	/* What a forked child does: the signal was its parent's. */
	signal_forked(0);
	sigprocmask(SIG_BLOCK, NULL, &now);
	CHECK_EQ(sigismember(&now, SIGUSR1), 0);
	section_enter();
	section_leave();
	CHECK_EQ(handled, 0);
	raise(SIGUSR1);
	CHECK_EQ(handled, 1);
}

TAP_CASE(child_drops_what_was_put_off)
{
	child_run(CHILD_UID_SAME, fork_in_section, NULL);
}

static void copy_faults(void *arg)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char text[8] = "1234567";
	sigset_t now;

	(void)arg;
	signal_guard_faults(sigaction);
	mprotect(pages + page, page, PROT_NONE);
	CHECK(fault_copy(pages, text, sizeof(text)));
	CHECK_STR(pages, "1234567");
	CHECK(!fault_copy(pages + page - 4, text, sizeof(text)));
	CHECK(!fault_copy(text, pages + page - 4, sizeof(text)));
	CHECK(fault_copy(text, pages, sizeof(text)));
	sigprocmask(SIG_BLOCK, NULL, &now);
	CHECK_EQ(sigismember(&now, SIGSEGV), 0);
	/* Again and again, with a handler of the program's in between. */
	set(SIGSEGV, count, 0);
	handled = 0;
	CHECK(!fault_copy(pages + page, text, 1));
	CHECK_EQ(handled, 0);
	raise(SIGSEGV);
	CHECK_EQ(handled, 1);
	set(SIGSEGV, SIG_DFL, 0);
	CHECK(!fault_copy(pages + page, text, 1));
}

TAP_CASE(faults_in_copies_come_back)
{
	child_run(CHILD_UID_SAME, copy_faults, NULL);
}

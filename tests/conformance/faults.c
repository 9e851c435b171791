/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conformance/conf.h"

/* Memory that is not there: in a call it is an error, anywhere else the program's end. */

static char buf[256];

#define RECV(fd, len, flags)                                                                       \
	say_bytes("recv(" #fd ", " #len ", " #flags ")", buf, recv(fd, buf, len, flags))

CONF_CASE(bad_memory)
{
	struct conf_pair p = conf_pair();
	char *volatile bad = (char *)16;

	SAY_RESULT(send(p.a, bad, 10, 0));
	SAY_RESULT(write(p.a, bad, 10));
	SAY_RESULT(send(p.a, "abc", 3, 0));
	SAY_RESULT(recv(p.b, bad, 10, 0));
	RECV(p.b, 100, 0);
}

CONF_CASE(bad_memory_behind_good)
{
	struct conf_pair p = conf_pair();
	long page = sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov[2] = {IOV("abc"), {pages + page, 3}};

	mprotect(pages + page, (size_t)page, PROT_READ);
	SAY_RESULT(send(p.a, "0123456789", 10, 0));
	settle_bytes(p.b, 10);
	SAY_RESULT(recv(p.b, pages + page - 4, 10, 0));
	RECV(p.b, 100, 0);
	memcpy(pages + page - 4, "last", 4);
	munmap(pages + page, (size_t)page);
	SAY_RESULT(send(p.a, pages + page - 4, 4, 0));
	RECV(p.b, 100, 0);
	SAY_RESULT(writev(p.a, &iov[1], 1));
	SAY_RESULT(send(p.a, "on", 2, 0));
	RECV(p.b, 100, 0);
}

static char *volatile nowhere = (char *)8;

static void fall(void *arg)
{
	(void)arg;
	*nowhere = 1;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	_exit(sig == SIGSEGV && info->si_addr == (void *)8 ? 11 : 12);
}

static void handle_and_fall(void *arg)
{
	struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &act, NULL);
	fall(arg);
}

static void ignore_and_fall(void *arg)
{
	signal(SIGSEGV, SIG_IGN);
	raise(SIGSEGV);
	fall(arg);
}

static void be_killed(void *arg)
{
	(void)arg;
	raise(SIGSEGV);
}

static void reset_and_be_killed(void *arg)
{
	(void)arg;
	signal(SIGBUS, SIG_IGN);
	signal(SIGBUS, SIG_DFL);
	raise(SIGBUS);
}

CONF_CASE(faults_of_the_program)
{
	struct conf_pair p = conf_pair();

	say_ended("a fault", fork_child(fall, NULL));
	say_ended("a fault with a handler", fork_child(handle_and_fall, NULL));
	say_ended("a fault that is ignored", fork_child(ignore_and_fall, NULL));
	say_ended("the signal alone", fork_child(be_killed, NULL));
	say_ended("the signal, the default restored", fork_child(reset_and_be_killed, NULL));
	SAY_RESULT(send(p.a, "abc", 3, 0));
	RECV(p.b, 100, 0);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "conformance/conf.h"

/* Handlers that come while the program is in a call, and what they do there; cancellation. */

static char buf[256];

#define RECV(fd, len, flags)                                                                       \
	say_bytes("recv(" #fd ", " #len ", " #flags ")", buf, recv(fd, buf, len, flags))

static volatile sig_atomic_t handled;
static int handler_fd;

static void count(int sig)
{
	(void)sig;
	handled++;
}

static void install(int sig, void (*handler)(int sig), int flags)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags};

	if (sigaction(sig, &act, NULL))
		conf_broken("sigaction");
}

static void alarm_once(unsigned int ms)
{
	struct itimerval timer = {.it_value.tv_usec = (suseconds_t)ms * 1000};

	setitimer(ITIMER_REAL, &timer, NULL);
}

static void send_byte(void *arg)
{
	send(*(int *)arg, "x", 1, 0);
}

/* Signals go to the main thread: the others block them. */
static void later_unsignalled(unsigned int ms, void (*fn)(void *arg), void *arg)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	later(ms, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

CONF_CASE(interrupted_receive)
{
	struct conf_pair p = conf_pair();

	install(SIGALRM, count, 0);
	alarm_once(30);
	RECV(p.b, 10, 0);
	SAY_RESULT(handled);
	install(SIGALRM, count, SA_RESTART);
	alarm_once(30);
	later_unsignalled(100, send_byte, &p.a);
	RECV(p.b, 10, 0);
	SAY_RESULT(handled);
}

/* Alarms that come at any moment around the call. */
CONF_CASE(interrupted_at_any_moment)
{
	struct conf_pair p = conf_pair();
	int interrupted = 0;

	install(SIGALRM, count, 0);
	for (suseconds_t us = 1; us < 200; us += 2) {
		struct itimerval timer = {.it_value.tv_usec = us};

		handled = 0;
		setitimer(ITIMER_REAL, &timer, NULL);
		while (!handled) {
			/* The alarm may have come before the call: then it must not wait for it. */
			sigset_t alarm_only, before;

			sigemptyset(&alarm_only);
			sigaddset(&alarm_only, SIGALRM);
			sigprocmask(SIG_BLOCK, &alarm_only, &before);
			if (!handled) {
				struct pollfd fd = {.fd = p.b, .events = POLLIN};
				struct timespec limit = {.tv_sec = 5};

				if (ppoll(&fd, 1, &limit, &before) == -1 && errno == EINTR)
					interrupted++;
			}
			sigprocmask(SIG_SETMASK, &before, NULL);
		}
	}
	say("interrupted: %d", interrupted > 50);
}

CONF_CASE(interrupted_poll)
{
	struct conf_pair p = conf_pair();
	struct pollfd fd = {.fd = p.b, .events = POLLIN};

	install(SIGALRM, count, SA_RESTART);
	alarm_once(30);
	SAY_RESULT(poll(&fd, 1, 10000));
	SAY_RESULT(handled);
}

CONF_CASE(interrupted_with_time_limit)
{
	struct conf_pair p = conf_pair();
	struct timeval limit = {.tv_sec = 5};

	SAY_RESULT(setsockopt(p.b, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	install(SIGALRM, count, SA_RESTART);
	alarm_once(30);
	RECV(p.b, 10, 0);
	SAY_RESULT(handled);
	SAY_RESULT(send(p.a, "ab", 2, 0));
	alarm_once(30);
	RECV(p.b, 10, MSG_WAITALL);
	SAY_RESULT(handled);
}

static void send_from_handler(int sig)
{
	int saved = errno;

	(void)sig;
	if (send(handler_fd, "s", 1, MSG_DONTWAIT) == 1)
		handled++;
	errno = saved;
}

static void *count_bytes(void *arg)
{
	static size_t counts[2];
	char bytes[4096];
	ssize_t n;

	while ((n = recv(*(int *)arg, bytes, sizeof(bytes), 0)) > 0)
		for (ssize_t i = 0; i < n; i++)
			counts[bytes[i] == 's']++;
	return counts;
}

/* A handler sends on the socket that the program is sending on. */
CONF_CASE(handler_uses_the_same_socket)
{
	struct conf_pair p = conf_pair();
	struct itimerval timer = {{0, 300}, {0, 300}};
	sigset_t alarms, before;
	pthread_t reader;
	size_t sent = 0;
	void *counts;

	handler_fd = p.a;
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, &before);
	pthread_create(&reader, NULL, count_bytes, &p.b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	install(SIGALRM, send_from_handler, SA_RESTART);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int i = 0; i < 200000 && (i < 20000 || handled < 50); i++) {
		ssize_t n = send(p.a, "mmmm", 4, 0);

		if (n < 0)
			say_result("send", n);
		sent += n > 0 ? (size_t)n : 0;
	}
	timer = (struct itimerval){0};
	setitimer(ITIMER_REAL, &timer, NULL);
	shutdown(p.a, SHUT_WR);
	pthread_join(reader, &counts);
	say("every byte came: %d %d, the handler sent some: %d", ((size_t *)counts)[0] == sent,
	    ((size_t *)counts)[1] == (size_t)handled, handled > 10);
}

static void forget(int sig)
{
	(void)sig;
}

CONF_CASE(actions_are_reported)
{
	struct sigaction act = {.sa_handler = count, .sa_flags = SA_RESTART}, old;

	SAY_RESULT(sigaction(SIGUSR1, &act, &old));
	say("was the default: %d", old.sa_handler == SIG_DFL);
	sigaddset(&act.sa_mask, SIGUSR2);
	act.sa_handler = forget;
	act.sa_flags = (int)SA_RESETHAND | SA_NODEFER;
	SAY_RESULT(sigaction(SIGUSR1, &act, &old));
	say("was count: %d, %#x", old.sa_handler == count, old.sa_flags & ~0x04000000);
	SAY_RESULT(sigaction(SIGUSR1, NULL, &old));
	say("is forget: %d, %#x, %d", old.sa_handler == forget, old.sa_flags & ~0x04000000,
	    sigismember(&old.sa_mask, SIGUSR2));
	raise(SIGUSR1);
	SAY_RESULT(sigaction(SIGUSR1, NULL, &old));
	say("is the default again: %d", old.sa_handler == SIG_DFL);
	say("signal: %d", signal(SIGUSR1, count) == SIG_DFL);
	say("signal: %d", signal(SIGUSR1, SIG_IGN) == count);
	say("signal: %d", signal(SIGUSR1, SIG_DFL) == SIG_IGN);
	SAY_RESULT(sigaction(SIGKILL, &act, NULL));
	SAY_RESULT(sigaction(SIGKILL, NULL, &old));
	SAY_RESULT(sigaction(99, NULL, &old));
	SAY_RESULT(siginterrupt(SIGUSR2, 1));
	signal(SIGUSR2, count);
	SAY_RESULT(sigaction(SIGUSR2, NULL, &old));
	say("restarts: %d", (old.sa_flags & SA_RESTART) != 0);
	raise(SIGUSR2);
	raise(SIGUSR2);
	SAY_RESULT(handled);
}

static sigjmp_buf back;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

CONF_CASE(jump_out_of_a_wait)
{
	struct conf_pair p = conf_pair();

	install(SIGALRM, jump, 0);
	for (int i = 0; i < 5; i++) {
		if (sigsetjmp(back, 1) == 0) {
			alarm_once(20);
			recv(p.b, buf, 10, 0);
			say("not reached");
		}
	}
	SAY_RESULT(send(p.a, "abc", 3, 0));
	RECV(p.b, 10, 0);
	SAY_RESULT(send(p.b, "def", 3, 0));
	RECV(p.a, 10, 0);
}

static void *receive_for_ever(void *arg)
{
	recv(*(int *)arg, buf, sizeof(buf), 0);
	return NULL;
}

CONF_CASE(cancelled_receive)
{
	struct conf_pair p = conf_pair();
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, receive_for_ever, &p.b);
	pause_ms(50);
	SAY_RESULT(pthread_cancel(thread));
	pthread_join(thread, &result);
	say("cancelled: %d", result == PTHREAD_CANCELED);
	SAY_RESULT(send(p.a, "abc", 3, 0));
	RECV(p.b, 10, 0);
}

static void *send_much(void *arg)
{
	static const char bytes[1000];

	for (int i = 0; i < 1000; i++)
		if (send(*(int *)arg, bytes, sizeof(bytes), 0) != sizeof(bytes))
			return arg;
	return NULL;
}

CONF_CASE(several_senders)
{
	struct conf_pair p = conf_pair();
	pthread_t senders[3], reader;
	void *failed, *counts;
	int failures = 0;

	pthread_create(&reader, NULL, count_bytes, &p.b);
	for (int i = 0; i < 3; i++)
		pthread_create(&senders[i], NULL, send_much, &p.a);
	for (int i = 0; i < 3; i++) {
		pthread_join(senders[i], &failed);
		failures += failed != NULL;
	}
	shutdown(p.a, SHUT_WR);
	pthread_join(reader, &counts);
	say("%zu bytes, %d failures", ((size_t *)counts)[0], failures);
}

static void *poll_for_ever(void *arg)
{
	struct pollfd fd = {.fd = *(int *)arg, .events = POLLIN};

	poll(&fd, 1, -1);
	return NULL;
}

static atomic_bool go;

static void *receive_on_command(void *arg)
{
	while (!go)
		;
	recv(*(int *)arg, buf, sizeof(buf), 0);
	return NULL;
}

/* In a wait, and before a call that has something to return. */
CONF_CASE(cancelled_elsewhere)
{
	struct conf_pair p = conf_pair();
	pthread_t poller, receiver;
	void *result;

	pthread_create(&poller, NULL, poll_for_ever, &p.b);
	pause_ms(50);
	SAY_RESULT(pthread_cancel(poller));
	pthread_join(poller, &result);
	say("cancelled: %d", result == PTHREAD_CANCELED);
	SAY_RESULT(send(p.a, "abc", 3, 0));
	settle(p.b);
	pthread_create(&receiver, NULL, receive_on_command, &p.b);
	SAY_RESULT(pthread_cancel(receiver));
	go = true;
	pthread_join(receiver, &result);
	say("cancelled: %d", result == PTHREAD_CANCELED);
	RECV(p.b, 10, 0);
}

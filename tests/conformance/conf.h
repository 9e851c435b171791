/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Cases of socket semantics. Each performs calls on a TCP connection and prints what a program can
 * see of them; nothing is judged here. run.py runs every case on kernel TCP, under the preload
 * library on a lane, and under it while the lane comes and goes, and compares what was printed.
 * So a case may print nothing that differs from run to run: no numbers of descriptors or ports, no
 * times, no amounts that depend on the size of a buffer.
 *
 *	CONF_CASE(half_close)
 *	{
 *		struct conf_pair pair = conf_pair();
 *
 *		SAY_RESULT(shutdown(pair.a, SHUT_WR));
 *		…
 *	}
 */
struct conf_case {
	const char *name;
	void (*run)(void);
	struct conf_case *next;
};

void conf_register(struct conf_case *conf_case);

#define CONF_CASE(case_name)                                                                       \
	static void case_name(void);                                                               \
	__attribute__((constructor)) static void conf_register_##case_name(void)                   \
	{                                                                                          \
		static struct conf_case self = {#case_name, case_name, NULL};                      \
                                                                                                   \
		conf_register(&self);                                                              \
	}                                                                                          \
	static void case_name(void)

/* A connection: @a connected, @b accepted. */
struct conf_pair {
	int a, b;
};

/*
 * A fresh connection. Unless this is the reference run, both directions have moved to a ring before
 * it is returned; the process ends with a message if they do not.
 */
struct conf_pair conf_pair(void);

/* The same, before anything has been sent. conf_promote() moves it to the ring. */
struct conf_pair conf_connect(void);
void conf_promote(struct conf_pair *pair);

/* A listening socket on loopback, and a connection to it. */
int conf_listen(void);
int conf_connect_to(int listener);

/* A result as a program sees it: the number, or the name of errno. */
void say_result(const char *what, long result);
#define SAY_RESULT(call) say_result(#call, (long)(call))

__attribute__((format(printf, 1, 2))) void say(const char *fmt, ...);

/* A vector over a literal. */
#define IOV(text)                                                                                  \
	{                                                                                          \
		(void *)(uintptr_t)(text), sizeof(text) - 1                                        \
	}

/* What was received: @n and the bytes, which must be printable. */
void say_bytes(const char *what, const char *buf, ssize_t n);

/* End the process: something that is no part of the case went wrong. */
__attribute__((noreturn, format(printf, 1, 2))) void conf_broken(const char *fmt, ...);

/* Wait until @fd is readable, or has ended; ten seconds at most. */
void settle(int fd);

/* Wait until @n bytes stand there to be read; ten seconds at most. */
void settle_bytes(int fd, int n);

/* Milliseconds of a clock that only goes forward. */
uint64_t now_ms(void);
void pause_ms(unsigned int ms);

/* A thread that runs @fn(@arg) after @delay_ms, and when the calling thread sleeps (awaited for a
 * second at most); joined at the end of the case. */
void later(unsigned int delay_ms, void (*fn)(void *arg), void *arg);
void later_all_done(void);

/* Fork; say nothing in the child but through the parent's order of events. */
pid_t fork_child(void (*fn)(void *arg), void *arg);

/* Wait for a child and say how it ended. */
void say_ended(const char *what, pid_t pid);

/* Send, or receive and check, @len bytes of a pattern from @offset on. Whether all went well. */
bool pattern_send(int fd, size_t offset, size_t len);
bool pattern_recv(int fd, size_t offset, size_t len);

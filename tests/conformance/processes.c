/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/conf.h"

/* Several processes with one socket: fork, exec, and programs that get it as a standard stream. */

static char buf[256];

#define RECV(fd, len, flags)                                                                       \
	say_bytes("recv(" #fd ", " #len ", " #flags ")", buf, recv(fd, buf, len, flags))

static void say_alive(const char *what, const struct conf_pair *p)
{
	char c = 0, d = 0;

	say("%s: %d", what,
	    send(p->a, "q", 1, MSG_NOSIGNAL) == 1 && recv(p->b, &c, 1, 0) == 1 &&
		    send(p->b, "r", 1, MSG_NOSIGNAL) == 1 && recv(p->a, &d, 1, 0) == 1 &&
		    c == 'q' && d == 'r');
}

static void child_talks(void *arg)
{
	struct conf_pair *p = arg;

	if (send(p->b, "from child", 10, 0) != 10 || recv(p->b, buf, sizeof(buf), 0) != 9 ||
	    memcmp(buf, "to child!", 9) != 0)
		_exit(1);
}

CONF_CASE(fork_both_use_it)
{
	struct conf_pair p = conf_pair();
	pid_t pid = fork_child(child_talks, &p);

	RECV(p.a, 100, 0);
	SAY_RESULT(send(p.a, "to child!", 9, 0));
	say_ended("the child", pid);
	say_alive("the parent goes on", &p);
	SAY_RESULT(close(p.b));
	RECV(p.a, 100, 0);
}

static void serve(void *arg)
{
	struct conf_pair *p = arg;
	ssize_t n;

	close(p->a);
	while ((n = recv(p->b, buf, sizeof(buf), 0)) > 0)
		if (send(p->b, buf, (size_t)n, 0) != n)
			_exit(1);
	_exit(n == 0 ? 7 : 2);
}

CONF_CASE(fork_child_serves)
{
	struct conf_pair p = conf_pair();
	pid_t pid = fork_child(serve, &p);

	close(p.b);
	for (int i = 0; i < 20; i++)
		if (send(p.a, "echo", 4, 0) != 4 || recv(p.a, buf, 4, MSG_WAITALL) != 4)
			say("no echo");
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	RECV(p.a, 100, 0);
	say_ended("the child", pid);
}

static void accept_and_serve(void *arg)
{
	struct conf_pair p = {.a = -1, .b = accept(*(int *)arg, NULL, NULL)};

	serve(&p);
}

CONF_CASE(prefork)
{
	int listener = conf_listen();
	pid_t pids[2] = {fork_child(accept_and_serve, &listener),
			 fork_child(accept_and_serve, &listener)};
	int fds[2] = {conf_connect_to(listener), conf_connect_to(listener)};
	int good = 0;

	for (int i = 0; i < 200; i++)
		good += send(fds[i % 2], "echo", 4, 0) == 4 &&
			recv(fds[i % 2], buf, 4, MSG_WAITALL) == 4;
	say("%d", good);
	close(fds[0]);
	close(fds[1]);
	say_ended("one child", pids[0]);
	say_ended("the other", pids[1]);
}

static void do_nothing(void *arg)
{
	(void)arg;
}

CONF_CASE(fork_for_a_snapshot)
{
	struct conf_pair p = conf_pair();

	for (int i = 0; i < 5; i++) {
		pid_t pid = fork_child(do_nothing, NULL);

		say_alive("while there is a child", &p);
		say_ended("the child", pid);
		say_alive("afterwards", &p);
	}
}

static int child_of_clone(void *arg)
{
	child_talks(arg);
	return 3;
}

CONF_CASE(cloned_child)
{
	static char stack[256 * 1024];
	struct conf_pair p = conf_pair();
	pid_t pid = clone(child_of_clone, stack + sizeof(stack), SIGCHLD, &p);

	RECV(p.a, 100, 0);
	SAY_RESULT(send(p.a, "to child!", 9, 0));
	say_ended("the child", pid);
	say_alive("the parent goes on", &p);
}

static void be_cat(int fd)
{
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	execl("/bin/cat", "cat", NULL);
	_exit(99);
}

/* What @pid, a cat on @b, makes of it. */
static void talk_to_cat(struct conf_pair *p, pid_t pid)
{
	close(p->b);
	SAY_RESULT(send(p->a, "meow", 4, 0));
	RECV(p->a, 100, 0);
	SAY_RESULT(send(p->a, "purr", 4, 0));
	RECV(p->a, 100, 0);
	SAY_RESULT(shutdown(p->a, SHUT_WR));
	RECV(p->a, 100, 0);
	say_ended("cat", pid);
}

CONF_CASE(exec_on_standard_streams)
{
	struct conf_pair p = conf_pair();
	pid_t pid;

	SAY_RESULT(send(p.a, "(before)", 8, 0));
	pid = fork();
	if (pid == 0) {
		close(p.a);
		be_cat(p.b);
	}
	RECV(p.a, 8, MSG_WAITALL);
	talk_to_cat(&p, pid);
}

CONF_CASE(vfork_and_exec)
{
	struct conf_pair p = conf_pair(), q = conf_pair();
	pid_t pid = vfork();

	if (pid == 0) {
		dup2(p.b, STDIN_FILENO);
		dup2(p.b, STDOUT_FILENO);
		close(p.a);
		close(p.b);
		close_range(3, ~0u, 0);
		execl("/bin/cat", "cat", NULL);
		_exit(99);
	}
	say_alive("another connection", &q);
	talk_to_cat(&p, pid);
	say_alive("another connection", &q);
}

CONF_CASE(vfork_and_failed_exec)
{
	struct conf_pair p = conf_pair();
	pid_t pid = vfork();

	if (pid == 0) {
		dup2(p.b, STDIN_FILENO);
		close_range(3, ~0u, 0);
		execl("/no/such/program", "none", NULL);
		_exit(99);
	}
	say_ended("the child", pid);
	say_alive("the connection", &p);
}

CONF_CASE(spawn_on_standard_streams)
{
	struct conf_pair p = conf_pair();
	posix_spawn_file_actions_t actions;
	char name[] = "cat";
	char *argv[] = {name, NULL};
	pid_t pid = -1;

	posix_spawn_file_actions_init(&actions);
	SAY_RESULT(posix_spawn_file_actions_adddup2(&actions, p.b, STDIN_FILENO));
	SAY_RESULT(posix_spawn_file_actions_adddup2(&actions, p.b, STDOUT_FILENO));
	SAY_RESULT(posix_spawn_file_actions_addclose(&actions, p.a));
	SAY_RESULT(posix_spawn_file_actions_addclose(&actions, p.b));
	SAY_RESULT(posix_spawn(&pid, "/bin/cat", &actions, NULL, argv, environ));
	posix_spawn_file_actions_destroy(&actions);
	talk_to_cat(&p, pid);
}

CONF_CASE(exec_keeps_the_rest)
{
	struct conf_pair p = conf_pair();
	FILE *pipe;

	say("system: %d", system("exit 3") >> 8);
	say_alive("after system", &p);
	pipe = popen("echo out", "r");
	say("popen: %s", fgets(buf, sizeof(buf), pipe));
	say_alive("while there is a program", &p);
	SAY_RESULT(pclose(pipe));
	say_alive("after pclose", &p);
	SAY_RESULT(execl("/no/such/program", "none", NULL));
	say_alive("after an exec that failed", &p);
}

/* A program that gets the socket as descriptor 3, without anybody else having it. */
CONF_CASE(exec_with_a_number)
{
	struct conf_pair p = conf_pair();
	pid_t pid = fork();

	if (pid == 0) {
		close(p.a);
		if (p.b != 3)
			dup2(p.b, 3);
		fcntl(3, F_SETFD, 0);
		pause_ms(100); /* the parent has closed it by then */
		execl("/bin/sh", "sh", "-c", "read line <&3; echo \"got $line\" >&3", NULL);
		_exit(99);
	}
	close(p.b);
	SAY_RESULT(send(p.a, "a line\n", 7, 0));
	RECV(p.a, 11, MSG_WAITALL);
	RECV(p.a, 11, MSG_WAITALL);
	say_ended("sh", pid);
}

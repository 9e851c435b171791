/* SPDX-License-Identifier: MIT */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/conf.h"

/* What others than send and recv do with a socket. */

static char buf[256];

#define RECV(fd, len, flags)                                                                       \
	say_bytes("recv(" #fd ", " #len ", " #flags ")", buf, recv(fd, buf, len, flags))

CONF_CASE(stdio)
{
	struct conf_pair p = conf_pair();
	FILE *file;

	SAY_RESULT(send(p.a, "one\ntwo\n", 8, 0));
	RECV(p.b, 2, 0);
	file = fdopen(p.b, "r+");
	say("fdopen: %d", file != NULL);
	say("%s", fgets(buf, sizeof(buf), file));
	say("%s", fgets(buf, sizeof(buf), file));
	SAY_RESULT(fprintf(file, "answer %d\n", 42));
	SAY_RESULT(fflush(file));
	RECV(p.a, 100, 0);
	SAY_RESULT(send(p.a, "three\n", 6, 0));
	say("%s", fgets(buf, sizeof(buf), file));
	SAY_RESULT(fclose(file));
	RECV(p.a, 100, 0);
	say("fdopen of a closed one: %d", fdopen(p.b, "r") == NULL);
}

CONF_CASE(formatted)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(dprintf(p.a, "%s %d", "number", 7));
	RECV(p.b, 8, MSG_WAITALL);
	SAY_RESULT(send(p.a, " and on", 7, 0));
	RECV(p.b, 7, MSG_WAITALL);
	SAY_RESULT(send(p.b, "back", 4, 0));
	RECV(p.a, 4, MSG_WAITALL);
}

/* Pass @fd over @channel. */
static void pass(int channel, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = IOV("f");
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	SAY_RESULT(sendmsg(channel, &msg, 0));
}

static int take(int channel)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	char c;
	struct iovec iov = {&c, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	int fd = -1;

	if (recvmsg(channel, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static void echo_passed(void *arg)
{
	int fd = take(*(int *)arg);
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		if (send(fd, buf, (size_t)n, 0) != n)
			_exit(1);
	_exit(n == 0 ? 5 : 6);
}

CONF_CASE(passed_to_another_process)
{
	struct conf_pair p;
	int channel[2];
	pid_t pid;

	socketpair(AF_UNIX, SOCK_STREAM, 0, channel);
	pid = fork_child(echo_passed, &channel[1]);
	p = conf_pair();
	SAY_RESULT(send(p.a, "early ", 6, 0));
	settle(p.b);
	pass(channel[0], p.b);
	SAY_RESULT(close(p.b));
	RECV(p.a, 6, MSG_WAITALL);
	SAY_RESULT(send(p.a, "late", 4, 0));
	RECV(p.a, 4, MSG_WAITALL);
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	RECV(p.a, 4, MSG_WAITALL);
	say_ended("the other process", pid);
}

static int make_file(const char *text)
{
	char path[] = "/tmp/conformance-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		conf_broken("a file");
	unlink(path);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

CONF_CASE(sendfile_to_a_socket)
{
	struct conf_pair p = conf_pair();
	int file = make_file("0123456789");
	off_t at = 3;

	SAY_RESULT(sendfile(p.a, file, NULL, 4));
	RECV(p.b, 4, MSG_WAITALL);
	SAY_RESULT(lseek(file, 0, SEEK_CUR));
	SAY_RESULT(sendfile(p.a, file, &at, 100));
	say("%ld", (long)at);
	RECV(p.b, 7, MSG_WAITALL);
	SAY_RESULT(lseek(file, 0, SEEK_CUR));
	SAY_RESULT(sendfile(p.a, file, &at, 100));
	SAY_RESULT(sendfile(p.a, file, NULL, 100));
	RECV(p.b, 6, MSG_WAITALL);
	SAY_RESULT(sendfile(p.a, file, NULL, 100));
	SAY_RESULT(sendfile(p.a, -1, NULL, 100));
	at = -1;
	SAY_RESULT(sendfile(p.a, file, &at, 100));
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	at = 0;
	signal(SIGPIPE, SIG_IGN);
	SAY_RESULT(sendfile(p.a, file, &at, 100));
	say("%ld", (long)at);
}

/* A file that is sent does not keep a connection from getting a lane later. */
CONF_CASE(sendfile_first)
{
	struct conf_pair p = conf_connect();
	int file = make_file("0123456789");
	off_t at = 3;

	SAY_RESULT(sendfile(p.a, file, &at, 100));
	RECV(p.b, 7, MSG_WAITALL);
	conf_promote(&p);
	at = 0;
	SAY_RESULT(sendfile(p.a, file, &at, 2));
	RECV(p.b, 2, MSG_WAITALL);
}

static void drain(void *arg)
{
	say("all drained: %d", pattern_recv(*(int *)arg, 0, 2000000));
}

CONF_CASE(sendfile_of_much)
{
	struct conf_pair p = conf_pair();
	int file = make_file("");
	off_t at = 0;
	int ends[2];

	/* The file's bytes are those that pattern_recv() expects. */
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	for (size_t i = 0; i < 2000000; i += 20000) {
		static char chunk[20000];

		if (!pattern_send(ends[0], i, sizeof(chunk)) ||
		    recv(ends[1], chunk, sizeof(chunk), MSG_WAITALL) != sizeof(chunk) ||
		    write(file, chunk, sizeof(chunk)) != sizeof(chunk))
			conf_broken("a large file");
	}
	later(0, drain, &p.b);
	while (at < 2000000 && sendfile(p.a, file, &at, 2000000 - (size_t)at) > 0)
		;
	later_all_done();
	say("%ld", (long)at);
}

CONF_CASE(splice_both_ways)
{
	struct conf_pair p = conf_pair();
	int pipes[2];

	if (pipe(pipes))
		conf_broken("pipe");
	SAY_RESULT(send(p.a, "through a pipe", 14, 0));
	settle(p.b);
	SAY_RESULT(splice(p.b, NULL, pipes[1], NULL, 100, 0));
	SAY_RESULT(splice(pipes[0], NULL, p.b, NULL, 14, 0));
	RECV(p.a, 14, MSG_WAITALL);
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	settle(p.b);
	SAY_RESULT(splice(p.b, NULL, pipes[1], NULL, 100, 0));
}

CONF_CASE(asynchronous)
{
	struct conf_pair p = conf_pair();
	char text[] = "by a thread of libc";
	struct aiocb out = {.aio_fildes = p.a, .aio_buf = text, .aio_nbytes = sizeof(text) - 1};
	struct aiocb in = {.aio_fildes = p.b, .aio_buf = buf, .aio_nbytes = sizeof(text) - 1};
	const struct aiocb *both[2] = {&out, &in};

	SAY_RESULT(aio_read(&in));
	SAY_RESULT(aio_write(&out));
	while (aio_error(&in) == EINPROGRESS || aio_error(&out) == EINPROGRESS)
		aio_suspend(both, 2, NULL);
	SAY_RESULT(aio_return(&out));
	say_bytes("aio_return", buf, aio_return(&in));
}

CONF_CASE(by_number)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(syscall(SYS_write, p.a, "abc", 3));
	say_bytes("SYS_read", buf, syscall(SYS_read, p.b, buf, sizeof(buf)));
	SAY_RESULT(syscall(SYS_sendto, p.b, "def", 3, 0, NULL, 0));
	say_bytes("SYS_recvfrom", buf, syscall(SYS_recvfrom, p.a, buf, 100, 0, NULL, NULL));
	SAY_RESULT(syscall(SYS_shutdown, p.b, SHUT_WR));
	say_bytes("SYS_recvfrom", buf, syscall(SYS_recvfrom, p.a, buf, 100, 0, NULL, NULL));
	SAY_RESULT(syscall(SYS_close, p.b));
	SAY_RESULT(syscall(SYS_close, p.b));
	RECV(p.a, 100, 0);
	SAY_RESULT(syscall(SYS_getpid) == getpid());
}

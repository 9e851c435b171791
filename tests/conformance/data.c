/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conformance/conf.h"

/* Bytes there and back: every variant of the calls, and what their flags do. */

static char buf[256];

#define RECV(fd, len, flags)                                                                       \
	say_bytes("recv(" #fd ", " #len ", " #flags ")", buf, recv(fd, buf, len, flags))

CONF_CASE(read_write)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(write(p.a, "one", 3));
	say_bytes("read", buf, read(p.b, buf, sizeof(buf)));
	SAY_RESULT(send(p.b, "two", 3, 0));
	RECV(p.a, sizeof(buf), 0);
	SAY_RESULT(write(p.a, "0123456789", 10));
	say_bytes("read", buf, read(p.b, buf, 4));
	say_bytes("read", buf, read(p.b, buf, sizeof(buf)));
}

CONF_CASE(sendto_recvfrom)
{
	struct conf_pair p = conf_pair();
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(9)};
	socklen_t len = sizeof(addr);

	SAY_RESULT(sendto(p.a, "abc", 3, 0, NULL, 0));
	say_bytes("recvfrom", buf,
		  recvfrom(p.b, buf, sizeof(buf), 0, (struct sockaddr *)&addr, &len));
	say("length of the address: %u", len);
	SAY_RESULT(sendto(p.a, "def", 3, 0, (struct sockaddr *)&addr, sizeof(addr)));
	say_bytes("recvfrom", buf, recvfrom(p.b, buf, sizeof(buf), 0, NULL, NULL));
}

CONF_CASE(vectors)
{
	struct conf_pair p = conf_pair();
	struct iovec out[3] = {IOV("ab"), IOV(""), IOV("cdef")};
	char first[3] = "", second[16] = "";
	struct iovec in[2] = {{first, 2}, {second, 15}};
	volatile int negative = -1;

	SAY_RESULT(writev(p.a, out, 3));
	SAY_RESULT(readv(p.b, in, 2));
	say("\"%s\" \"%s\"", first, second);
	SAY_RESULT(pwritev2(p.a, out, 3, -1, 0));
	SAY_RESULT(preadv2(p.b, in, 2, -1, 0));
	say("\"%s\" \"%s\"", first, second);
	SAY_RESULT(pwritev2(p.a, out, 3, 0, 0));
	SAY_RESULT(preadv2(p.b, in, 2, 0, 0));
	SAY_RESULT(preadv2(p.b, in, 2, -1, RWF_NOWAIT));
	SAY_RESULT(writev(p.a, out, negative));
	SAY_RESULT(readv(p.b, in, negative));
	SAY_RESULT(writev(p.a, out, 0));
	SAY_RESULT(readv(p.b, in, 0));
}

CONF_CASE(many_vectors)
{
	struct conf_pair p = conf_pair();
	static char bytes[IOV_MAX + 1];
	static struct iovec iov[IOV_MAX + 1];
	struct msghdr msg = {.msg_iov = iov};

	for (int i = 0; i <= IOV_MAX; i++) {
		bytes[i] = (char)('a' + i % 26);
		iov[i] = (struct iovec){&bytes[i], 1};
	}
	SAY_RESULT(writev(p.a, iov, IOV_MAX));
	SAY_RESULT(writev(p.a, iov, IOV_MAX + 1));
	msg.msg_iovlen = IOV_MAX + 1;
	SAY_RESULT(sendmsg(p.a, &msg, 0));
	memset(bytes, 0, sizeof(bytes));
	msg.msg_iovlen = IOV_MAX;
	SAY_RESULT(recvmsg(p.b, &msg, MSG_WAITALL));
	say("%.30s", bytes);
	SAY_RESULT(readv(p.b, iov, IOV_MAX + 1));
	msg.msg_iovlen = IOV_MAX + 1;
	SAY_RESULT(recvmsg(p.b, &msg, MSG_DONTWAIT));
}

CONF_CASE(messages)
{
	struct conf_pair p = conf_pair();
	struct sockaddr_in name;
	char control[64];
	struct iovec out[2] = {IOV("ab"), IOV("cd")}, in[1] = {{buf, 3}};
	struct msghdr msg = {.msg_iov = out, .msg_iovlen = 2};

	SAY_RESULT(sendmsg(p.a, &msg, 0));
	msg = (struct msghdr){
		.msg_name = &name,
		.msg_namelen = sizeof(name),
		.msg_iov = in,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
		.msg_flags = 0x55,
	};
	say_bytes("recvmsg", buf, recvmsg(p.b, &msg, 0));
	say("name %u, control %zu, flags %#x", msg.msg_namelen, msg.msg_controllen, msg.msg_flags);
	say_bytes("recvmsg", buf, recvmsg(p.b, &msg, 0));
	SAY_RESULT(recvmsg(p.b, &msg, MSG_DONTWAIT));
	SAY_RESULT(recvmsg(p.b, &msg, MSG_ERRQUEUE));
}

CONF_CASE(many_messages)
{
	struct conf_pair p = conf_pair();
	char in[3][4];
	struct iovec out_iov[3] = {IOV("abc"), IOV("de"), IOV("fghi")};
	struct iovec in_iov[3] = {{in[0], 3}, {in[1], 2}, {in[2], 4}};
	struct timespec limit = {.tv_nsec = 50000000};
	struct mmsghdr msgs[3] = {0};

	for (int i = 0; i < 3; i++)
		msgs[i].msg_hdr = (struct msghdr){.msg_iov = &out_iov[i], .msg_iovlen = 1};
	SAY_RESULT(sendmmsg(p.a, msgs, 3, 0));
	say("%u %u %u", msgs[0].msg_len, msgs[1].msg_len, msgs[2].msg_len);
	for (int i = 0; i < 3; i++)
		msgs[i].msg_hdr = (struct msghdr){.msg_iov = &in_iov[i], .msg_iovlen = 1};
	settle_bytes(p.b, 9);
	SAY_RESULT(recvmmsg(p.b, msgs, 3, MSG_WAITFORONE, NULL));
	say("%u %u %u", msgs[0].msg_len, msgs[1].msg_len, msgs[2].msg_len);
	say("%.3s%.2s%.4s", in[0], in[1], in[2]);
	SAY_RESULT(recvmmsg(p.b, msgs, 3, MSG_DONTWAIT, NULL));
	SAY_RESULT(send(p.a, "z", 1, 0));
	SAY_RESULT(recvmmsg(p.b, msgs, 1, 0, &limit));
	limit.tv_nsec = 1000000000;
	SAY_RESULT(recvmmsg(p.b, msgs, 1, 0, &limit));
}

CONF_CASE(peek)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(send(p.a, "abcdef", 6, 0));
	RECV(p.b, 3, MSG_PEEK);
	RECV(p.b, 200, MSG_PEEK);
	RECV(p.b, 2, 0);
	RECV(p.b, 200, MSG_PEEK);
	RECV(p.b, 4, MSG_PEEK | MSG_WAITALL);
	RECV(p.b, 200, 0);
	RECV(p.b, 200, MSG_PEEK | MSG_DONTWAIT);
}

CONF_CASE(discard)
{
	struct conf_pair p = conf_pair();

	strcpy(buf, "untouched");
	SAY_RESULT(send(p.a, "abcdef", 6, 0));
	SAY_RESULT(recv(p.b, buf, 4, MSG_TRUNC));
	say("%s", buf);
	SAY_RESULT(recv(p.b, buf, 100, MSG_TRUNC | MSG_PEEK));
	say("%s", buf);
	RECV(p.b, 100, 0);
}

static void send_rest(void *arg)
{
	send(*(int *)arg, "fghij", 5, 0);
}

static void shut_down(void *arg)
{
	shutdown(*(int *)arg, SHUT_WR);
}

CONF_CASE(waitall)
{
	struct conf_pair p = conf_pair();

	SAY_RESULT(send(p.a, "abcde", 5, 0));
	later(30, send_rest, &p.a);
	RECV(p.b, 10, MSG_WAITALL);
	later_all_done();
	SAY_RESULT(send(p.a, "xy", 2, 0));
	settle(p.b);
	RECV(p.b, 10, MSG_WAITALL | MSG_DONTWAIT);
	SAY_RESULT(send(p.a, "klm", 3, 0));
	later(30, shut_down, &p.a);
	RECV(p.b, 10, MSG_WAITALL);
	RECV(p.b, 10, MSG_WAITALL);
}

CONF_CASE(nonblocking)
{
	struct conf_pair p = conf_pair();
	int on = 1, off = 0;

	RECV(p.b, 10, MSG_DONTWAIT);
	SAY_RESULT(fcntl(p.b, F_SETFL, O_NONBLOCK));
	SAY_RESULT((fcntl(p.b, F_GETFL) & O_NONBLOCK) != 0);
	RECV(p.b, 10, 0);
	say_bytes("read", buf, read(p.b, buf, 10));
	SAY_RESULT(fcntl(p.b, F_SETFL, 0));
	later(30, send_rest, &p.a);
	RECV(p.b, 10, 0);
	later_all_done();
	SAY_RESULT(ioctl(p.b, FIONBIO, &on));
	SAY_RESULT((fcntl(p.b, F_GETFL) & O_NONBLOCK) != 0);
	RECV(p.b, 10, 0);
	SAY_RESULT(ioctl(p.b, FIONBIO, &off));
	later(30, send_rest, &p.a);
	RECV(p.b, 10, 0);
}

CONF_CASE(nothing)
{
	struct conf_pair p = conf_pair();
	struct msghdr msg = {0};

	SAY_RESULT(send(p.a, "", 0, 0));
	SAY_RESULT(write(p.a, "", 0));
	SAY_RESULT(sendmsg(p.a, &msg, 0));
	SAY_RESULT(read(p.b, buf, 0));
	SAY_RESULT(recv(p.b, buf, 0, MSG_DONTWAIT));
	SAY_RESULT(send(p.a, "abc", 3, 0));
	settle(p.b);
	SAY_RESULT(read(p.b, buf, 0));
	SAY_RESULT(recv(p.b, buf, 0, 0));
	RECV(p.b, 100, 0);
	SAY_RESULT(shutdown(p.a, SHUT_WR));
	SAY_RESULT(send(p.a, "", 0, MSG_NOSIGNAL));
	settle(p.b);
	SAY_RESULT(recv(p.b, buf, 0, 0));
}

CONF_CASE(errno_is_left_alone)
{
	struct conf_pair p = conf_pair();

	errno = EXDEV;
	send(p.a, "abc", 3, 0);
	recv(p.b, buf, sizeof(buf), 0);
	say("errno after calls that went well: %s", strerrorname_np(errno));
}

CONF_CASE(big_both_ways)
{
	struct conf_pair p = conf_pair();
	enum { BYTES = 3000000, STEP = 30000 };
	bool ok = true;

	for (size_t at = 0; at < BYTES && ok; at += STEP)
		ok = pattern_send(p.a, at, STEP) && pattern_send(p.b, at, STEP) &&
		     pattern_recv(p.b, at, STEP) && pattern_recv(p.a, at, STEP);
	say("all bytes right: %d", ok);
}

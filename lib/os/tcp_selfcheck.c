/* SPDX-License-Identifier: MIT */
/*
 * The counting rule of tcp.h, tried on a loopback connection whose true counts are known. Nothing
 * here blocks without a limit: a packet filter may swallow loopback.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/util.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/syswait.h"
#include "os/tcp.h"

#define NS_PER_MS 1000000u

/* Odd sizes, so that a count that is off by a SYN, a FIN or a header shows. Chosen: the sum fits
 * any socket buffer. */
#define CHECK_WRITE_BYTES 1237u
#define CHECK_READ_BYTES 391u

struct check_pair {
	int fds[2]; /* the end that connected, the end that accepted */
	uint64_t deadline_ns;
};

static int check_wait(const struct check_pair *pair, int fd, short events)
{
	uint64_t now_ns = clock_now_ns();
	struct pollfd pfd = {fd, events, 0};
	int ret;

	if (now_ns >= pair->deadline_ns)
		return -ETIMEDOUT;
	ret = sys_poll(&pfd, 1, (int)((pair->deadline_ns - now_ns) / NS_PER_MS) + 1);
	/* A caller's signals are no reason to fail; the deadline stands. */
	if (ret == -EINTR)
		return 0;
	if (ret < 0)
		return ret;
	return ret == 0 ? -ETIMEDOUT : 0;
}

static int check_listen(struct sockaddr_in *ret_addr)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	AUTO_FD int fd = -1;
	int ret;

	fd = sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return TAKE(fd, -1);
	ret = sys_bind(fd, (struct sockaddr *)&addr, len);
	if (ret < 0)
		return ret;
	ret = sys_listen(fd, 1);
	if (ret < 0)
		return ret;
	ret = sys_getsockname(fd, (struct sockaddr *)&addr, &len);
	if (ret < 0)
		return ret;
	*ret_addr = addr;
	return TAKE(fd, -1);
}

/* Accept until it is our own other end; a stranger that came first is hung up on. */
static int check_accept(struct check_pair *pair, int listener)
{
	struct tcp_name own, name;
	int ret;

	for (;;) {
		AUTO_FD int fd = -1;

		ret = check_wait(pair, listener, POLLIN);
		if (ret < 0)
			return ret;
		fd = sys_accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd == -EAGAIN || fd == -EINTR || fd == -ECONNABORTED)
			continue;
		if (fd < 0)
			return TAKE(fd, -1);
		if (tcp_name_read(fd, &name) < 0)
			continue;
		ret = tcp_name_read(pair->fds[0], &own);
		if (ret < 0)
			return ret;
		own = tcp_name_mirror(&own);
		if (memcmp(&own, &name, sizeof(own)) == 0) {
			pair->fds[1] = TAKE(fd, -1);
			return 0;
		}
	}
}

static int check_open(struct check_pair *pair)
{
	struct sockaddr_in addr;
	AUTO_FD int listener = -1;
	int ret;

	listener = check_listen(&addr);
	if (listener < 0)
		return TAKE(listener, -1);
	pair->fds[0] = sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (pair->fds[0] < 0)
		return pair->fds[0];
	ret = sys_connect(pair->fds[0], (struct sockaddr *)&addr, sizeof(addr));
	if (ret < 0 && ret != -EINPROGRESS)
		return ret;
	ret = check_wait(pair, pair->fds[0], POLLOUT);
	if (ret < 0)
		return ret;
	return check_accept(pair, listener);
}

static int check_move(struct check_pair *pair, int from, size_t write_bytes, size_t read_bytes)
{
	uint8_t buf[CHECK_WRITE_BYTES] = {0};
	size_t done = 0;
	ssize_t n;
	int ret;

	n = sys_sendto(pair->fds[from], buf, write_bytes, MSG_NOSIGNAL, NULL, 0);
	if (n < 0)
		return (int)n;
	if ((size_t)n != write_bytes)
		return -ENOBUFS;
	while (done < read_bytes) {
		ret = check_wait(pair, pair->fds[!from], POLLIN);
		if (ret < 0)
			return ret;
		n = sys_read(pair->fds[!from], buf, read_bytes - done);
		if (n == -EAGAIN || n == -EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? (int)n : -ECONNRESET;
		done += (size_t)n;
	}
	return 0;
}

/* One end's counts against the truth: 0 or 1 as enum tcp_rule. */
static int check_end(int fd, unsigned int bias, uint64_t written, uint64_t consumed)
{
	struct tcp_facts facts;
	int ret;

	ret = tcp_facts_read(fd, &facts);
	if (ret == -EPROTO)
		return TCP_RULE_BROKEN;
	if (ret < 0)
		return ret;
	if (facts.state != TCP_STATE_ESTABLISHED || facts.syn_bias != bias ||
	    facts.written_bytes != written || facts.consumed_bytes != consumed)
		return TCP_RULE_BROKEN;
	return TCP_RULE_HOLDS;
}

/* Both directions move different amounts, and are looked at after every step. */
static int check_rule(struct check_pair *pair)
{
	uint64_t written[2] = {0, 0};
	uint64_t consumed[2] = {0, 0};
	int ret;

	for (size_t step = 0; step <= 4; step++) {
		for (unsigned int end = 0; end < 2; end++) {
			ret = check_end(pair->fds[end], end == 0, written[end], consumed[end]);
			if (ret != TCP_RULE_HOLDS)
				return ret;
		}
		for (unsigned int end = 0; end < 2; end++) {
			size_t in = CHECK_WRITE_BYTES - end - step;
			size_t out = CHECK_READ_BYTES + end + step;

			ret = check_move(pair, (int)end, in, out);
			if (ret < 0)
				return ret;
			written[end] += in;
			consumed[!end] += out;
		}
	}
	return TCP_RULE_HOLDS;
}

int tcp_rule_selfcheck(void)
{
	struct check_pair pair = {.fds = {-1, -1},
				  .deadline_ns =
					  clock_now_ns() + (uint64_t)TCP_SELFCHECK_MS * NS_PER_MS};
	int ret;

	ret = check_open(&pair);
	if (ret == 0)
		ret = check_rule(&pair);
	fd_close(pair.fds[0]);
	fd_close(pair.fds[1]);
	return ret;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/prng.h"
#include "os/fd.h"
#include "os/tcp.h"

#include "lib/child.h"
#include "lib/net.h"
#include "lib/tap.h"

/* Readings per direction and connection under load. Chosen: a second or two. */
#define LOAD_READINGS 50000u
#define LOAD_CHUNK_BYTES 20000u

static void close_pair(int fds[2])
{
	fd_close(fds[0]);
	fd_close(fds[1]);
}

static const char *const family_names[] = {"IPv4", "IPv6", "v4-mapped", "IPv4 to v4-mapped"};

/* A pair, or a diagnostic for a family that this machine does not have. */
static bool pair_or_note(enum net_family family, int fds[2])
{
	int ret = net_pair(family, fds);

	if (ret == -EADDRNOTAVAIL || ret == -EAFNOSUPPORT) {
		tap_diag("no %s here (%s)", family_names[family], strerror(-ret));
		return false;
	}
	return CHECK_OK(ret);
}

TAP_CASE(rule_holds_here)
{
	int before = child_count_fds();

	CHECK_EQ(tcp_rule_selfcheck(), TCP_RULE_HOLDS);
	CHECK_EQ(child_count_fds(), before);
}

static void out_of_descriptors(void *arg)
{
	int fd;

	(void)arg;
	do {
		fd = dup(STDOUT_FILENO);
	} while (fd >= 0);
	CHECK_EQ(tcp_rule_selfcheck(), -EMFILE);
}

TAP_CASE(selfcheck_reports_what_kept_it_from_running)
{
	child_run(CHILD_UID_SAME, out_of_descriptors, NULL);
}

TAP_CASE(other_sockets_are_refused)
{
	struct tcp_facts facts;
	int fds[2], fd;

	CHECK_EQ(tcp_check(-1), -EBADF);
	CHECK_EQ(tcp_check_accepted(-1), -EBADF);
	REQUIRE(pipe(fds) == 0);
	CHECK_EQ(tcp_check(fds[0]), -ENOTSOCK);
	close_pair(fds);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	CHECK_EQ(tcp_check(fds[0]), -EPROTOTYPE);
	CHECK_EQ(tcp_check_accepted(fds[0]), -EPROTOTYPE);
	close_pair(fds);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK_EQ(tcp_check(fd), -EPROTOTYPE);
	fd_close(fd);
	fd = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
	if (fd >= 0)
		CHECK_EQ(tcp_check(fd), -EPROTOTYPE);
	fd_close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(tcp_check(fd), 0);
	CHECK_EQ(tcp_check_accepted(fd), 0);
	CHECK_EQ(tcp_facts_read(fd, &facts), -ENOTCONN);
	CHECK_EQ(listen(fd, 1), 0);
	CHECK_EQ(tcp_facts_read(fd, &facts), -ENOTCONN);
	fd_close(fd);
}

static void check_names(enum net_family family, const struct tcp_facts facts[2])
{
	struct tcp_name mirror = tcp_name_mirror(&facts[1].name);

	CHECK(memcmp(&facts[0].name, &mirror, sizeof(mirror)) == 0);
	CHECK(memcmp(&facts[0].name, &facts[1].name, sizeof(mirror)) != 0);
	CHECK(!tcp_name_is_self(&facts[0].name));
	CHECK_EQ(facts[0].name.local.family, family == NET_V6 ? AF_INET6 : AF_INET);
	CHECK(facts[0].cookie != 0 && facts[0].cookie != facts[1].cookie);
	CHECK(facts[0].netns_cookie != 0 && facts[0].netns_cookie == facts[1].netns_cookie);
}

TAP_CASE(facts_of_both_ends)
{
	struct tcp_facts facts[2];
	char buf[300] = {0};
	int fds[2];

	for (enum net_family family = NET_V4; family <= NET_MIXED; family++) {
		if (!pair_or_note(family, fds))
			continue;
		CHECK_EQ(write(fds[0], buf, 300), 300);
		CHECK_EQ(write(fds[1], buf, 200), 200);
		CHECK_EQ(recv(fds[1], buf, 100, MSG_WAITALL), 100);
		for (int i = 0; i < 2; i++) {
			REQUIRE_OK(tcp_facts_read(fds[i], &facts[i]));
			CHECK_EQ(facts[i].state, TCP_STATE_ESTABLISHED);
			CHECK_EQ(facts[i].syn_bias, i == 0);
			CHECK(!facts[i].fin_sent && !facts[i].fin_received && !facts[i].has_ulp);
			CHECK_STR(facts[i].device, "");
		}
		check_names(family, facts);
		CHECK(facts[0].acked_bytes <= facts[1].received_bytes);
		CHECK_EQ(facts[0].written_bytes, 300);
		CHECK_EQ(facts[0].consumed_bytes, 0);
		CHECK_EQ(facts[1].written_bytes, 200);
		CHECK_EQ(facts[1].consumed_bytes, 100);
		CHECK_EQ(facts[1].received_bytes, 300);
		close_pair(fds);
	}
}

/* Write, and let the peer's kernel acknowledge, until @arg is shut. */
static void *write_on(void *arg)
{
	const int *fds = arg;
	char buf[64] = {0};

	while (send(fds[0], buf, sizeof(buf), MSG_NOSIGNAL) > 0 &&
	       read(fds[1], buf, sizeof(buf)) > 0)
		;
	return NULL;
}

/* All are counts of one connection, though each is read at a moment of its own. */
TAP_CASE(facts_hold_together_while_bytes_go)
{
	struct tcp_facts facts;
	pthread_t writer;
	int fds[2], rc, whole = 0, torn = 0;

	REQUIRE_OK(net_pair(NET_V4, fds));
	pthread_create(&writer, NULL, write_on, fds);
	for (int i = 0; i < 20000; i++) {
		rc = tcp_facts_read(fds[0], &facts);
		if (rc == -EAGAIN)
			continue; /* too busy for a stable count */
		REQUIRE_OK(rc);
		whole++;
		torn += facts.acked_bytes > facts.written_bytes;
	}
	CHECK(whole > 100);
	CHECK_EQ(torn, 0);
	shutdown(fds[0], SHUT_RDWR);
	pthread_join(writer, NULL);
	close_pair(fds);
}

TAP_CASE(fin_shows_on_both_ends)
{
	struct tcp_facts facts;
	enum tcp_state state;
	unsigned int bias;
	uint64_t bytes;
	int fds[2];
	char byte;

	REQUIRE_OK(net_pair(NET_V4, fds));
	CHECK_EQ(shutdown(fds[0], SHUT_WR), 0);
	CHECK_EQ(read(fds[1], &byte, 1), 0);
	CHECK_OK(tcp_facts_read(fds[0], &facts));
	CHECK(facts.fin_sent && !facts.fin_received);
	CHECK_EQ(facts.written_bytes, 0);
	CHECK_OK(tcp_facts_read(fds[1], &facts));
	CHECK(!facts.fin_sent && facts.fin_received);
	CHECK_EQ(facts.state, TCP_STATE_CLOSE_WAIT);
	CHECK_EQ(tcp_written(fds[0], 1, &bytes), -ESHUTDOWN);
	CHECK_EQ(tcp_syn_bias(fds[0], &bias), -ESHUTDOWN);
	CHECK_EQ(shutdown(fds[1], SHUT_WR), 0);
	CHECK_EQ(read(fds[0], &byte, 1), 0);
	CHECK_OK(tcp_state_read(fds[0], &state));
	CHECK(state != TCP_STATE_ESTABLISHED);
	close_pair(fds);
}

/* A FIN that has arrived behind unread bytes is counted by the kernel, and not by us. */
TAP_CASE(consumed_allows_for_the_fin)
{
	char buf[100] = {0};
	unsigned int bias;
	uint64_t bytes;
	int fds[2];

	REQUIRE_OK(net_pair(NET_V4, fds));
	CHECK_EQ(write(fds[1], buf, 50), 50);
	CHECK_EQ(write(fds[0], buf, 100), 100);
	CHECK_EQ(shutdown(fds[0], SHUT_WR), 0);
	for (uint64_t done = 0; done <= 100; done++) {
		CHECK_OK(tcp_consumed(fds[1], &bytes));
		CHECK_EQ(bytes, done);
		CHECK_EQ(read(fds[1], buf, 1), done < 100);
	}
	CHECK_OK(tcp_consumed(fds[1], &bytes));
	CHECK_EQ(bytes, 100);
	CHECK_OK(tcp_syn_bias(fds[1], &bias));
	CHECK_EQ(bias, 0);
	CHECK_OK(tcp_written(fds[1], bias, &bytes));
	CHECK_EQ(bytes, 50);
	CHECK_OK(tcp_consumed(fds[0], &bytes));
	CHECK_EQ(bytes, 0);
	CHECK_EQ(shutdown(fds[1], SHUT_WR), 0);
	CHECK_EQ(recv(fds[0], buf, 50, MSG_WAITALL), 50);
	CHECK_EQ(read(fds[0], buf, 1), 0);
	CHECK_EQ(tcp_consumed(fds[0], &bytes), -ENOTCONN);
	CHECK_EQ(tcp_written(fds[0], 1, &bytes), -ENOTCONN);
	close_pair(fds);
}

TAP_CASE(device_shows)
{
	struct tcp_facts facts;
	int fds[2];

	REQUIRE_OK(net_pair(NET_V4, fds));
	if (setsockopt(fds[0], SOL_SOCKET, SO_BINDTODEVICE, "lo", 3)) {
		close_pair(fds);
		SKIP("SO_BINDTODEVICE: %s", strerror(errno));
	}
	CHECK_OK(tcp_facts_read(fds[0], &facts));
	CHECK_STR(facts.device, "lo");
	close_pair(fds);
}

TAP_CASE(socket_connected_to_itself_is_known)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct tcp_facts facts;

	REQUIRE(bind(fd, (struct sockaddr *)&addr, len) == 0);
	REQUIRE(getsockname(fd, (struct sockaddr *)&addr, &len) == 0);
	REQUIRE(connect(fd, (struct sockaddr *)&addr, len) == 0);
	CHECK_OK(tcp_facts_read(fd, &facts));
	CHECK(tcp_name_is_self(&facts.name));
	fd_close(fd);
}

struct load {
	int fd;
	unsigned int bias;
	uint64_t seed;
	_Atomic uint64_t unsure;
	_Atomic bool *stop;
};

/* After each write the true count is known here, whatever the peer's kernel acknowledges meanwhile.
 */
static void *load_write(void *arg)
{
	static const char data[LOAD_CHUNK_BYTES];
	struct load *load = arg;
	uint64_t total = 0, got;
	struct prng prng;
	int ret;

	prng_init(&prng, load->seed);
	for (unsigned int i = 0; i < LOAD_READINGS; i++) {
		size_t len = prng_chance(&prng, 50) ? 1 + prng_below(&prng, 100)
						    : 1 + prng_below(&prng, sizeof(data));
		ssize_t n = send(load->fd, data, len, MSG_NOSIGNAL);

		if (!CHECK(n > 0))
			break;
		total += (uint64_t)n;
		ret = tcp_written(load->fd, load->bias, &got);
		if (ret == -EAGAIN)
			atomic_fetch_add(&load->unsure, 1);
		else if (!CHECK_EQ(ret, 0) || !CHECK_EQ(got, total))
			break;
	}
	shutdown(load->fd, SHUT_WR);
	return NULL;
}

static void *load_read(void *arg)
{
	struct load *load = arg;
	char data[LOAD_CHUNK_BYTES];
	uint64_t total = 0, got;
	struct prng prng;
	ssize_t n;
	int ret;

	prng_init(&prng, ~load->seed);
	for (;;) {
		n = recv(load->fd, data, 1 + prng_below(&prng, sizeof(data)), 0);
		if (n <= 0)
			break;
		total += (uint64_t)n;
		ret = tcp_consumed(load->fd, &got);
		/* The peer's FIN may have been counted already; over once ours has gone, too. */
		if (ret == -EAGAIN)
			atomic_fetch_add(&load->unsure, 1);
		else if (ret != -ENOTCONN && (!CHECK_EQ(ret, 0) || !CHECK_EQ(got, total)))
			break;
	}
	CHECK_EQ(n, 0);
	return NULL;
}

/* A third thread that registers over and over: its bias must be right at any moment. */
static void *load_bias(void *arg)
{
	struct load *load = arg;
	struct tcp_facts facts;
	unsigned int bias;

	while (!atomic_load(load->stop)) {
		int ret = tcp_syn_bias(load->fd, &bias);

		if (ret == 0)
			CHECK_EQ(bias, load->bias);
		ret = tcp_facts_read(load->fd, &facts);
		if (ret == 0 && facts.state == TCP_STATE_ESTABLISHED)
			CHECK_EQ(facts.syn_bias, load->bias);
		usleep(500);
	}
	return NULL;
}

static void run_load(enum net_family family)
{
	_Atomic bool stop = false;
	pthread_t threads[6];
	struct load ends[2];
	int fds[2];

	if (!pair_or_note(family, fds))
		SKIP("no %s here", family_names[family]);
	for (int i = 0; i < 2; i++)
		ends[i] = (struct load){fds[i], i == 0, (uint64_t)(family * 2 + i), 0, &stop};
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_create(&threads[i], NULL, load_write, &ends[i]), 0);
		CHECK_EQ(pthread_create(&threads[2 + i], NULL, load_read, &ends[i]), 0);
		CHECK_EQ(pthread_create(&threads[4 + i], NULL, load_bias, &ends[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&stop, true);
	pthread_join(threads[4], NULL);
	pthread_join(threads[5], NULL);
	tap_diag("%s: unsure (-EAGAIN) %llu times", family_names[family],
		 (unsigned long long)(ends[0].unsure + ends[1].unsure));
	CHECK(ends[0].unsure + ends[1].unsure < LOAD_READINGS / 100);
	close_pair(fds);
}

TAP_CASE(counts_are_exact_under_load_v4)
{
	run_load(NET_V4);
}

TAP_CASE(counts_are_exact_under_load_v6)
{
	run_load(NET_V6);
}

TAP_CASE(counts_are_exact_under_load_mapped)
{
	run_load(NET_MAPPED);
}

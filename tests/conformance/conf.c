/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conformance/conf.h"
#include "os/tcp.h"

/* Rounds of a byte each way in the reference run; in the others, how long they may take. */
#define REFERENCE_ROUNDS 4
#define PROMOTE_MS 8000

static struct conf_case *cases;

void conf_register(struct conf_case *conf_case)
{
	struct conf_case **at = &cases;

	while (*at)
		at = &(*at)->next;
	*at = conf_case;
}

void conf_broken(const char *fmt, ...)
{
	int error = errno;
	va_list args;

	fprintf(stderr, "broken: ");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, " (%s)\n", strerror(error));
	fflush(stdout);
	_exit(70);
}

void say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void say_result(const char *what, long result)
{
	if (result == -1)
		say("%s = %s", what, strerrorname_np(errno));
	else
		say("%s = %ld", what, result);
}

void say_bytes(const char *what, const char *buf, ssize_t n)
{
	if (n < 0)
		say("%s = %s", what, strerrorname_np(errno));
	else
		say("%s = %zd \"%.*s\"", what, n, (int)n, buf);
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

void pause_ms(unsigned int ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

int conf_listen(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 8))
		conf_broken("listen");
	return fd;
}

int conf_connect_to(int listener)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || getsockname(listener, (struct sockaddr *)&addr, &len) ||
	    connect(fd, (struct sockaddr *)&addr, len))
		conf_broken("connect");
	return fd;
}

struct conf_pair conf_connect(void)
{
	struct conf_pair pair;
	int listener = conf_listen();

	pair.a = conf_connect_to(listener);
	pair.b = accept(listener, NULL, NULL);
	if (pair.b < 0)
		conf_broken("accept");
	close(listener);
	return pair;
}

static void byte_across(int from, int to)
{
	char c = 'p';

	if (send(from, &c, 1, 0) != 1 || recv(to, &c, 1, MSG_WAITALL) != 1 || c != 'p')
		conf_broken("a byte across");
}

/* Payload that the kernel has seen on both ends: it stands still when bytes go elsewhere. */
static uint64_t kernel_bytes(const struct conf_pair *pair)
{
	uint64_t a = 0, b = 0;

	if (tcp_consumed(pair->a, &a) || tcp_consumed(pair->b, &b))
		conf_broken("the kernel's count");
	return a + b;
}

void conf_promote(struct conf_pair *pair)
{
	bool reference = !getenv("CONF_LANE");
	uint64_t end = now_ms() + PROMOTE_MS;
	uint64_t before;

	for (int i = 0; i < REFERENCE_ROUNDS || !reference; i++) {
		before = reference ? 0 : kernel_bytes(pair);
		byte_across(pair->a, pair->b);
		byte_across(pair->b, pair->a);
		if (!reference && kernel_bytes(pair) == before)
			return;
		if (now_ms() > end)
			conf_broken("not promoted");
		if (i > 100)
			pause_ms(1);
	}
}

struct conf_pair conf_pair(void)
{
	struct conf_pair pair = conf_connect();

	conf_promote(&pair);
	return pair;
}

void settle(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN | POLLRDHUP};

	if (poll(&pollfd, 1, 10000) <= 0)
		conf_broken("nothing came");
}

void settle_bytes(int fd, int n)
{
	uint64_t end = now_ms() + 10000;
	int there = 0;

	while (ioctl(fd, FIONREAD, &there) == 0 && there < n) {
		if (now_ms() > end)
			conf_broken("not enough came");
		pause_ms(1);
	}
}

/* Sleeping at so many looks, JOB_LOOK_MS apart, means that a thread waits for something that takes
 * long; and how long one that never does is waited for. Chosen. */
#define JOB_LOOKS 3
#define JOB_LOOK_MS 2u
#define JOB_WAIT_MS 1000u

struct job {
	pthread_t thread;
	pid_t caller;
	unsigned int delay_ms;
	void (*fn)(void *arg);
	void *arg;
};

static struct job jobs[16];
static size_t job_count;

static bool is_asleep(pid_t thread)
{
	char path[64], text[128] = "", *state;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	stat = fopen(path, "re");
	if (!stat)
		return true; /* it has ended: nothing to wait for */
	state = fgets(text, sizeof(text), stat) ? strrchr(text, ')') : NULL;
	fclose(stat);
	return state && state[1] == ' ' && state[2] == 'S';
}

/* On a busy machine the delay alone says nothing about how far the caller has come. */
static void await_sleep(pid_t thread)
{
	uint64_t end = now_ms() + JOB_WAIT_MS;

	for (int looks = 0; looks < JOB_LOOKS && now_ms() < end;) {
		looks = is_asleep(thread) ? looks + 1 : 0;
		pause_ms(JOB_LOOK_MS);
	}
}

static void *job_run(void *arg)
{
	struct job *job = arg;

	pause_ms(job->delay_ms);
	await_sleep(job->caller);
	job->fn(job->arg);
	return NULL;
}

void later(unsigned int delay_ms, void (*fn)(void *arg), void *arg)
{
	struct job *job = &jobs[job_count++];

	*job = (struct job){.caller = gettid(), .delay_ms = delay_ms, .fn = fn, .arg = arg};
	if (pthread_create(&job->thread, NULL, job_run, job))
		conf_broken("a thread");
}

void later_all_done(void)
{
	while (job_count)
		pthread_join(jobs[--job_count].thread, NULL);
}

pid_t fork_child(void (*fn)(void *arg), void *arg)
{
	pid_t pid = fork();

	if (pid < 0)
		conf_broken("fork");
	if (pid == 0) {
		fn(arg);
		fflush(stdout);
		_exit(0);
	}
	return pid;
}

void say_ended(const char *what, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		conf_broken("waitpid");
	if (WIFEXITED(status))
		say("%s: exit status %d", what, WEXITSTATUS(status));
	else
		say("%s: signal %s", what, sigabbrev_np(WTERMSIG(status)));
}

static uint8_t pattern_at(size_t offset)
{
	return (uint8_t)(offset * 31 + (offset >> 8) * 17 + (offset >> 16));
}

bool pattern_send(int fd, size_t offset, size_t len)
{
	uint8_t buf[20000];

	while (len) {
		size_t n = 1 + (offset * 7919) % sizeof(buf);
		ssize_t sent;

		if (n > len)
			n = len;
		for (size_t i = 0; i < n; i++)
			buf[i] = pattern_at(offset + i);
		sent = send(fd, buf, n, MSG_NOSIGNAL);
		if (sent < 0)
			return false;
		offset += (size_t)sent;
		len -= (size_t)sent;
	}
	return true;
}

bool pattern_recv(int fd, size_t offset, size_t len)
{
	uint8_t buf[30000];

	while (len) {
		size_t want = 1 + (offset * 104729) % sizeof(buf);
		ssize_t n = recv(fd, buf, want < len ? want : len, 0);

		if (n <= 0)
			return false;
		for (ssize_t i = 0; i < n; i++)
			if (buf[i] != pattern_at(offset + (size_t)i)) {
				say("wrong byte at %zu", offset + (size_t)i);
				return false;
			}
		offset += (size_t)n;
		len -= (size_t)n;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct conf_case *c;

	for (c = cases; c && argc == 2; c = c->next) {
		if (strcmp(argv[1], "--list") == 0)
			puts(c->name);
		else if (strcmp(argv[1], c->name) == 0)
			break;
	}
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return 0;
	if (argc != 2 || !c) {
		fprintf(stderr, "usage: %s CASE | --list\n", argv[0]);
		return 64;
	}
	c->run();
	later_all_done();
	say("end");
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common.h"

void bench_die(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

struct cpus cpus_parse(const char *text)
{
	struct cpus cpus = {{-1, -1}};

	if (strcmp(text, "none") != 0 && sscanf(text, "%d,%d", &cpus.cpu[0], &cpus.cpu[1]) != 2) {
		errno = EINVAL;
		bench_die("--cpus takes A,B or none");
	}
	return cpus;
}

void cpus_pin(const struct cpus *cpus, int which)
{
	cpu_set_t set;

	if (cpus->cpu[which] < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((unsigned int)cpus->cpu[which], &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		bench_die("pinning to a CPU");
}

uint64_t count_parse(const char *text)
{
	static const char units[] = "KMG";
	char *rest;
	uint64_t value = strtoull(text, &rest, 10);
	const char *unit = *rest ? strchr(units, *rest) : NULL;

	if (rest == text || (*rest && (!unit || rest[1]))) {
		errno = EINVAL;
		bench_die(text);
	}
	return unit ? value << (10 * (unit - units + 1)) : value;
}

void *shared_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		bench_die("shared memory");
	return memory;
}

static uint64_t timeval_ns(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000000u + (uint64_t)tv->tv_usec * 1000u;
}

uint64_t cpu_time_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return timeval_ns(&usage.ru_utime) + timeval_ns(&usage.ru_stime);
}

static struct sockaddr_in loopback(uint16_t port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return addr;
}

int loopback_listen(int backlog, uint16_t *ret_port)
{
	struct sockaddr_in addr = loopback(0);
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, backlog) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len))
		bench_die("listening");
	*ret_port = ntohs(addr.sin_port);
	return fd;
}

int loopback_connect(uint16_t port)
{
	struct sockaddr_in addr = loopback(port);
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		bench_die("connecting");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}
